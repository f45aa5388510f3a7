from array import array

from ordo.runtime.agents.agent import Agent
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.streams.publication import Publication
from ordo.transport.streams.subscription import Subscription

HEAD_LENGTH: int
BATCH_BYTES: int
BATCH_MAX: int

class StreamPeer:
    @property
    def sent(self) -> int: ...
    @property
    def received(self) -> int: ...
    def __init__(
        self,
        length_bytes_max: int,
        client: Agent,
        driver: MediaDriver | None,
        subscription: Subscription,
        publication: Publication,
    ) -> None: ...
    def cycle(self) -> int: ...
    def serve(self, duration_ns: int) -> None: ...
    def await_all(self, length_bytes: int, count: int = 0) -> None: ...
    def round_trips(self, length_bytes: int, duration_ns: int, times_ns: array[int]) -> int: ...
    def stream(self, length_bytes: int, duration_ns: int) -> tuple[int, int]: ...
