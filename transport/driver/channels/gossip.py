"""Name gossip between drivers (transport-wire.md §2.8, §10): a driver is found by its name wherever it runs.

Every driver says its own name and address to the neighbours it knows, and hands on what it has heard. Who tells what is
not checked: this is for networks whose hosts trust each other, and off unless configured.

```
 0        8                                            one entry, aligned to 8 from its own start
 +--------+------+-------+----------+--------+---------+-------------+------+
 | header | type | flags | u16 port | i32 ms | address | i16 length  | name |
 +--------+------+-------+----------+--------+---------+-------------+------+
```
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ordo.runtime.errors import DecodeError, OrdoError
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.transport.driver.frames.event_log import FRAME_IN, FRAME_OUT, EventLog
from ordo.transport.udp import UdpChannel, pack_address, unpack_address

FRAME_TYPE = 7
TYPE_BOOTSTRAP_NEIGHBOUR = 21
TYPE_IPV4, TYPE_IPV6 = 1, 2
FLAG_SELF = 0x80
POLL_INTERVAL_NS = 10_000_000
SELF_INTERVAL_NS = 1_000_000_000
CACHE_INTERVAL_NS = 2_000_000_000
BOOTSTRAP_INTERVAL_NS = 10_000_000_000
TIMEOUT_NS = 10_000_000_000
FRAME_LENGTH_MAX = 1408
NAME_LENGTH_MAX = 512
CACHE_MAX = 4096
NEIGHBOURS_MAX = 1024
DATAGRAMS_PER_TURN = 64
_HEADER = struct.Struct("<iBBH")
_ENTRY = struct.Struct("<BBHi")
_LENGTHS = {TYPE_IPV4: 4, TYPE_IPV6: 16}

SocketName = tuple[str, int]


class Entry(NamedTuple):
    """One name: where its driver listens for gossip, and the time since it was last heard."""

    name: str
    host: str
    port: int
    age_ms: int
    is_self: bool


@dataclass
class Known:
    """A name learnt by gossip, and when; times are monotonic."""

    host: str
    port: int
    heard_ns: int


def encode_frame(entries: list[Entry]) -> bytes:
    """Return one datagram of entries, which must fit."""
    body = b"".join(_encode_entry(entry) for entry in entries)
    return _HEADER.pack(_HEADER.size + len(body), 0, 0, FRAME_TYPE) + body


def _encode_entry(entry: Entry) -> bytes:
    address = ipaddress.ip_address(entry.host).packed
    kind = TYPE_IPV4 if len(address) == 4 else TYPE_IPV6
    flags = FLAG_SELF if entry.is_self else 0
    name = entry.name.encode("ascii")
    encoded = _ENTRY.pack(kind, flags, entry.port, entry.age_ms) + address + struct.pack("<h", len(name)) + name
    return encoded + bytes(-len(encoded) % 8)


def decode_frame(datagram: bytes) -> list[Entry]:
    """Return the entries of a datagram. Raises DecodeError if it is incomplete or of another kind."""
    if len(datagram) < _HEADER.size:
        raise DecodeError(f"names in {len(datagram)} bytes")
    length, version, _, kind = _HEADER.unpack_from(datagram)
    if version != 0 or kind != FRAME_TYPE or not _HEADER.size <= length <= len(datagram):
        raise DecodeError(f"names of version={version} type={kind} frame_length={length} in {len(datagram)} bytes")
    return list(decode_entries(datagram[:length]))


def decode_entries(frame: bytes) -> Iterator[Entry]:
    """Yield the entries after the header, in order. Raises DecodeError at the first incomplete one."""
    offset = _HEADER.size
    while offset < len(frame):
        try:
            entry, length = _decode_entry(frame[offset:])
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise DecodeError(f"name that cannot be read: {error}") from None
        yield entry
        offset += length


def _decode_entry(encoded: bytes) -> tuple[Entry, int]:
    """Return the first entry, and its length including alignment. Raises struct.error and ValueError."""
    kind, flags, port, age_ms = _ENTRY.unpack_from(encoded)
    if kind not in _LENGTHS or age_ms < 0:
        raise ValueError(f"type={kind} age_in_ms={age_ms}")
    end = _ENTRY.size + _LENGTHS[kind]
    host = str(ipaddress.ip_address(encoded[_ENTRY.size : end]))
    (name_length,) = struct.unpack_from("<h", encoded, end)
    name = encoded[end + 2 : end + 2 + name_length]
    if not 1 <= name_length <= NAME_LENGTH_MAX or len(name) < name_length:
        raise ValueError(f"name_length={name_length}")
    length = (end + 2 + name_length + 7) // 8 * 8
    return Entry(name.decode("ascii"), host, port, age_ms, bool(flags & FLAG_SELF)), length


def _colon(name: SocketName) -> str:
    return f"{name[0]}:{name[1]}"


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class GossipCounters:
    """What shows how many neighbours and names a driver knows, and allocates a counter for each configured one."""

    neighbours: Counter
    cache: Counter
    manager: CountersManager


class Gossip:
    """One driver's part in the gossip.

    `find(host)` is the address of a name that others know, None while it is looked up.
    """

    def __init__(
        self,
        name: str,
        channel: UdpChannel,
        bootstrap: list[SocketName],
        find: Callable[[str], str | None],
        counters: GossipCounters,
        events: EventLog,
        count_invalid: Callable[[], object],
    ) -> None:
        self.name = name
        self.channel = channel
        self.cache: dict[str, Known] = {}
        self.neighbours: dict[SocketName, int] = {}
        self._bootstrap = bootstrap
        self._bootstrapped: list[SocketName] = []
        self._find = find
        self._neighbour_counter = counters.neighbours
        self._cache_counter = counters.cache
        self._counters = counters.manager
        self._bootstrap_counters: dict[int, tuple[SocketName, Counter]] = {}
        """The address that each configured neighbour has now, and its counter: 1 while it is heard of."""
        self._events = events
        self._count_invalid = count_invalid
        self._self_ns = self._cache_ns = self._bootstrap_ns = 0

    def lookup(self, host: str) -> str | None:
        """Return the address of a driver's name, or None if it is unknown."""
        if host == self.name:
            return self._own_host
        known = self.cache.get(host)
        return None if known is None else known.host

    def work(self, now_ns: int) -> int:
        """Receive, expire and send what is due; return when to call it again (ns)."""
        self._receive(now_ns)
        self._forget(now_ns)
        if now_ns >= self._bootstrap_ns:
            self._bootstrap_ns = now_ns + BOOTSTRAP_INTERVAL_NS
            self._find_bootstrap()
        if now_ns >= self._self_ns:
            self._self_ns = now_ns + SELF_INTERVAL_NS
            self._send(encode_frame([self._own()]), {*self._bootstrapped, *self.neighbours})
        if now_ns >= self._cache_ns:
            self._cache_ns = now_ns + CACHE_INTERVAL_NS
            for frame in self._cache_frames(now_ns):
                self._send(frame, set(self.neighbours))
        self._neighbour_counter.set(len(self.neighbours))
        for address, counter in self._bootstrap_counters.values():
            counter.set(int(address in self.neighbours))
        self._cache_counter.set(len(self.cache))
        return now_ns + POLL_INTERVAL_NS

    @property
    def _own_host(self) -> str:
        return self.channel.local_address[0]

    def _own(self) -> Entry:
        """Pack an address; a wildcard stays all zero, and the receiver takes the datagram's source instead."""
        return Entry(self.name, self._own_host, self.channel.local_address[1], 0, True)

    def _find_bootstrap(self) -> None:
        found = []
        for index, (host, port) in enumerate(self._bootstrap):
            try:
                address = host if _is_numeric(host) else self._find(host)
            except OrdoError:
                continue  # asked again later; another neighbour may be there
            if address is not None:
                found.append((address, port))
                self._note_bootstrap(index, (address, port))
        if len(found) < len(self._bootstrap):
            self._bootstrap_ns -= BOOTSTRAP_INTERVAL_NS - SELF_INTERVAL_NS
        self._bootstrapped = found or self._bootstrapped

    def _note_bootstrap(self, index: int, address: SocketName) -> None:
        """Show in a separate counter where a configured neighbour is."""
        noted = self._bootstrap_counters.get(index)
        if noted is not None and noted[0] == address:
            return
        if noted is not None:
            self._counters.free(noted[1].counter_id)
        label = f"Bootstrap neighbor: name={_colon(self._bootstrap[index])} resolved={_colon(address)}"
        counter = self._counters.allocate(TYPE_BOOTSTRAP_NEIGHBOUR, label, struct.pack("<i", index), owner_id=-1)
        self._bootstrap_counters[index] = (address, counter)

    def _receive(self, now_ns: int) -> None:
        for datagram, source in self.channel.receive_bytes(DATAGRAMS_PER_TURN):
            self._events.datagram(FRAME_IN, datagram, source)
            try:
                entries = decode_frame(datagram)
            except DecodeError:
                self._count_invalid()
                continue
            for entry in entries:
                self._on_entry(entry, unpack_address(source)[0], now_ns)

    def _on_entry(self, entry: Entry, source: str, now_ns: int) -> None:
        host = source if entry.is_self and ipaddress.ip_address(entry.host).is_unspecified else entry.host
        if entry.name == self.name:
            return
        heard_ns = now_ns - entry.age_ms * 1_000_000
        if now_ns - heard_ns >= TIMEOUT_NS:
            return
        known = self.cache.get(entry.name)
        if (known is None and len(self.cache) < CACHE_MAX) or (known is not None and heard_ns > known.heard_ns):
            self.cache[entry.name] = Known(host, entry.port, heard_ns)
        neighbour = (host, entry.port)
        if neighbour in self.neighbours:
            if entry.is_self:
                self.neighbours[neighbour] = now_ns
        elif len(self.neighbours) < NEIGHBOURS_MAX and entry.port:
            self.neighbours[neighbour] = now_ns

    def _forget(self, now_ns: int) -> None:
        for name in [name for name, known in self.cache.items() if now_ns - known.heard_ns > TIMEOUT_NS]:
            del self.cache[name]
        for neighbour in [one for one, heard_ns in self.neighbours.items() if now_ns - heard_ns > TIMEOUT_NS]:
            del self.neighbours[neighbour]

    def _cache_frames(self, now_ns: int) -> Iterator[bytes]:
        entries: list[Entry] = []
        length = _HEADER.size
        for name, known in self.cache.items():
            entry = Entry(name, known.host, known.port, (now_ns - known.heard_ns) // 1_000_000, False)
            added = len(_encode_entry(entry))
            if entries and length + added > FRAME_LENGTH_MAX:
                yield encode_frame(entries)
                entries, length = [], _HEADER.size
            entries.append(entry)
            length += added
        if entries:
            yield encode_frame(entries)

    def _send(self, frame: bytes, to: set[SocketName]) -> None:
        for neighbour in sorted(to):
            if neighbour != self.channel.local_address:
                address = pack_address(*neighbour)
                self._events.datagram(FRAME_OUT, frame, address)
                self.channel.send_bytes(frame, address)
