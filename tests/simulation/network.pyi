from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from ordo.runtime.io.datagram import DatagramChannel, DatagramNetwork
from ordo.runtime.native.clock import Clock

SocketName = tuple[str, int]
Packet = tuple[int, SocketName, SocketName, bytes]

NEVER_NS: int
EPHEMERAL_FIRST: int
RECEIVE_BUFFER_DEFAULT: int

class Faults:
    loss: float
    duplication: float
    corruption: float
    truncation: float
    reordering: float
    delay_min_ns: int
    delay_max_ns: int
    reorder_delay_ns: int
    checksums: bool
    def __init__(
        self,
        loss: float = 0.0,
        duplication: float = 0.0,
        corruption: float = 0.0,
        reordering: float = 0.0,
        delay_min_ns: int = 20_000,
        delay_max_ns: int = 20_000,
        reorder_delay_ns: int = 200_000,
        checksums: bool = False,
        truncation: float = 0.0,
    ) -> None: ...

class Statistics:
    sent: int
    delivered: int
    lost: int
    blocked: int
    duplicated: int
    corrupted: int
    truncated: int
    reordered: int
    overflowed: int
    unreachable: int

class SimulatedNetwork:
    clock: Clock
    random: Random
    faults: Faults
    names: dict[str, str]
    pending_names: set[str]
    statistics: Statistics
    hosts: dict[str, SimulatedHost]
    notes_times: bool
    capture: Callable[[int, SocketName, SocketName, bytes], object] | None
    def __init__(
        self,
        clock: Clock,
        random: Random,
        faults: Faults | None = None,
        names: dict[str, str] | None = None,
        capture: Callable[[int, SocketName, SocketName, bytes], object] | None = None,
    ) -> None: ...
    def host(self, address: str) -> SimulatedHost: ...
    def block(self, source: str, destination: str) -> None: ...
    def unblock(self, source: str, destination: str) -> None: ...
    def partition(self, *groups: Iterable[str]) -> None: ...
    def slow_down(self, source: str, destination: str, delay_ns: int) -> None: ...
    def heal(self) -> None: ...
    @property
    def digest(self) -> int: ...
    next_arrival_ns: int
    def send(self, source_host: str, source: SocketName, destination: SocketName, payload: bytes) -> int: ...
    def deliver(self) -> int: ...
    def join(self, group: SocketName, address: str) -> None: ...
    def leave(self, group: SocketName, address: str) -> None: ...

class SimulatedHost(DatagramNetwork):
    network: SimulatedNetwork
    address: str
    closed: bool
    parked_ns: int
    channels: list[SimulatedChannel]
    def __init__(self, network: SimulatedNetwork, address: str) -> None: ...
    def fileno(self) -> int: ...
    def resolve(self, host: str, port: int) -> SocketName: ...
    def lookup(self, host: str) -> str | None: ...
    def interface_address(self, text: str) -> str: ...
    def open_wake_socket(self, path: str) -> None: ...
    def wake(self) -> None: ...
    def open(
        self,
        bind: SocketName = ...,
        *,
        connect: SocketName | None = None,
        group: SocketName | None = None,
        interface: str | None = None,
        ttl: int = 0,
        reuse: bool = False,
        rcvbuf: int = 0,
        sndbuf: int = 0,
        tos: int = -1,
    ) -> SimulatedChannel: ...
    def accept(self, source: SocketName, destination: SocketName, payload: bytes) -> bool: ...
    def forget(self, channel: SimulatedChannel) -> None: ...
    def close(self) -> None: ...

class SimulatedChannel(DatagramChannel):
    local_address: SocketName
    connected_to: SocketName | None
    group: SocketName | None
    receive_buffer_bytes: int
    send_buffer_bytes: int
    closed: bool
    items_room: int
    failure: BaseException | None
    def note_times(self) -> None: ...
    def reconnect(self, address: SocketName) -> None: ...
    def close(self) -> None: ...

def write_pcap(path: str | Path, packets: Iterable[Packet]) -> None: ...
