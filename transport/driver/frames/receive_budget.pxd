"""How long a duty cycle may read its sockets."""

from libc.stdint cimport int64_t

cdef enum:
    SPARE_TURN_NS = 200000             # one batch for each
    SPARE_TURNS_MAX = 512


cdef inline int spare_turns(int64_t elapsed_ns) noexcept nogil:
    """Return the batch that may be read of all sockets together, beyond what each socket has in every cycle.

    A cycle over thousands of streams is long, and more comes meanwhile than a fixed number takes: the rest would
    overflow the socket's buffer. It is a share of the time that has passed, up to a bound, and one for all sockets, so
    that a flood on several of them gets no more than a flood on one.
    """
    return <int> min(elapsed_ns // SPARE_TURN_NS, <int64_t> SPARE_TURNS_MAX)
