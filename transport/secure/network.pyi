from collections.abc import Callable
from typing import Any

from ordo.runtime.io.datagram import DatagramNetwork
from ordo.runtime.native.clock import Clock
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.secure.channel import SecureChannel
from ordo.transport.secure.context import SecureContext
from ordo.transport.secure.handshakes import Entropy
from ordo.transport.secure.keys import Keyring

_SocketName = tuple[str, int]
REKEY_NS: int
REKEY_COUNT: int

class SecureNetwork(DatagramNetwork):
    inner: DatagramNetwork
    context: SecureContext
    channels: list[SecureChannel]
    def __init__(
        self,
        inner: DatagramNetwork,
        keyring: Keyring,
        clock: Clock,
        *,
        entropy: Entropy = ...,
        rekey_ns: int = ...,
        rekey_count: int = ...,
    ) -> None: ...
    def attach(self, system: SystemCounters, on_report: Callable[[str], object]) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def open(
        self,
        bind: _SocketName = ...,
        *,
        connect: _SocketName | None = None,
        group: _SocketName | None = None,
        interface: str | None = None,
        ttl: int = 0,
        reuse: bool = False,
        rcvbuf: int = 0,
        sndbuf: int = 0,
        tos: int = -1,
    ) -> SecureChannel: ...
    def forget(self, channel: SecureChannel) -> None: ...
    def resolve(self, host: str, port: int) -> _SocketName: ...
    def close(self) -> None: ...
