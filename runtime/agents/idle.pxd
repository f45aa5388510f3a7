"""Idle strategies: what a thread does after a duty cycle that found no work."""

from libc.stdint cimport int64_t
from ordo.runtime.agents.wake cimport ParkFlag

cdef class Parker:
    """A way to wait between duty cycles. `prepare` announces it, one more duty cycle runs, then `park` or `cancel`.

    `wakes` says that work ends the wait early; without it parks grow from short to long.
    """
    cdef readonly bint wakes
    cdef object failure                                          # exception of a Python park, for the idle to raise
    cdef void prepare(self) noexcept nogil
    cdef void park(self, int64_t timeout_ns) noexcept nogil
    cdef void cancel(self) noexcept nogil

cdef class FutexParker(Parker):
    cdef readonly ParkFlag flag

cdef class IdleStrategy:
    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil   # timeout_ns < 0: the strategy's own
    cdef object _failure(self)

cdef class BackoffIdle(IdleStrategy):
    """An idle strategy that spins, yields, then parks."""
    cdef readonly Parker parker
    cdef readonly int64_t spins_max
    cdef readonly int64_t yields_max
    cdef readonly int64_t park_ns_min
    cdef readonly int64_t park_ns_max
    cdef int64_t _spins
    cdef int64_t _yields
    cdef int64_t _park_ns
    cdef bint _prepared
    cdef readonly int64_t spin_count
    cdef readonly int64_t yield_count
    cdef readonly int64_t park_count
    cdef void _park(self, int64_t timeout_ns) noexcept nogil

cdef class BusySpinIdle(IdleStrategy):
    pass

cdef class NoOpIdle(IdleStrategy):
    pass

cdef class YieldIdle(IdleStrategy):
    pass

cdef class SleepIdle(IdleStrategy):
    cdef readonly int64_t sleep_ns
    cdef Parker _parker
