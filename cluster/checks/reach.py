"""Whether the other members can be reached from this machine, and this machine from theirs (`ordo doctor --reach`).

Before the first start nobody listens, so the doctors of two machines answer each other: each binds the ports of its own
member, and from a free port asks every port of the others, with a small datagram and with one as long as the longest
that nodes send. An answer is as long as what it answers; it says what time it is there, and whether that doctor has all
the answers that it wants from this one.
"""

from __future__ import annotations

import selectors
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.wire.members import ENDPOINT_NAMES, Member
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.time_units import SECOND_NS
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.resolver import resolve

if TYPE_CHECKING:
    from ordo.runtime.native.clock import Clock
    from ordo.transport.secure.settings import Encryption

MARK = b"ordo-dr1"
ASK, ANSWER = 1, 2
PROBE = struct.Struct("<8sBBBxiiqq")
"""Mark, kind, index of the endpoint, whether the asker has all it wants of the other, padding, id of the member that
sends, of the one it is for, when it was asked in ns of the asker's own clock, and epoch ms of the one that answers."""
SMALL_BYTES = 64
ASK_EVERY_NS = 200_000_000
LINGER_NS = 1_000_000_000
"""The last answer to another doctor may be lost: it asks again meanwhile."""
NODE_TIMEOUT_S = 1.5
PARK_NS = 1_000_000


class Probe(NamedTuple):
    """What one doctor sends another."""

    kind: int
    endpoint: int
    is_content: bool
    sender: int
    receiver: int
    asked_ns: int
    epoch_ms: int

    def encode(self, length_bytes: int) -> bytes:
        return PROBE.pack(MARK, *self).ljust(length_bytes, b"\0")

    @classmethod
    def decode(cls, datagram: bytes) -> Probe | None:
        """Decode a datagram; return None if no doctor has sent it."""
        if len(datagram) < SMALL_BYTES or not datagram.startswith(MARK):
            return None
        _, kind, endpoint, is_content, *rest = PROBE.unpack_from(datagram)
        return cls(kind, endpoint, bool(is_content), *rest) if endpoint < len(ENDPOINT_NAMES) else None


