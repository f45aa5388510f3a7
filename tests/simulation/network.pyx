"""A network that loses, delays, reorders, duplicates, damages, cuts and partitions, in virtual time and from one seed.

One SimulatedNetwork is the medium; `host(address)` gives each node the DatagramNetwork it is used to. A datagram
between two hosts meets the faults when it is sent and arrives when the clock has reached its time and the receiving
host looks (`select`). Datagrams of a host to itself arrive at once, whole.

Whoever drives the simulation advances the clock; `next_arrival_ns` tells how far.
"""

import heapq
import ipaddress
import socket
import struct
from collections import deque

from libc.errno cimport EAGAIN, EBADF, EIO, EMSGSIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from ordo.runtime.native.atomics cimport ordo_crc32c
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.errors import TransportError
from ordo.transport.udp import pack_address, unpack_address

cdef enum:
    SENT = 1
    LOST = 2
    BLOCKED = 3
    DAMAGED = 4
    SEND_LENGTH_MAX = 65507     # payload of one UDP datagram over IPv4

cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFFLL

EPHEMERAL_FIRST = 32768
RECEIVE_BUFFER_DEFAULT = 212992
NEVER_NS = NEVER
_WILDCARDS = ("0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1")

cdef object _push_heap = heapq.heappush, _pop_heap = heapq.heappop


cdef class Faults:
    """Chances from 0 to 1 for each datagram between hosts, delays in ns drawn evenly from min to max.

    A reordered datagram waits `reorder_delay_ns` longer than it would have. A truncated one is cut short, and reaches
    the socket. With `checksums` a damaged datagram is dropped on arrival, as a kernel does that verifies UDP checksums;
    without, it reaches the socket, too.
    """

    def __init__(self, double loss=0.0, double duplication=0.0, double corruption=0.0, double reordering=0.0,
                 int64_t delay_min_ns=20_000, int64_t delay_max_ns=20_000, int64_t reorder_delay_ns=200_000,
                 bint checksums=False, double truncation=0.0):
        self.loss = loss
        self.duplication = duplication
        self.corruption = corruption
        self.truncation = truncation
        self.reordering = reordering
        self.delay_min_ns = delay_min_ns
        self.delay_max_ns = delay_max_ns
        self.reorder_delay_ns = reorder_delay_ns
        self.checksums = checksums


cdef class Statistics:
    """What happened to the datagrams so far."""


