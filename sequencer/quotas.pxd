"""How much a session, and a principal, may append a second; and how far the log may be ahead of the service."""

from libc.stdint cimport int32_t, int64_t

from ordo.runtime.native.native_vector cimport NativeVector

cdef enum:
    NO_ACCOUNT = -1                       # nothing of the session is counted
    UNASKED = -2                          # the first message of a session has it asked for

cdef struct Account:
    int64_t message_ns                    # what a message costs; 0: messages are not bounded
    int64_t byte_ps                       # what a byte costs, in picoseconds; 0: bytes are not bounded
    int64_t messages_paid_ns              # up to when the messages that were taken are paid for
    int64_t bytes_paid_ns                 # the same for bytes
    int64_t held_since_ns                 # since when messages have been held again and again
    int64_t held_until_ns                 # when the newest one that was held may be taken
    int64_t held_count                    # messages that had to wait
    int32_t payer                         # account of the session's principal, or NO_ACCOUNT
    bint is_open

cdef class Quotas:
    """Bounds on what a leader takes into its log. What is over a bound stays in its image, and flow control holds the
    sender back: nothing is lost, and nothing overtakes another message of the same image.

    Each account fills up with time, up to a burst (the algorithm GCRA): a message is taken while the ones before it are
    paid for, or will be within the burst, whatever its length, and paid for when it is appended.
    """
    cdef NativeVector _accounts           # of Account
    cdef list _free                       # numbers of accounts that are closed
    cdef list _positions                  # of Counter: how far each service has executed the log
    cdef int64_t _burst_ns
    cdef readonly int64_t backlog_bytes
    cdef int64_t now_ns                   # of this turn
    cdef int64_t limit_position           # beyond it no more is appended in this turn: the service has enough to execute
    cdef public bint is_full              # this turn found no room: nothing more is taken, but of the first lane
    cdef readonly bint has_accounts       # sessions are counted
    cdef readonly int64_t held_count      # messages that had to wait for a quota, of all accounts
    cdef int64_t due_ns                   # when the next held message may be taken, or NEVER

    cdef Account* _account(self, int32_t number) except NULL
    cdef void begin_turn(self, int64_t now_ns) noexcept
    cdef int64_t ready_ns(self, int32_t account) noexcept nogil        # from when a message is taken; past: at once
    cdef void hold(self, int32_t account, int64_t ready_ns) noexcept nogil
    cdef void note_due(self, int64_t ready_ns) noexcept nogil
    cdef bint is_behind(self, int64_t log_position, bint is_first) noexcept nogil   # the services have enough to do
    cdef void charge(self, int32_t account, int64_t length_bytes) noexcept nogil
