"""Streams that messages come from: of members and clients that have proven who they are, and of strangers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.transport.streams.image cimport Assembler, Image

cdef int32_t UNPROVEN

cdef class Source:
    cdef object __weakref__
    cdef readonly Image image
    cdef readonly bint is_first           # of the first lane: looked at before all others, and not held with them
    cdef readonly int weight              # share of a round, 1 or more

cdef class ConsensusSource(Source):
    """One image of the consensus stream, and the member it has proven to be of (ordo.cluster.module.members.member_proofs)."""
    cdef readonly int32_t member_id       # UNPROVEN until then
    cdef int64_t readers_heard_ns         # when the member said last that somebody follows the log there
    cdef bint has_readers(self, int64_t now_ns) noexcept nogil

cdef class IngressSource(Source):
    """One image of an ingress stream. It is proven by its first message that a session's client may send."""
    cdef Assembler assembler
    cdef bint is_proven
    cdef readonly bint is_timed           # its frames have the time at which they arrived, from the driver
    cdef int64_t held_until_ns            # its next message waits for a quota until then
    cdef int64_t credit                   # of messages in this round, long ones count more; 0: another round begins
    cdef inline bint has_message(self) noexcept nogil:    # whether one waits; where none does nothing of a share is left
        if self.image.has_frame():
            return True
        self.credit = 0
        return False

cdef class Sources:
    """The sources of one kind. Those that are proven are looked at each turn, of the others a few now and then.

    Anybody can open a stream. Hundreds of them, looked at each turn, took a fifth of a leader's time; eight a turn of an
    idle leader, whom each datagram of a flood wakes, a twentieth.
    """
    cdef list proven                      # [Source]; those of the first lane lead
    cdef Py_ssize_t first_count           # of the first lane
    cdef Py_ssize_t _first_turn           # of these, who goes first in this turn
    cdef Py_ssize_t _turn                 # of the others
    cdef list _strangers                  # [Source]
    cdef Py_ssize_t _next
    cdef int64_t _looked_ns

    cpdef void add(self, Source source) noexcept
    cpdef void remove(self, Image image) noexcept
    cpdef void promote(self, Source source) noexcept
    cpdef void set_lane(self, Source source, int weight, bint is_first) noexcept
    cdef Py_ssize_t place(self, Py_ssize_t number, Py_ssize_t count) noexcept   # in `proven` of the one that is next
    cdef void end_turn(self, Py_ssize_t cut) noexcept    # `cut`: number of the first for which there was no room, or -1
    cdef Source stranger_of(self, Image image)      # None where the image is not one of a stranger
    cdef int stranger_count(self, int64_t now_ns) noexcept     # to be looked at this turn
    cdef Source next_stranger(self)                 # None where there is none

cdef class Allowance:
    """So many messages of strangers a second may take the interpreter, of all strangers together; the others wait.

    Somebody without a session, in one stream, could otherwise have a member look at messages all the time.
    """
    cdef int64_t _interval_ns
    cdef int64_t _burst_ns
    cdef int64_t _paid_until_ns

    cdef bint take(self, int64_t now_ns) noexcept nogil
    cdef void give_back(self) noexcept nogil        # what was taken is not needed

cdef bint takes_interpreter(const uint8_t* message, int64_t length_bytes) noexcept nogil
