from typing import NamedTuple

from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.memory import Memory

class ErrorObservation(NamedTuple):
    observation_count: int
    first_ms: int
    last_ms: int
    text: str

class DistinctErrorLog:
    def __init__(self, memory: Memory, clock: Clock, counter: Counter | None = None) -> None: ...
    def record(self, error: BaseException | str) -> bool: ...

def read_errors(memory: Memory, since_ms: int = 0) -> list[ErrorObservation]: ...
