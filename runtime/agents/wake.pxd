"""Wake-ups of a parked duty cycle: a flag in shared memory, and a futex or the sockets that it parks on."""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    PARK_AWAKE = 0
    PARK_FUTEX = 1
    PARK_SOCKETS = 2

cdef class ParkFlag:
    """One int64 counter value: 0 awake, 1 parked on the futex of its low word, 2 parked on sockets.

    The parker: `announce(kind)`, look for work once more, then wait; `awake()` after it.
    The waker: publish the work, then `take()`; a non-zero answer cleared the flag, so that one waker acts.
    """
    cdef int64_t* word
    cdef object _owner
    cdef void announce(self, int64_t kind) noexcept nogil
    cdef void awake(self) noexcept nogil
    cdef int64_t take(self) noexcept nogil                            # 0, or the kind that was parked (flag cleared)
    cdef void wait_futex(self, int64_t timeout_ns) noexcept nogil     # parks with kind 1
    cdef void wake_futex(self) noexcept nogil

cdef class Waker:
    """A waker of the thread that parks on one flag: by futex, or by eight bytes written to a descriptor that it selects
    on."""
    cdef ParkFlag flag
    cdef readonly int descriptor
    cdef bint wake(self) noexcept nogil                               # True when somebody had to be woken