cdef class SimulatedNetwork:
    """The medium between hosts. `random` is a seeded generator of its own; `names` maps host names to addresses.

    `capture(now_ns, source, destination, payload)` hears every datagram that a host sends, before any fault.
    """

    def __init__(self, Clock clock not None, random, Faults faults=None, names=None, capture=None):
        self.clock = clock
        self.random = random
        self.faults = faults or Faults()
        self.names = dict(names or {})
        self.pending_names = set()
        self.capture = capture
        self.statistics = Statistics()
        self.hosts = {}
        self.next_arrival_ns = NEVER
        self.notes_times = True
        self._blocked = set()
        self._extra_delay_ns = {}
        self._multicast = {}
        self._in_flight = []
        self._groups = {}
        self._names = {}
        self._packed = {}

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

    def unblock(self, source, destination):
        """The way from one host to the other is open, and as fast as the rest."""
        self._blocked.discard((source, destination))
        self._extra_delay_ns.pop((source, destination), None)

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

    def join(self, group, address):
        """A host hears what is sent to a group."""
        self._groups.setdefault(group, set()).add(address)

    def leave(self, group, address):
        """It hears it no longer."""
        self._groups.get(group, set()).discard(address)

    # --- datagrams ------------------------------------------------------------------------------------------------

    cpdef int send(self, str source_host, tuple source, tuple destination, bytes payload) except -1:
        """A datagram from a socket; to every member when the destination is a group."""
        self.statistics.sent += 1
        if self.capture is not None:
            self.capture(self.clock.nano_time(), source, destination, payload)
        is_multicast = self._multicast.get(destination[0])
        if is_multicast is None:
            is_multicast = self._multicast[destination[0]] = ipaddress.ip_address(destination[0]).is_multicast
        if not is_multicast:
            return self._route(source_host, source, destination[0], destination, payload)
        for address in sorted(self._groups.get(destination, ())):
            self._route(source_host, source, address, destination, payload)
        return 0

    cdef int _route(self, str source_host, tuple source, str address, tuple destination, bytes payload) except -1:
        cdef Faults faults = self.faults
        cdef int64_t extra_ns = 0
        cdef int copies = 1
        cdef bytes carried
        if address == source_host:
            return self._push(0, address, source, destination, payload)
        if self._blocked and (source_host, address) in self._blocked:
            self.statistics.blocked += 1
            return self._note(BLOCKED, destination, payload)
        if faults.loss > 0 and self.random.random() < faults.loss:
            self.statistics.lost += 1
            return self._note(LOST, destination, payload)
        if faults.duplication > 0 and self.random.random() < faults.duplication:
            self.statistics.duplicated += 1
            copies = 2
        if self._extra_delay_ns:
            extra_ns = self._extra_delay_ns.get((source_host, address), 0)
        for _ in range(copies):
            carried = self._maybe_damage(payload)
            if carried is None:
                self._note(DAMAGED, destination, payload)
            else:
                self._push(self._delay_ns() + extra_ns, address, source, destination, carried)
        return 0

    cdef int64_t _delay_ns(self) except -1:
        cdef Faults faults = self.faults
        cdef int64_t delay_ns = faults.delay_min_ns
        if faults.delay_max_ns > faults.delay_min_ns:
            delay_ns += <int64_t> (<double> self.random.random() * (faults.delay_max_ns - faults.delay_min_ns + 1))
        if faults.reordering > 0 and self.random.random() < faults.reordering:
            self.statistics.reordered += 1
            delay_ns += faults.reorder_delay_ns
        return delay_ns

    cdef bytes _maybe_damage(self, bytes payload):
        """What arrives of a datagram; None when nothing does."""
        cdef Faults faults = self.faults
        if faults.truncation > 0 and payload and self.random.random() < faults.truncation:
            self.statistics.truncated += 1
            payload = payload[:self.random.randrange(len(payload))]
        if faults.corruption <= 0 or not payload or self.random.random() >= faults.corruption:
            return payload
        self.statistics.corrupted += 1
        if faults.checksums:
            return None
        damaged = bytearray(payload)
        for _ in range(self.random.randint(1, 4)):
            damaged[self.random.randrange(len(damaged))] ^= 1 << self.random.randrange(8)
        return bytes(damaged)

    cdef int _push(self, int64_t delay_ns, str address, tuple source, tuple destination, bytes payload) except -1:
        cdef int64_t arrival_ns = self.clock.nano_time() + delay_ns
        self._sequence += 1
        self._note(SENT, destination, payload)
        _push_heap(self._in_flight, (arrival_ns, self._sequence, address, source, destination, payload))
        if arrival_ns < self.next_arrival_ns:
            self.next_arrival_ns = arrival_ns
        return 0

    cdef int _note(self, int fate, tuple destination, bytes payload) except -1:
        cdef int64_t head[2]
        cdef bytes packed = self._pack(destination)
        head[0] = self.clock.nano_time()
        head[1] = fate
        self._digest = ordo_crc32c(self._digest, head, sizeof(head))
        self._digest = ordo_crc32c(self._digest, <const char*> packed, len(packed))
        self._digest = ordo_crc32c(self._digest, <const char*> payload, len(payload))
        return 0

    cdef bytes _pack(self, tuple name):
        packed = self._packed.get(name)
        if packed is None:
            packed = self._packed[name] = pack_address(name[0], name[1])
        return packed

    cdef tuple _unpack(self, bytes packed):
        name = self._names.get(packed)
        if name is None:
            name = self._names[packed] = unpack_address(packed)
        return name

    cpdef int deliver(self) except -1:
        """Hands what is due to the sockets; how many datagrams arrived."""
        cdef int count = 0
        cdef int64_t now_ns = self.clock.nano_time()
        cdef SimulatedHost host
        while self.next_arrival_ns <= now_ns:
            _, _, address, source, destination, payload = _pop_heap(self._in_flight)
            self.next_arrival_ns = self._in_flight[0][0] if self._in_flight else NEVER
            host = self.hosts.get(address)
            if host is None or host.closed or not host.accept(source, destination, payload):
                self.statistics.unreachable += 1
            else:
                count += 1
        self.statistics.delivered += count
        return count


cdef class SimulatedHost(DatagramNetwork):
    """One node's sockets. `select` delivers what is due and never waits: time passes only by the clock's owner."""

    def __init__(self, SimulatedNetwork network not None, str address not None):
        self.network = network
        self.address = address
        self.channels = []
        self._next_port = EPHEMERAL_FIRST

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        self.parked_ns = timeout_ns
        if self.closed or not (self._has_queued or self.network.next_arrival_ns <= self.network.clock.nano_time()):
            return 0
        with gil:
            return self._look()

    cdef int _look(self) noexcept:
        cdef int count = 0
        cdef SimulatedChannel channel
        self.network.deliver()
        if not self._has_queued:
            return 0
        for channel in self.channels:
            channel.ready = len(channel._queue) > 0
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
            raise TransportError(f"Unable to resolve host={host!r}: not a name of the simulated network")
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
             int rcvbuf=0, int sndbuf=0, int tos=-1):
        """As DatagramNetwork.open; addresses of the loopback interface mean this host."""
        if self.closed:
            raise TransportError(f"host {self.address} is closed")
        name = (self._own(bind[0]), bind[1] or self._free_port())
        if bind[1] and not reuse and any(c.local_address[1] == bind[1] for c in self.channels):
            raise TransportError(f"Address already in use: {bind[0]}:{bind[1]}; another socket holds this port: stop its "
                                 "process or choose another port (0 picks a free one)")
        if connect is not None and not ipaddress.ip_address(connect[0]).is_multicast:
            connect = (self._own(connect[0]), connect[1])
        channel = SimulatedChannel(self, name, connect, group, rcvbuf or RECEIVE_BUFFER_DEFAULT)
        self.channels.append(channel)
        if group is not None:
            self.network.join(group, self.address)
        return channel

    cdef str _own(self, str host):
        if host in _WILDCARDS or ipaddress.ip_address(host).is_loopback:
            return self.address
        return host

    def _free_port(self):
        used = {channel.local_address[1] for channel in self.channels}
        while True:
            self._next_port = self._next_port + 1 if self._next_port < 65535 else EPHEMERAL_FIRST
            if self._next_port not in used:
                return self._next_port

    cpdef bint accept(self, tuple source, tuple destination, bytes payload) except -1:
        """Into the sockets a datagram is for; True when there was one."""
        cdef bint found = False
        cdef SimulatedChannel channel
        for channel in self.channels:
            if channel._hears(source, destination):
                found = True
                self.has_arrivals = self._has_queued = True
                channel._enqueue(source, payload)
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


