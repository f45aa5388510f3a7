from array import array
from collections.abc import Callable

from cluster.client.loop import ClientLoop, MessageHandler
from transport.driver.media_driver import MediaDriver

HEAD_LENGTH: int

class EchoStream(MessageHandler):
    sent: int
    received: int
    def __init__(self, length_bytes: int) -> None: ...
    def attach(self, loop: ClientLoop) -> None: ...
    def measure(self, times_ns: array[int]) -> None: ...

def run_load(
    streams: list[EchoStream], driver: MediaDriver, count: int, window: int, tick: Callable[[], object]
) -> int: ...
