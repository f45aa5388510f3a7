"""A network that loses, delays, reorders, duplicates, corrupts and partitions, in virtual time and from one seed.

One SimulatedNetwork is the medium; `host(address)` gives each node the DatagramNetwork it is used to. A datagram
between two hosts meets the faults when it is sent and arrives when the clock has reached its time and the receiving
host looks (`select`). Datagrams of a host to itself arrive at once, whole.

Whoever drives the simulation advances the clock; `next_arrival_ns` tells how far.
"""

import heapq
import ipaddress
import socket
import struct
import zlib
from collections import deque
from dataclasses import dataclass

from libc.stdint cimport int64_t

from runtime.clock cimport Clock
from runtime.datagram import PythonDatagramChannel
from runtime.errors import TransportError
from transport.udp import pack_address, unpack_address

EPHEMERAL_FIRST = 32768
RECEIVE_BUFFER_DEFAULT = 212992
NEVER_NS = (1 << 63) - 1
_WILDCARDS = ("0.0.0.0", "::")


@dataclass
class Faults:
    """Chances from 0 to 1 for each datagram between hosts, delays in ns drawn evenly from min to max.

    A reordered datagram waits `reorder_delay_ns` longer than it would have. With `checksums` a damaged datagram is
    dropped on arrival, as a kernel does that verifies UDP checksums; without, it reaches the socket.
    """

    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    reordering: float = 0.0
    delay_min_ns: int = 20_000
    delay_max_ns: int = 20_000
    reorder_delay_ns: int = 200_000
    checksums: bool = False


@dataclass
class Statistics:
    """What happened to the datagrams so far."""

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    blocked: int = 0
    duplicated: int = 0
    corrupted: int = 0
    reordered: int = 0
    overflowed: int = 0
    unreachable: int = 0


