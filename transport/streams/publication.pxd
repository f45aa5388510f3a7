"""Publications: the writing side of a log buffer (log-buffer.md §3-§5)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.agents.wake cimport Waker
from ordo.transport.streams.logbuffer cimport LogBuffers

cdef struct Claim:
    uint8_t* payload              # where to write, `length_bytes` long
    int32_t length_bytes
    uint8_t* frame                # the header before it

cdef class Publication:
    """A concurrent publication. Results of `append*`: a position > 0, or one of the negative result codes."""
    cdef LogBuffers log
    cdef int64_t* limit_address                # pub-lmt counter
    cdef bint closed
    cdef readonly int32_t session_id
    cdef readonly int32_t stream_id
    cdef readonly str channel
    cdef readonly int64_t registration_id
    cdef readonly int64_t original_registration_id
    cdef readonly int32_t channel_status_id    # counter id, -1 for IPC
    cdef readonly int32_t max_payload_length   # of one frame: mtu - 32
    cdef readonly int32_t max_message_length   # min(term_length / 8, 16 MiB)
    cdef int64_t max_position                  # term_length * 2^31
    cdef object _client
    cdef Waker _waker
    cdef Counter _limit
    # one message gathered from two parts (either may be empty); fragments when needed
    cdef int64_t append(self, const uint8_t* a, int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil
    # payload of one frame, 0..max_payload_length; result codes as append
    cdef int64_t claim(self, int32_t length_bytes, Claim* out) noexcept nogil
    cdef void commit(self, Claim* claim) noexcept nogil
    cdef void abort(self, Claim* claim) noexcept nogil
    cdef int64_t position_now(self) noexcept nogil      # of the producer; CLOSED when closed
    # space for `required` aligned bytes: a position after them > 0 and where they go, or a result code
    cdef int64_t _reserve(self, int64_t required, int64_t message_length, int32_t* term_id, uint8_t** frame,
                          int32_t* term_offset) noexcept nogil
    cdef int64_t _refusal(self, int64_t position, int64_t message_length) noexcept nogil
    cdef void _write_fragments(self, uint8_t* frame, int32_t term_offset, int32_t term_id, const uint8_t* a,
                               int64_t a_length, const uint8_t* b, int64_t b_length) noexcept nogil

cdef class ExclusivePublication(Publication):
    """One writer, no atomics on the tail (log-buffer.md §4.2)."""
    cdef int32_t term_id
    cdef int64_t term_offset
    cdef int partition
    cdef int64_t term_begin_position
    # frames that are already formed (log-buffer.md §4.2 offerBlock): whole frames, at most to the end of the term
    cdef int64_t append_block(self, const uint8_t* frames, int32_t length_bytes) noexcept nogil
    # one PAD frame with `length_bytes` after its header, at most what a longest message takes
    cdef int64_t append_padding(self, int32_t length_bytes) noexcept nogil
    # reserved value of the first frame of the next append; it stands there already, so nobody sees the frame without
    cdef void stamp_next(self, int64_t reserved_value) noexcept nogil
    cdef void _rotate(self) noexcept nogil
    cdef int64_t _end_of_term(self) noexcept nogil

cdef class BufferClaim:
    """A frame reserved in the log, to be written in place; see `Publication.try_claim`."""
    cdef Claim _claim
    cdef Publication _publication
    cdef object _view
    cdef bint _open
    cdef readonly int64_t position
    cdef uint8_t* _frame(self) except NULL
    cdef _finish(self, bint committed)
