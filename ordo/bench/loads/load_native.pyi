from array import array
from collections.abc import Callable

from ordo.cluster.client.connection.loop import ClientLoop, MessageHandler
from ordo.runtime.native.clock import Clock
from ordo.transport.driver.media_driver import MediaDriver

HEAD_LENGTH: int

class EchoStream(MessageHandler):
    sent: int
    received: int
    def __init__(self, length_bytes: int) -> None: ...
    def attach(self, loop: ClientLoop) -> None: ...
    def measure(self, times_ns: array[int]) -> None: ...

class LoadRun:
    @property
    def left(self) -> int: ...
    def __init__(
        self,
        streams: list[EchoStream],
        driver: MediaDriver,
        clock: Clock,
        count: int,
        window: int,
        tick: Callable[[], object],
    ) -> None: ...
    def give(self) -> int: ...
    def rest(self) -> int: ...
    def take(self) -> int: ...
    def run(self) -> int: ...
