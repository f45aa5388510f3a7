"""Idle strategies: what a thread does after a duty cycle that found no work."""

from posix.time cimport nanosleep, timespec

from ordo.runtime.native.atomics cimport ordo_pause, sched_yield
from ordo.runtime.agents.wake cimport PARK_FUTEX

SPINS_DEFAULT = 100
YIELDS_DEFAULT = 20
PARK_NS_MIN_DEFAULT = 50_000
PARK_NS_MAX_DEFAULT = 10_000_000
IDLE_STRATEGIES = ("park", "backoff", "sleep", "yield", "spin", "noop")
_BACKOFF_SPINS, _BACKOFF_PARK_NS_MIN = 10, 1_000


cdef class Parker:
    """A parker that sleeps, and is never woken early."""

    cdef void prepare(self) noexcept nogil:
        pass

    cdef void park(self, int64_t timeout_ns) noexcept nogil:
        cdef timespec wait
        wait.tv_sec = timeout_ns // 1000000000
        wait.tv_nsec = timeout_ns % 1000000000
        nanosleep(&wait, NULL)

    cdef void cancel(self) noexcept nogil:
        pass

    def wake(self):
        """End a park of another thread, if the parker can be woken."""


cdef class FutexParker(Parker):
    """A parker on the futex of a ParkFlag."""

    def __init__(self, ParkFlag flag not None):
        self.flag = flag
        self.wakes = True

    cdef void prepare(self) noexcept nogil:
        self.flag.announce(PARK_FUTEX)

    cdef void park(self, int64_t timeout_ns) noexcept nogil:
        self.flag.wait_futex(timeout_ns)
        self.flag.awake()

    cdef void cancel(self) noexcept nogil:
        self.flag.awake()

    def wake(self):
        if self.flag.take() == PARK_FUTEX:
            self.flag.wake_futex()


cdef class CallableParker(Parker):
    """A parker that calls `park(timeout_ns)`; `prepare()`, `cancel()` and `wake()` are optional callables."""
    cdef object _park
    cdef object _prepare
    cdef object _cancel
    cdef object _wake

    def __init__(self, park, prepare=None, cancel=None, wake=None, bint wakes=False):
        self._park = park
        self._prepare = prepare
        self._cancel = cancel
        self._wake = wake
        self.wakes = wakes

    cdef void prepare(self) noexcept nogil:
        with gil:
            self._call(self._prepare)

    cdef void park(self, int64_t timeout_ns) noexcept nogil:
        with gil:
            try:
                self._park(timeout_ns)
            except BaseException as error:
                self.failure = error

    cdef void cancel(self) noexcept nogil:
        with gil:
            self._call(self._cancel)

    cdef void _call(self, object function) noexcept:
        if function is None:
            return
        try:
            function()
        except BaseException as error:
            self.failure = error

    def wake(self):
        if self._wake is not None:
            self._wake()


cdef class IdleStrategy:
    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil:
        pass

    cdef object _failure(self):
        return None

    def after(self, int work_count, int64_t timeout_ns=-1):
        """Idle once after a duty cycle, without the GIL. `timeout_ns` caps a park; -1 leaves it to the strategy."""
        with nogil:
            self.idle(work_count, timeout_ns)
        failure = self._failure()
        if failure is not None:
            raise failure

    def wake(self):
        """End a park of another thread, if the strategy can be woken."""


cdef class BusySpinIdle(IdleStrategy):
    """An idle strategy that never gives up the core."""

    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil:
        if work_count == 0:
            ordo_pause()


cdef class NoOpIdle(IdleStrategy):
    """An idle strategy that does nothing at all."""


cdef class YieldIdle(IdleStrategy):
    """An idle strategy that lets other threads of the core run first."""

    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil:
        if work_count == 0:
            sched_yield()


cdef class SleepIdle(IdleStrategy):
    """An idle strategy that always sleeps the same time; nothing wakes it."""

    def __init__(self, int64_t sleep_ns):
        self.sleep_ns = sleep_ns
        self._parker = Parker()

    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil:
        if work_count == 0:
            self._parker.park(self.sleep_ns)


def make_idle(str name, Parker parker not None, int64_t park_ns_max):
    """Return the idle strategy of this name, one of IDLE_STRATEGIES. `parker` is for "park"; no rest is longer than
    `park_ns_max`.

    park: spins, yields, then waits until woken. backoff: the same, but sleeps, longer each time. sleep, yield, spin and
    noop do only that.
    """
    if name == "park":
        return BackoffIdle(parker, park_ns_min=min(_BACKOFF_PARK_NS_MIN, park_ns_max), park_ns_max=park_ns_max)
    if name == "backoff":
        return BackoffIdle(spins_max=_BACKOFF_SPINS, park_ns_min=min(_BACKOFF_PARK_NS_MIN, park_ns_max),
                           park_ns_max=park_ns_max)
    if name == "sleep":
        return SleepIdle(park_ns_max)
    if name not in IDLE_STRATEGIES:
        raise ValueError(f"idle strategy {name!r}, allowed: {', '.join(IDLE_STRATEGIES)}")
    return {"yield": YieldIdle, "spin": BusySpinIdle, "noop": NoOpIdle}[name]()


cdef class BackoffIdle(IdleStrategy):
    """An idle strategy that spins briefly, then yields, then parks until its parker is woken, `park_ns_max` or the
    caller's timeout has passed.

    `park` is a Parker, or a callable that takes timeout_ns. Counts of each are in `spin_count`, `yield_count`,
    `park_count`.
    """

    def __init__(self, park=None, *, int64_t spins_max=SPINS_DEFAULT, int64_t yields_max=YIELDS_DEFAULT,
                 int64_t park_ns_min=PARK_NS_MIN_DEFAULT, int64_t park_ns_max=PARK_NS_MAX_DEFAULT):
        if not 0 < park_ns_min <= park_ns_max:
            raise ValueError(f"park_ns_min={park_ns_min} park_ns_max={park_ns_max}, allowed 0 < min <= max")
        if park is None:
            park = Parker()
        self.parker = park if isinstance(park, Parker) else CallableParker(park)
        self.spins_max = spins_max
        self.yields_max = yields_max
        self.park_ns_min = park_ns_min
        self.park_ns_max = park_ns_max
        self._park_ns = park_ns_min

    cdef void idle(self, int work_count, int64_t timeout_ns) noexcept nogil:
        if work_count > 0:
            if self._prepared:
                self._prepared = False
                self.parker.cancel()
            self._spins = self._yields = 0
            self._park_ns = self.park_ns_min
        elif self._spins < self.spins_max:
            self._spins += 1
            self.spin_count += 1
            ordo_pause()
        elif self._yields < self.yields_max:
            self._yields += 1
            self.yield_count += 1
            sched_yield()
        elif not self._prepared:
            self._prepared = True
            self.parker.prepare()
        else:
            self._park(timeout_ns)

    cdef void _park(self, int64_t timeout_ns) noexcept nogil:
        cdef int64_t park_ns = self.park_ns_max if self.parker.wakes else self._park_ns
        self._prepared = False
        if timeout_ns >= 0 and timeout_ns < park_ns:
            park_ns = timeout_ns
        if park_ns == 0:
            self.parker.cancel()
            return
        self.park_count += 1
        self.parker.park(park_ns)
        self._park_ns = min(self._park_ns * 2, self.park_ns_max)

    cdef object _failure(self):
        failure = self.parker.failure
        self.parker.failure = None
        return failure

    def wake(self):
        self.parker.wake()
