from typing import NamedTuple

from runtime.clock import Clock
from runtime.counters import Counter
from runtime.memory import Memory

class ErrorObservation(NamedTuple):
    observation_count: int
    first_ms: int
    last_ms: int
    text: str

class DistinctErrorLog:
    def __init__(self, memory: Memory, clock: Clock, counter: Counter | None = None) -> None: ...
    def record(self, error: BaseException | str) -> bool: ...

def read_errors(memory: Memory, since_ms: int = 0) -> list[ErrorObservation]: ...
