from typing import final

from typing_extensions import Buffer

from ordo.runtime.native.memory import Memory

TRAILER_LENGTH: int

@final
class BroadcastTransmitter:
    capacity: int
    max_message_length: int
    def __init__(self, memory: Memory) -> None: ...
    def transmit(self, type_id: int, payload: Buffer) -> None: ...

@final
class BroadcastReceiver:
    capacity: int
    lapped_count: int
    def __init__(self, memory: Memory) -> None: ...
    def has_message(self) -> bool: ...
    def receive(self) -> tuple[int, bytes] | None: ...
