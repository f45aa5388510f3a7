"""How long a duty cycle may read its sockets."""

from libc.stdint cimport int64_t

cdef enum:
    SPARE_TURN_NS = 200000             # one batch for each: a fifth to two fifths of the time, where all are full
    SPARE_TURNS_MAX = 512


cdef inline int spare_turns(int64_t elapsed_ns) noexcept nogil:
    """Batches that may be read, of all sockets together, beyond those that each socket has in every cycle.

    A cycle over thousands of streams is long, and more comes meanwhile than a fixed number takes: the rest would
    overflow the socket's buffer. What is taken is a part of the time, so that no flood makes one cycle after the other
    longer.
    """
    return <int> min(elapsed_ns // SPARE_TURN_NS, <int64_t> SPARE_TURNS_MAX)
