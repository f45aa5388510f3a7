"""What Aeron's tests have a driver do to itself, around Ordo's driver: losing datagrams, and names that move.

Ordo's driver has no such settings. The stand-in for `aeronmd` gives it a network that drops what comes, chosen as
Aeron's own interceptors choose, and a table of names that a test switches by counters, as Aeron's resolver lets it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ordo.runtime.end_signals import EndSignals
from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.io.datagram import PythonDatagramChannel
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads
from ordo.transport.resolver import UNRESOLVED
from ordo.transport.udp import UdpChannel, UdpNetwork

TYPE_DATA = 1
TYPE_NAME_ENTRY = 2001
"""The counters by which a test says which address a name has now."""
UNKNOWN, FIRST, SECOND = -1, 0, 1
INTERCEPTORS = "UDP_CHANNEL_INCOMING_INTERCEPTORS"
RESOLVER = "NAME_RESOLVER_SUPPLIER"
RESOLVER_ROWS = "NAME_RESOLVER_INIT_ARGS"
OF_FAULTS = {
    INTERCEPTORS,
    RESOLVER,
    RESOLVER_ROWS,
    "UDP_CHANNEL_TRANSPORT_BINDINGS_LOSS_ARGS",
    "UDP_CHANNEL_TRANSPORT_BINDINGS_FIXED_LOSS_ARGS",
    "UDP_CHANNEL_TRANSPORT_BINDINGS_MULTI_GAP_LOSS_ARGS",
}
"""Aeron's names that this module answers."""


class Losses(Protocol):
    """Decides which datagrams that arrive are lost."""

    def loses(self, datagram: bytes) -> bool: ...


def _frame_type(datagram: bytes) -> int:
    return int.from_bytes(datagram[6:8], "little") if len(datagram) >= 8 else -1


def _place(datagram: bytes) -> tuple[tuple[bytes, bytes], int, int]:
    """Return the stream and session of a data frame, its term id and its offset."""
    term_id = int.from_bytes(datagram[20:24], "little", signed=True)
    return (datagram[16:20], datagram[12:16]), term_id, int.from_bytes(datagram[8:12], "little")


@dataclass
class RandomLosses:
    """Loses a share of the frames whose types have a bit in the mask."""

    rate: float
    seed: int
    types: int

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def loses(self, datagram: bytes) -> bool:
        return bool(self.types >> max(_frame_type(datagram), 0) & 1) and self._random.random() <= self.rate


@dataclass
class RangeLosses:
    """Loses each frame of a term once, from the first that comes up to the end of a range."""

    term_id: int
    end: int
    _next: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def loses(self, datagram: bytes) -> bool:
        if _frame_type(datagram) != TYPE_DATA:
            return False
        stream, term_id, offset = _place(datagram)
        if term_id != self.term_id:
            return False
        lost_to = self._next.setdefault(stream, offset)
        if not offset <= lost_to < min(self.end, offset + len(datagram)):
            return False
        self._next[stream] = offset + len(datagram)
        return True


@dataclass
class GapLosses:
    """Loses once each frame of a term that touches one of the gaps, which begin at multiples of `step`."""

    term_id: int
    step: int
    length: int
    count: int
    _next: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def loses(self, datagram: bytes) -> bool:
        if _frame_type(datagram) != TYPE_DATA:
            return False
        stream, term_id, offset = _place(datagram)
        if term_id != self.term_id or offset < self._next.get(stream, 0):
            return False
        end = offset + len(datagram)
        gaps = range(self.step, self.count * self.step + 1, self.step)
        if not any(offset < gap + self.length and gap < end for gap in gaps):
            return False
        self._next[stream] = end
        return True


def _values(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split("|") if "=" in part)


def losses_of(values: Mapping[str, str]) -> Losses | None:
    """Return what the interceptors of Aeron's names lose, or None. Raises ConfigurationError for others."""
    name = values.get(INTERCEPTORS, "")
    if not name:
        return None
    key = f"UDP_CHANNEL_TRANSPORT_BINDINGS_{name.replace('-', '_').upper()}_ARGS"
    given = _values(values.get(key, ""))
    try:
        if name == "loss":
            return RandomLosses(float(given["rate"]), int(given["seed"]), int(given["recv-msg-mask"], 16))
        if name == "fixed-loss":
            return RangeLosses(int(given["term-id"]), int(given["term-offset"]) + int(given["length"]))
        if name == "multi-gap-loss":
            step = 1 << (int(given["gap-radix"]) - 1).bit_length()
            return GapLosses(int(given["term-id"]), step, int(given["gap-length"]), int(given["total-gaps"]))
    except (KeyError, ValueError) as error:
        raise ConfigurationError(f"AERON_{key}={values.get(key, '')}: {error} is missing or no number") from None
    raise ConfigurationError(f"AERON_{INTERCEPTORS}={name}: loss, fixed-loss and multi-gap-loss are allowed")


