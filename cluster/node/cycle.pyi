from collections.abc import Callable, Sequence

from archive.archive import Archive
from cluster.container.loop import ContainerLoop
from cluster.module.consensus_module import ConsensusModule
from cluster.wire.latencies import LogSamples
from runtime.agent import Agent
from runtime.clock import Clock
from runtime.wake import ParkFlag
from transport.client import TransportClient
from transport.driver.media_driver import MediaDriver

class NodeCycle(Agent):
    @property
    def next_tick_ns(self) -> int: ...
    def __init__(
        self,
        driver: MediaDriver | None,
        archive: Archive,
        module: ConsensusModule,
        client: TransportClient,
        containers: Sequence[ContainerLoop],
        clock: Clock,
        tick: Callable[[int], None],
        spins_max: int,
        samples: LogSamples,
        park_flag: ParkFlag | None = None,
    ) -> None: ...
    def do_work(self, now_ns: int) -> int: ...
    def run(self) -> None: ...
    def work(self) -> bool: ...
    def rest(self) -> int: ...