@dataclass
class MemberPath:
    """The path between this member and another one, as far as it is known."""

    member: Member
    lengths_bytes: tuple[int, int]
    answered: set[tuple[int, int]] = field(default_factory=set)
    """Index of the endpoint and length in bytes."""
    heard: set[int] = field(default_factory=set)
    """Own endpoints at which the other doctor's questions arrived."""
    is_other_content: bool = False
    round_trip_ns: int = -1
    clock_ahead_ms: int = 0
    """How far the other machine's clock is ahead, give or take the round trip; by the quickest answer."""

    @property
    def wanted(self) -> list[tuple[int, int]]:
        return [(index, length) for index in range(len(ENDPOINT_NAMES)) for length in self.lengths_bytes]

    @property
    def is_content(self) -> bool:
        """All ports of the other answered, with long datagrams as well."""
        return self.answered.issuperset(self.wanted)

    def silent(self, length_bytes: int) -> list[str]:
        """Return the endpoints that did not answer datagrams of this length."""
        return [
            f"{name} {getattr(self.member, name)}"
            for index, name in enumerate(ENDPOINT_NAMES)
            if (index, length_bytes) not in self.answered
        ]

    def note(self, probe: Probe, length_bytes: int, now_ns: int, epoch_ms: int) -> None:
        """Take an answer."""
        took_ns = now_ns - probe.asked_ns
        if took_ns < 0 or (probe.endpoint, length_bytes) not in self.wanted:
            return
        self.answered.add((probe.endpoint, length_bytes))
        if self.round_trip_ns < 0 or took_ns < self.round_trip_ns:
            self.round_trip_ns = took_ns
            self.clock_ahead_ms = probe.epoch_ms - (epoch_ms - took_ns // 2_000_000)


class Doctors(Closing):
    """This machine's side of the questions and answers.

    `bound` is the own member as it is bound here. Raises ConfigurationError when one of its ports cannot be had.
    """

    def __init__(self, bound: Member, others: Iterable[Member], mtu_bytes: int, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._member_id = bound.id
        self._sockets = ExitStack()
        self._selector = self._sockets.enter_context(selectors.DefaultSelector())
        self.paths = {one.id: MemberPath(one, (SMALL_BYTES, mtu_bytes)) for one in others}
        self._askers: dict[int, socket.socket] = {}
        self._addresses: dict[tuple[int, int], tuple[int, Any]] = {}
        try:
            for name in ENDPOINT_NAMES:
                self._listen(str(getattr(bound, name)))
            for path in self.paths.values():
                self._resolve(path.member)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._sockets.close()

    def run(self, timeout_s: float) -> None:
        """Ask and answer until every doctor has heard all that it wants, or the time is over."""
        deadline_ns = int(self._clock.now() + timeout_s * SECOND_NS)
        next_ask_ns = 0
        while (now_ns := self._clock.now()) < deadline_ns:
            if now_ns >= next_ask_ns:
                self._ask(now_ns)
                next_ask_ns = now_ns + ASK_EVERY_NS
            if all(path.is_content and path.is_other_content for path in self.paths.values()):
                deadline_ns = min(deadline_ns, now_ns + LINGER_NS)
            for key, _ in self._selector.select((min(next_ask_ns, deadline_ns) - now_ns) / SECOND_NS):
                self._receive(key.fileobj)

    def _listen(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        family, address = _address(host, int(port))
        try:
            self._open(family).bind(address)
        except OSError as error:
            raise ConfigurationError(f"cannot listen at {endpoint}: {error.strerror}") from None

    def _open(self, family: int) -> socket.socket:
        one = self._sockets.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        one.setblocking(False)
        self._selector.register(one, selectors.EVENT_READ)
        return one

    def _resolve(self, member: Member) -> None:
        for index, name in enumerate(ENDPOINT_NAMES):
            host, _, port = str(getattr(member, name)).rpartition(":")
            family, address = _address(host, int(port))
            self._addresses[member.id, index] = family, address
            if family not in self._askers:
                self._askers[family] = self._open(family)

    def _ask(self, now_ns: int) -> None:
        for path in self.paths.values():
            for index, length in path.wanted:
                probe = Probe(ASK, index, path.is_content, self._member_id, path.member.id, now_ns, 0)
                family, address = self._addresses[path.member.id, index]
                _send(self._askers[family], probe.encode(length), address)

    def _receive(self, source: Any) -> None:
        while True:
            try:
                datagram, address = source.recvfrom(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                continue  # what an earlier datagram met, such as a port that nobody listens at
            probe = Probe.decode(datagram)
            path = self.paths.get(probe.sender) if probe is not None else None
            if probe is not None and path is not None and probe.receiver == self._member_id:
                self._take(probe, path, len(datagram), source, address)

    def _take(self, probe: Probe, path: MemberPath, length_bytes: int, source: socket.socket, address: Any) -> None:
        epoch_ms = self._clock.epoch_ms()
        if probe.kind == ANSWER:
            path.note(probe, length_bytes, self._clock.now(), epoch_ms)
        elif probe.kind == ASK:
            path.heard.add(probe.endpoint)
            path.is_other_content |= probe.is_content
            answer = probe._replace(kind=ANSWER, sender=self._member_id, receiver=probe.sender, epoch_ms=epoch_ms)
            _send(source, answer.encode(length_bytes), address)


def running_nodes(
    others: Iterable[Member], encryption: Encryption, timeout_s: float = NODE_TIMEOUT_S
) -> Iterator[Member]:
    """Return the members whose nodes run and answer at their ingress, without opening a session."""
    with closing(ClientTransport.embedded("doctor", encryption=encryption)) as transport:
        waiting = {
            transport.client.add_exclusive_publication(
                f"aeron:udp?term-length=64k|endpoint={one.ingress}", INGRESS_STREAM_ID
            ): one
            for one in others
        }
        deadline_ns = transport.clock.now() + timeout_s * SECOND_NS
        while waiting and transport.drive() < deadline_ns:
            for publication in [one for one in waiting if one.is_connected]:
                yield waiting.pop(publication)
            transport.park(PARK_NS)


def _address(host: str, port: int) -> tuple[int, Any]:
    """Family and address; a name's IPv4 address before its IPv6 one. Raises TransportError for an unknown name."""
    numeric = resolve(host.strip("[]"))
    ((family, _, _, _, address), *_) = socket.getaddrinfo(numeric, port, type=socket.SOCK_DGRAM)
    return family, address


def _send(source: socket.socket, datagram: bytes, address: Any) -> None:
    """Send a datagram. One that cannot be sent (no route, too long for the interface) simply gets no answer."""
    try:
        source.sendto(datagram, address)
    except OSError:
        return
