from ordo.runtime.native.memory import Memory
from ordo.transport.driver.flow.claims import Claims

class LossDetector:
    is_multicast: bool
    is_reliable: bool
    def __init__(
        self,
        *,
        is_multicast: bool,
        is_reliable: bool,
        delay_ns: int,
        retry_delay_ns: int,
        backoff_max_ns: int,
        group_size: int,
        seed: int,
    ) -> None: ...
    def scan_claims(self, claims: Claims, term_length: int, high_water: int, now_ns: int) -> tuple[int | None, int]: ...
    def is_due(self, now_ns: int) -> bool: ...
    @property
    def deadline_ns(self) -> int | None: ...

def add_release(memory: Memory, offset: int, value: int, replace: bool = False) -> None: ...
