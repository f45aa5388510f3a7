"""How long a duty cycle may read one socket."""

from libc.stdint cimport int64_t

cdef enum:
    RECEIVE_TURN_NS = 100000           # one batch for each: about a fifth of the time since the cycle before
    RECEIVE_TURNS_MAX = 512


cdef inline int receive_turns(int64_t elapsed_ns, int turns_min) noexcept nogil:
    """Batches that one socket is read for. A cycle over thousands of streams is long, and what came meanwhile is more:
    a fixed number would leave the rest to the socket's buffer, which drops it. More than the bound is a flood's part.
    """
    return <int> max(<int64_t> turns_min, min(elapsed_ns // RECEIVE_TURN_NS, <int64_t> RECEIVE_TURNS_MAX))
