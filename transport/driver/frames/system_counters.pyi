from ordo.runtime.native.counters import Counter, CountersManager

SYSTEM_TYPE_ID: int
REFUSED_TYPE_ID: int
OWNER_NONE: int
PROTOCOL_VERSION: int
SOFTWARE_VERSION: int
LABELS: tuple[str, ...]
REFUSED_LABELS: tuple[str, ...]

class SystemCounters:
    counters: list[Counter]
    def __init__(self, manager: CountersManager, mode: str = "INVOKER") -> None: ...
    def note_resolution(self, took_ns: int) -> None: ...
    def value(self, index: int) -> int: ...
    def add(self, index: int, delta: int = 1) -> int: ...
