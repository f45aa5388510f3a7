"""Wake-ups of a parked duty cycle: a flag in shared memory, and a futex or the sockets that it parks on."""

from posix.unistd cimport write

from ordo.runtime.native.atomics cimport (
    ordo_cas_i64, ordo_fence_full, ordo_futex_wait, ordo_futex_wake, ordo_load_acquire_i64, ordo_store_release_i64)
from ordo.runtime.native.counters cimport Counter


cdef class ParkFlag:
    """A park flag in a Counter, shared between the thread that parks and those that wake it."""

    def __init__(self, Counter counter):
        self.word = counter.address
        self._owner = counter

    cdef void announce(self, int64_t kind) noexcept nogil:
        ordo_store_release_i64(self.word, kind)
        ordo_fence_full()       # the flag is visible before work is looked for the last time

    cdef void awake(self) noexcept nogil:
        ordo_store_release_i64(self.word, PARK_AWAKE)

    cdef int64_t take(self) noexcept nogil:
        ordo_fence_full()       # the work is visible before the flag is read
        cdef int64_t kind = ordo_load_acquire_i64(self.word)
        if kind == PARK_AWAKE or not ordo_cas_i64(self.word, kind, PARK_AWAKE):
            return PARK_AWAKE
        return kind

    cdef void wait_futex(self, int64_t timeout_ns) noexcept nogil:
        ordo_futex_wait(self.word, PARK_FUTEX, timeout_ns)

    cdef void wake_futex(self) noexcept nogil:
        ordo_futex_wake(self.word, 1)

    @property
    def parked(self):
        """The kind of park that was announced, 0 when awake."""
        return ordo_load_acquire_i64(self.word)

    def announce_parked(self, int64_t kind):
        """Announce a park, as `announce` does for native code."""
        self.announce(kind)

    def set_awake(self):
        """Mark the thread as awake, as `awake` does for native code."""
        self.awake()

    def wait(self, int64_t timeout_ns):
        """Wait on the futex without the GIL until woken, at most `timeout_ns`; at once when the flag is not 1."""
        with nogil:
            self.wait_futex(timeout_ns)

    def take_parked(self):
        """Take the flag, as `take` does for native code."""
        return self.take()


cdef class Waker:
    """A waker for a flag; `descriptor` is an eventfd or a connected datagram socket, or -1 for a flag that is only
    parked on its futex."""

    def __init__(self, ParkFlag flag not None, int descriptor=-1):
        self.flag = flag
        self.descriptor = descriptor

    cdef bint wake(self) noexcept nogil:
        cdef int64_t kind = self.flag.take()
        cdef int64_t one = 1
        if kind == PARK_FUTEX:
            self.flag.wake_futex()
        elif kind == PARK_SOCKETS and self.descriptor >= 0:
            write(self.descriptor, &one, sizeof(one))
        return kind != PARK_AWAKE

    def wake_parked(self):
        """Wake the thread, as `wake` does for native code."""
        return self.wake()
