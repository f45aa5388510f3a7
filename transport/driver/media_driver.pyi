from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ordo.runtime.agents.agent import Agent
from ordo.runtime.agents.spinning import Spinning
from ordo.runtime.agents.use import Use
from ordo.runtime.io.datagram import DatagramNetwork
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import CountersManager
from ordo.runtime.native.error_log import DistinctErrorLog
from ordo.runtime.native.memory import MemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.conducting.conductor import Conductor
from ordo.transport.driver.conducting.context import DriverContext
from ordo.transport.driver.flow.loss_report import LossReport
from ordo.transport.secure.keys import Keyring

class MediaDriver(Agent):
    use: Use
    config: MediaDriverSettings
    directory: str
    clock: Clock
    network: DatagramNetwork
    memory: MemoryProvider
    conductor: Conductor
    context: DriverContext
    error_log: DistinctErrorLog
    losses: LossReport
    threads: Any
    started: bool
    cycle_count: int
    terminated: bool
    keyring: Keyring | None
    spinning: Spinning
    def __init__(
        self,
        config: MediaDriverSettings | str,
        *,
        clock: Clock | None = None,
        network: DatagramNetwork | None = None,
        memory: MemoryProvider | None = None,
        random: RandomSource | None = None,
        error_handler: Callable[[BaseException | str], object] | None = None,
        on_termination: Callable[[], object] | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def role_name(self) -> str: ...
    def on_start(self) -> None: ...
    def on_close(self) -> None: ...
    def do_work(self, now_ns: int) -> int: ...
    def record_error(self, error: BaseException | str, entry: str | None = None) -> None: ...
    def park(self, now_ns: int, timeout_ns: int) -> int: ...
    def next_deadline_ns(self, now_ns: int) -> int: ...
    def on_logs_made(self) -> None: ...
    def wake(self) -> None: ...
    @property
    def counters(self) -> CountersManager: ...
    def system_counter(self, index: int) -> int: ...
