from collections.abc import Callable

from ordo.runtime.agents.wake import ParkFlag

SPINS_DEFAULT: int
YIELDS_DEFAULT: int
PARK_NS_MIN_DEFAULT: int
PARK_NS_MAX_DEFAULT: int
IDLE_STRATEGIES: tuple[str, ...]

class Parker:
    wakes: bool
    def wake(self) -> None: ...

class FutexParker(Parker):
    flag: ParkFlag
    def __init__(self, flag: ParkFlag) -> None: ...

class CallableParker(Parker):
    def __init__(
        self,
        park: Callable[[int], object],
        prepare: Callable[[], object] | None = None,
        cancel: Callable[[], object] | None = None,
        wake: Callable[[], object] | None = None,
        wakes: bool = False,
    ) -> None: ...

class IdleStrategy:
    def after(self, work_count: int, timeout_ns: int = -1) -> None: ...
    def wake(self) -> None: ...

class BusySpinIdle(IdleStrategy): ...
class NoOpIdle(IdleStrategy): ...
class YieldIdle(IdleStrategy): ...

class SleepIdle(IdleStrategy):
    sleep_ns: int
    def __init__(self, sleep_ns: int) -> None: ...

def make_idle(name: str, parker: Parker, park_ns_max: int) -> IdleStrategy: ...

class BackoffIdle(IdleStrategy):
    parker: Parker
    spins_max: int
    yields_max: int
    park_ns_min: int
    park_ns_max: int
    spin_count: int
    yield_count: int
    park_count: int
    def __init__(
        self,
        park: Parker | Callable[[int], object] | None = None,
        *,
        spins_max: int = 100,
        yields_max: int = 20,
        park_ns_min: int = 50_000,
        park_ns_max: int = 10_000_000,
    ) -> None: ...
