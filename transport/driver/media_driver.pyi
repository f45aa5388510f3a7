from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from runtime.agent import Agent
from runtime.clock import Clock
from runtime.counters import CountersManager
from runtime.datagram import DatagramNetwork
from runtime.error_log import DistinctErrorLog
from runtime.memory import MemoryProvider
from runtime.random import RandomSource
from runtime.spinning import Spinning
from runtime.use import Use
from transport.driver.conductor import Conductor
from transport.driver.config import MediaDriverConfig
from transport.driver.context import DriverContext
from transport.driver.loss_report import LossReport
from transport.secure.keys import Keyring

class MediaDriver(Agent):
    use: Use
    config: MediaDriverConfig
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
        config: MediaDriverConfig | str,
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
    def record_error(self, error: BaseException | str) -> None: ...
    def park(self, now_ns: int, timeout_ns: int) -> int: ...
    def next_deadline_ns(self, now_ns: int) -> int: ...
    def wake(self) -> None: ...
    @property
    def counters(self) -> CountersManager: ...
    def system_counter(self, index: int) -> int: ...