class SimulatedNetwork:
    """The medium between hosts. `random` is a seeded generator of its own; `names` maps host names to addresses.

    `capture(now_ns, source, destination, payload)` hears every datagram that a host sends, before any fault.
    """

    def __init__(self, Clock clock not None, random, faults=None, names=None, capture=None):
        self.clock = clock
        self.random = random
        self.faults = faults or Faults()
        self.names = dict(names or {})
        self.pending_names = set()
        self.capture = capture
        self.statistics = Statistics()
        self.hosts = {}
        self._blocked = set()
        self._extra_delay_ns = {}
        self._multicast = {}
        self._in_flight = []
        self._sequence = 0
        self._digest = 0
        self._groups = {}

    # --- hosts and partitions -------------------------------------------------------------------------------------

    def host(self, str address):
        """The DatagramNetwork of a node. A host that was closed (a crash) may be made anew."""
        known = self.hosts.get(address)
        if known is not None and not known.closed:
            raise TransportError(f"host {address} exists already: close it first")
        made = SimulatedHost(self, address)
        self.hosts[address] = made
        return made

    def block(self, source, destination):
        """Nothing goes from one host to the other any more; the way back stays open."""
        self._blocked.add((source, destination))

    def partition(self, *groups):
        """Hosts of different groups no longer hear each other, nor those in no group."""
        self._blocked.clear()
        side = {address: index for index, group in enumerate(groups) for address in group}
        for a in self.hosts:
            for b in self.hosts:
                if a != b and (side.get(a, a) != side.get(b, b)):
                    self._blocked.add((a, b))

    def slow_down(self, source, destination, int64_t delay_ns):
        """Every datagram from one host to the other takes `delay_ns` longer."""
        self._extra_delay_ns[source, destination] = delay_ns

    def heal(self):
        """Ends every partition, every blocked and every slow way; the faults stay."""
        self._blocked.clear()
        self._extra_delay_ns.clear()

    @property
    def digest(self):
        """Checksum of everything sent so far and its fate: equal for two runs of one seed."""
        return self._digest

    # --- datagrams ------------------------------------------------------------------------------------------------

    def send(self, source_host, source, destination, bytes payload):
        """A datagram from a socket; to every member when the destination is a group."""
        self.statistics.sent += 1
        if self.capture is not None:
            self.capture(self.clock.now(), source, destination, payload)
        is_multicast = self._multicast.get(destination[0])
        if is_multicast is None:
            is_multicast = self._multicast[destination[0]] = ipaddress.ip_address(destination[0]).is_multicast
        if is_multicast:
            targets = sorted(self._groups.get(destination, ()))
        else:
            targets = [destination[0]]
        for address in targets:
            self._route(source_host, source, address, destination, payload)

    def _route(self, source_host, source, address, destination, payload):
        if address == source_host:
            self._push(0, address, source, destination, payload)
            return
        if (source_host, address) in self._blocked:
            self.statistics.blocked += 1
            self._note(b"blocked", destination, payload)
            return
        faults, random = self.faults, self.random
        if faults.loss and random.random() < faults.loss:
            self.statistics.lost += 1
            self._note(b"lost", destination, payload)
            return
        copies = 1
        if faults.duplication and random.random() < faults.duplication:
            self.statistics.duplicated += 1
            copies = 2
        extra_ns = self._extra_delay_ns.get((source_host, address), 0) if self._extra_delay_ns else 0
        for _ in range(copies):
            carried = self._maybe_corrupt(payload)
            if carried is not payload and faults.checksums:
                self._note(b"damaged", destination, carried)
                continue
            self._push(self._delay_ns() + extra_ns, address, source, destination, carried)

    def _delay_ns(self):
        faults = self.faults
        delay_ns = faults.delay_min_ns
        if faults.delay_max_ns > faults.delay_min_ns:
            delay_ns += <int64_t> (self.random.random() * (faults.delay_max_ns - faults.delay_min_ns + 1))
        if faults.reordering and self.random.random() < faults.reordering:
            self.statistics.reordered += 1
            delay_ns += faults.reorder_delay_ns
        return delay_ns

    def _maybe_corrupt(self, payload):
        if not self.faults.corruption or not payload or self.random.random() >= self.faults.corruption:
            return payload
        self.statistics.corrupted += 1
        damaged = bytearray(payload)
        for _ in range(self.random.randint(1, 4)):
            damaged[self.random.randrange(len(damaged))] ^= 1 << self.random.randrange(8)
        return bytes(damaged)

    def _push(self, delay_ns, address, source, destination, payload):
        self._sequence += 1
        self._note(b"sent", destination, payload)
        heapq.heappush(self._in_flight,
                       (self.clock.now() + delay_ns, self._sequence, address, source, destination, payload))

    def _note(self, fate, destination, payload):
        head = struct.pack("<q", self.clock.now()) + fate + destination[0].encode()
        self._digest = zlib.crc32(payload, zlib.crc32(head, self._digest))

    def deliver(self):
        """Hands what is due to the sockets; how many datagrams arrived."""
        count = 0
        now_ns = self.clock.now()
        while self._in_flight and self._in_flight[0][0] <= now_ns:
            _, _, address, source, destination, payload = heapq.heappop(self._in_flight)
            host = self.hosts.get(address)
            if host is None or host.closed or not host.accept(source, destination, payload):
                self.statistics.unreachable += 1
            else:
                count += 1
        self.statistics.delivered += count
        return count

    @property
    def next_arrival_ns(self):
        """When the next datagram arrives; NEVER_NS when none is on its way."""
        return self._in_flight[0][0] if self._in_flight else NEVER_NS

    def join(self, group, address):
        self._groups.setdefault(group, set()).add(address)

    def leave(self, group, address):
        members = self._groups.get(group, set())
        members.discard(address)