class LossyChannel(PythonDatagramChannel):
    """A UDP socket behind which some of what comes is lost. It is always asked, since it holds datagrams itself."""

    def __init__(self, channel: UdpChannel, losses: Losses) -> None:
        self._channel = channel
        self._losses = losses
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self.receive_buffer_bytes = channel.receive_buffer_bytes
        self.send_buffer_bytes = channel.send_buffer_bytes
        self.ready = True

    @property
    def local_address(self) -> tuple[str, int]:
        return self._channel.local_address

    def send_datagram(self, payload: bytes, to: bytes) -> bool:
        return self._channel.send_bytes(payload, to) == 1

    def receive_datagram(self) -> tuple[bytes, bytes] | None:
        if not self._waiting:
            self._waiting.extend(one for one in self._channel.receive_bytes() if not self._losses.loses(one[0]))
        return self._waiting.popleft() if self._waiting else None

    def note_times(self) -> None:
        self._channel.note_times()

    def reconnect(self, address: tuple[str, int]) -> None:
        self._channel.reconnect(address)

    def disable_segmentation(self) -> None:
        self._channel.disable_segmentation()

    def close(self) -> None:
        self._channel.close()


class MovingNames:
    """Names whose addresses change with a counter: unknown, the first, the second, or what the network says."""

    def __init__(self, rows: str) -> None:
        cells = [row.split(",") for row in rows.split("|") if row]
        self._rows = {name: (first, second) for name, first, second in cells}
        self._switches: dict[str, Counter] = {}

    def add_counters(self, counters: CountersManager) -> None:
        """Make the counter of each name, whose key is the name behind its length."""
        for name, hosts in self._rows.items():
            key = len(name).to_bytes(4, "little") + name.encode()
            self._switches[name] = counters.allocate(TYPE_NAME_ENTRY, f"name {name}: {', '.join(hosts)}", key)

    def host_of(self, name: str) -> str:
        """Return the host that a name means now. Raises TransportError while it means none."""
        if name not in self._switches:
            return name
        choice = self._switches[name].value
        if choice == UNKNOWN:
            raise TransportError(f"{UNRESOLVED}={name!r}: the test took its address away")
        return self._rows[name][choice] if choice in (FIRST, SECOND) else name


class FaultyNetwork(UdpNetwork):
    """A network of real sockets with a test's losses and names."""

    def __init__(self, losses: Losses | None, names: MovingNames | None) -> None:
        super().__init__()
        self._losses = losses
        self._names = names

    def open(self, *arguments: Any, **options: Any) -> Any:
        channel = super().open(*arguments, **options)
        return channel if self._losses is None else LossyChannel(channel, self._losses)

    def lookup(self, host: str) -> str | None:
        return super().lookup(host if self._names is None else self._names.host_of(host))


def names_of(values: Mapping[str, str]) -> MovingNames | None:
    """Return the names of a test's resolver, or None for Aeron's own resolvers."""
    return MovingNames(values.get(RESOLVER_ROWS, "")) if values.get(RESOLVER, "") == "csv_table" else None


def run_faulty(
    settings: MediaDriverSettings, losses: Losses | None, names: MovingNames | None, say: Callable[[str], object]
) -> None:
    """Run a driver on such a network, which one thread must serve, until it is told to end."""
    end = EndSignals()
    settings = replace(settings, threading_mode="shared")
    driver = MediaDriver(settings, network=FaultyNetwork(losses, names), on_termination=end.set)
    driver.on_start()
    try:
        if names is not None:
            names.add_counters(driver.counters)
        DriverThreads(driver).start()
        say(f"aeronmd: a driver with losses={losses} and names={names is not None}")
        end.wait()
    finally:
        driver.on_close()
