"""Congestion control: how large a window a receiver offers its sender (transport-wire.md §8)."""

from libc.stdint cimport int32_t, int64_t

cdef class ReceiveWindow:
    cdef readonly int32_t length_max           # bytes; all there is, and what a static window always offers
    cdef readonly int32_t length               # bytes that status messages offer now
    cdef readonly bint is_cubic
    cdef readonly bint measures_rtt
    cdef readonly int64_t rtt_ns
    cdef int32_t mtu
    cdef int32_t frames_max                    # the window in frames of the sender's MTU
    cdef int32_t frames
    cdef double frames_at_loss
    cdef double recovery_s                     # from a loss until the window is what it was before
    cdef bint is_tcp_friendly
    cdef int64_t initial_rtt_ns
    cdef int64_t last_loss_ns
    cdef int64_t last_update_ns
    cdef int64_t probe_sent_ns                 # the time that the probe on its way has with it; -1: none is
    cdef int64_t probe_due_ns
    cdef int64_t* rtt_cell                     # rcv-cc-cubic-rtt, or NULL
    cdef int64_t* length_cell                  # rcv-cc-cubic-wnd, or NULL

    cdef bint on_turn(self, bint has_loss, bint has_advanced, int64_t now_ns) noexcept nogil
    cdef bint is_probe_due(self, int64_t now_ns) noexcept nogil
    cdef void on_probe_sent(self, int64_t now_ns) noexcept nogil
    cdef void on_echo(self, int64_t echo_ns, int64_t delay_ns, int64_t now_ns) noexcept nogil
    cdef int64_t deadline_ns(self) noexcept nogil
    cdef void _shrink(self, int64_t now_ns) noexcept nogil
    cdef void _grow(self, int64_t now_ns) noexcept nogil
    cdef void _offer(self) noexcept nogil