cdef class SimulatedHost(DatagramNetwork):
    """One node's sockets. `select` delivers what is due and never waits: time passes only by the clock's owner."""
    def __init__(self, network, str address):
        self.network = network
        self.address = address
        self.channels = []
        self._next_port = EPHEMERAL_FIRST

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        self.parked_ns = timeout_ns
        with gil:
            return self._look()

    cdef int _look(self) noexcept:
        cdef int count = 0
        if self.closed:
            return 0
        if self.network.next_arrival_ns <= self.network.clock.now():
            self.network.deliver()
        if not self._has_queued:
            return 0
        for channel in self.channels:
            channel.ready = bool(channel.queue)
            count += channel.ready
        self._has_queued = count > 0
        return count

    def fileno(self):
        """There is nothing to wait on."""
        return -1

    def resolve(self, str host, int port):
        """(numeric host, port) of a name; raises TransportError when it has none."""
        if host == "localhost":
            return self.address, port
        if host not in self.network.names:
            raise TransportError(f"cannot resolve host={host!r}: not a name of the simulated network")
        return self.network.names[host], port

    def lookup(self, str host):
        """As `resolve`, the address alone; None, as long as the name is in `pending_names`."""
        if host in self.network.pending_names:
            return None
        return self.resolve(host, 0)[0]

    def interface_address(self, str text):
        """The host has one address, whatever the interface asked for."""
        return self.address

    def open_wake_socket(self, str path):
        """Simulated nodes are never asleep."""

    def wake(self):
        """Simulated nodes are never asleep."""

    def open(self, tuple bind=("0.0.0.0", 0), *, connect=None, group=None, interface=None, int ttl=0, bint reuse=False,
             int rcvbuf=0, int sndbuf=0):
        """As DatagramNetwork.open; addresses of the loopback interface mean this host."""
        if self.closed:
            raise TransportError(f"host {self.address} is closed")
        name = (self._own(bind[0]), bind[1] or self._free_port())
        if bind[1] and not reuse and any(c.local_address[1] == bind[1] for c in self.channels):
            raise TransportError(f"address in use: {bind[0]}:{bind[1]}; another socket holds this port: stop its "
                                 "process or choose another port (0 picks a free one)")
        if connect is not None and not ipaddress.ip_address(connect[0]).is_multicast:
            connect = (self._own(connect[0]), connect[1])
        channel = SimulatedChannel(self, name, connect, group, rcvbuf or RECEIVE_BUFFER_DEFAULT)
        self.channels.append(channel)
        if group is not None:
            self.network.join(group, self.address)
        return channel

    def _own(self, str host):
        if host in _WILDCARDS or ipaddress.ip_address(host).is_loopback:
            return self.address
        return host

    def _free_port(self):
        used = {channel.local_address[1] for channel in self.channels}
        while True:
            self._next_port = self._next_port + 1 if self._next_port < 65535 else EPHEMERAL_FIRST
            if self._next_port not in used:
                return self._next_port

    def accept(self, source, destination, payload):
        """Into the sockets a datagram is for; True when there was one."""
        found = False
        for channel in self.channels:
            if channel.hears(source, destination):
                found = True
                self.has_arrivals = self._has_queued = True
                channel.enqueue(source, payload)
        return found

    def forget(self, channel):
        """A closed socket is not looked at any more."""
        if channel in self.channels:
            self.channels.remove(channel)
        if channel.group is not None and not any(c.group == channel.group for c in self.channels):
            self.network.leave(channel.group, self.address)

    def close(self):
        """The node is gone: its sockets close, what is on its way to it is lost."""
        for channel in list(self.channels):
            channel.close()
        self.closed = True


class SimulatedChannel(PythonDatagramChannel):
    """One simulated socket; `queue` holds (payload, source) up to its receive buffer."""

    def __init__(self, host, local_address, connect, group, int receive_buffer_bytes):
        self.host = host
        self.local_address = local_address
        self.connected_to = connect
        self.group = group
        self.receive_buffer_bytes = receive_buffer_bytes
        self.send_buffer_bytes = 1 << 20
        self.queue = deque()
        self.queued_bytes = 0
        self.closed = False
        self._packed = {}

    def _pack(self, name):
        found = self._packed.get(name)
        if found is None:
            found = self._packed[name] = pack_address(*name)
        return found

    def hears(self, source, destination):
        """Whether a datagram is for this socket: its port, its group, and when connected its peer."""
        if self.group is not None:
            return destination == self.group
        if destination[1] != self.local_address[1] or destination[0] != self.local_address[0]:
            return False
        return self.connected_to is None or self.connected_to == source

    def reconnect(self, address):
        self.connected_to = address

    def enqueue(self, source, payload):
        if self.queued_bytes + len(payload) > self.receive_buffer_bytes:
            self.host.network.statistics.overflowed += 1
            return
        self.queued_bytes += len(payload)
        self.queue.append((payload, self._pack(source)))
        self.ready = True

    def send_datagram(self, payload, to):
        if self.closed:
            raise OSError(9, "socket is closed")
        destination = unpack_address(to) if to else self.connected_to
        destination = (self.host._own(destination[0]), destination[1]) if destination[0] in _LOOPBACK else destination
        self.host.network.send(self.host.address, self.local_address, destination, payload)
        return True

    def receive_datagram(self):
        if not self.queue:
            self.ready = False
            return None
        payload, source = self.queue.popleft()
        self.queued_bytes -= len(payload)
        return payload, source

    def close(self):
        self.closed = True
        self.ready = False
        self.queue.clear()
        self.host.forget(self)


_LOOPBACK = ("127.0.0.1", "::1")


def write_pcap(path, packets):
    """Writes (now_ns, source, destination, payload) datagrams over IPv4 as a capture file that Wireshark reads."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101))    # nanoseconds, raw IP
        for now_ns, source, destination, payload in packets:
            udp = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
            header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                                 socket.inet_aton(source[0]), socket.inet_aton(destination[0]))
            header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
            frame = header + udp
            out.write(struct.pack("<IIII", now_ns // 1_000_000_000, now_ns % 1_000_000_000, len(frame), len(frame)))
            out.write(frame)


def _checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
