"""Flow control: how far a sender may go, from what its receivers say (transport-wire.md §7)."""

from libc.stdint cimport int32_t, int64_t

from ordo.runtime.native.native_vector cimport NativeVector

cdef enum:
    STRATEGY_UNICAST = 0
    STRATEGY_MAX = 1
    STRATEGY_MIN = 2
    STRATEGY_TAGGED = 3

cdef struct FlowReceiver:
    int64_t receiver_id
    int64_t edge                       # last status message's position + window
    int64_t last_heard_ns
    bint leaving                       # said end of stream, or sent an error

cdef class FlowControl:
    cdef readonly int strategy
    cdef readonly int64_t receiver_timeout_ns
    cdef readonly int64_t group_tag
    cdef readonly int32_t group_min_size
    cdef readonly int32_t retransmit_window_multiple
    cdef NativeVector receivers        # of FlowReceiver
    cdef int64_t guard_limit           # cap while a late joiner is expected
    cdef int64_t guard_deadline_ns     # 0: no guard
    cdef int64_t* receivers_counter    # fc-receivers, or NULL
    cdef int64_t on_status(self, int64_t receiver_id, int64_t position, int32_t window, bint leaving, bint has_tag,
                           int64_t tag, int64_t limit, int64_t now_ns) noexcept nogil
    cdef int64_t on_idle(self, int64_t limit, int64_t now_ns) noexcept nogil
    cdef void on_send_setup(self, bint has_tag, int64_t tag, int64_t limit, int64_t now_ns) noexcept nogil
    cdef void on_error(self, int64_t receiver_id) noexcept nogil
    cdef bint has_required_receivers(self) noexcept nogil
    cdef int64_t _minimum(self) noexcept nogil
    cdef bint _track(self, int64_t receiver_id, int64_t edge, int32_t window, bint leaving,
                     int64_t now_ns) noexcept nogil
    cdef void _publish_count(self) noexcept nogil
