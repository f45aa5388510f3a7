from collections.abc import Callable, Sequence

from ordo.archive.archive import Archive
from ordo.cluster.container.streams.loop import ContainerLoop
from ordo.cluster.module.consensus_module import ConsensusModule
from ordo.cluster.wire.counters.latencies import LogSamples
from ordo.runtime.agents.agent import Agent
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.native.clock import Clock
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.media_driver import MediaDriver

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