cdef class SimulatedChannel(DatagramChannel):
    """One simulated socket."""

    def __init__(self, SimulatedHost host not None, tuple local_address not None, tuple connect, tuple group,
                 int receive_buffer_bytes):
        self.host = host
        self.local_address = local_address
        self.connected_to = connect
        self.group = group
        self.receive_buffer_bytes = receive_buffer_bytes
        self.send_buffer_bytes = 1 << 20
        self.items_room = -1
        self._queue = deque()
        self._held = []

    def reconnect(self, tuple address):
        """Sends to, and hears, another peer from now on."""
        self.connected_to = address

    def note_times(self):
        """Datagrams come with the time at which they arrived."""
        self._has_times = True

    cdef bint _hears(self, tuple source, tuple destination) except -1:
        """Whether a datagram is for this socket: its port, its group, and when connected its peer."""
        if self.group is not None:
            return destination == self.group
        if destination[1] != self.local_address[1] or destination[0] != self.local_address[0]:
            return False
        return self.connected_to is None or self.connected_to == source

    cdef int _enqueue(self, tuple source, bytes payload) except -1:
        if self._queued_bytes + len(payload) > self.receive_buffer_bytes:
            self.host.network.statistics.overflowed += 1
            return 0
        self._queued_bytes += len(payload)
        self._queue.append((payload, self.host.network._pack(source), self.host.network.clock.epoch_time_ns()))
        self.ready = True
        return 0

    cdef int send(self, SendItem* items, int count) noexcept nogil:
        with gil:
            try:
                return self._send(items, count)
            except BaseException as error:
                return self._code_of(error)

    cdef int _send(self, SendItem* items, int count) except -1000:
        cdef SimulatedHost host = self.host
        cdef tuple destination
        cdef uint32_t offset, length, step
        cdef int i
        if self.closed:
            return -EBADF
        for i in range(count):
            if self.items_room == 0:
                return i or -EAGAIN
            self.items_room -= self.items_room > 0
            destination = self.connected_to
            if items[i].to != NULL:
                destination = host.network._unpack((<char*> items[i].to.storage)[:items[i].to.length_bytes])
            if destination[0] in _LOOPBACK:
                destination = (host.address, destination[1])
            step = items[i].segment_length_bytes or items[i].length_bytes
            if step > SEND_LENGTH_MAX:
                return -EMSGSIZE
            offset = 0
            while offset < items[i].length_bytes:
                length = min(step, items[i].length_bytes - offset)
                host.network.send(host.address, self.local_address, destination,
                                  (<const char*> items[i].data)[offset:offset + length])
                offset += length
        return count

    cdef int receive(self, ReceiveItem* items, int capacity) noexcept nogil:
        with gil:
            try:
                return self._receive(items, capacity)
            except BaseException as error:
                return self._code_of(error)

    cdef int _receive(self, ReceiveItem* items, int capacity) except -1000:
        cdef bytes payload, source
        cdef int64_t time_ns
        cdef int i = 0
        self._held = []
        while i < capacity and self._queue:
            payload, source, time_ns = self._queue.popleft()
            self._queued_bytes -= len(payload)
            self._held.append(payload)
            items[i].data = <uint8_t*> <char*> payload
            items[i].length_bytes = items[i].segment_length_bytes = len(payload)
            memcpy(items[i].source.storage, <const char*> source, min(28, <int> len(source)))
            items[i].source.length_bytes = len(source)
            items[i].time_ns = time_ns if self._has_times and self.host.network.notes_times else 0
            i += 1
        if i < capacity:
            self.ready = False
        return i

    cdef int _code_of(self, error) noexcept:
        self.failure = error
        return -EIO

    def close(self):
        self.closed = True
        self.ready = False
        self._queue.clear()
        self.host.forget(self)


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
