"""The context that the parts of a driver share, and the making of counters."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.runtime.errors import TransportError
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.transport.control.cnc import CncFile
from ordo.transport.control.commands import Response, encode, type_id_of
from ordo.transport.driver.channels.names import Names, WildcardPorts
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.conducting.log_store import LogStore
from ordo.transport.driver.conducting.refusals import reason
from ordo.transport.driver.frames.event_log import RESPONSE, EventLog
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.driver.receiving.receiver import Receiver
from ordo.transport.driver.sending.sender import Sender
from ordo.transport.streams.logbuffer import LogBuffers
from ordo.transport.udp import UdpChannel

if TYPE_CHECKING:
    from random import Random

OWNER_NONE = -1
TYPE_PUBLISHER_LIMIT = 1
TYPE_SENDER_POSITION = 2
TYPE_RECEIVER_HWM = 3
TYPE_SUBSCRIBER_POSITION = 4
TYPE_RECEIVER_POSITION = 5
TYPE_SEND_CHANNEL = 6
TYPE_RECEIVE_CHANNEL = 7
TYPE_SENDER_LIMIT = 9
TYPE_CONGESTION = 10
TYPE_CLIENT_HEARTBEAT = 11
TYPE_PUBLISHER_POSITION = 12
TYPE_BACK_PRESSURE = 13
TYPE_LOCAL_ADDRESS = 14
TYPE_RESOLVER_NEIGHBOURS = 15
TYPE_RESOLVER_CACHE = 16
TYPE_FLOW_RECEIVERS = 17
TYPE_DESTINATIONS = 18
TYPE_NAKS_RECEIVED = 19
TYPE_NAKS_SENT = 20
TYPE_PARK_FLAG = 1004
STATUS_ERRORED = -1
STATUS_INITIALIZING = 0
STATUS_ACTIVE = 1
STATUS_CLOSING = 2
_STREAM_CHANNEL_MAX = 92
_CHANNEL_MAX = 108
_ADDRESS_MAX = 104


class DriverNetwork(Protocol):
    """The methods of a DatagramNetwork that a driver needs beside its native calls."""

    def open(
        self,
        bind: tuple[str, int] = ...,
        *,
        connect: tuple[str, int] | None = None,
        group: tuple[str, int] | None = None,
        interface: str | None = None,
        ttl: int = 0,
        reuse: bool = False,
        rcvbuf: int = 0,
        sndbuf: int = 0,
    ) -> UdpChannel:
        """Open a channel; see DatagramNetwork.open."""
        ...

    def lookup(self, host: str) -> str | None:
        """Return the numeric address of a name without waiting, or None while it is looked up.

        Raises TransportError.
        """
        ...

    def interface_address(self, text: str) -> str:
        """Return the numeric address of an `interface` parameter."""
        ...


class RecordError(Protocol):
    """Keeps an error for the user: in the error log, with the text `entry` if given, and in the error handler."""

    def __call__(self, error: BaseException | str, entry: str | None = None) -> object: ...


@dataclass
class DriverContext:
    """The seams and the shared structures of one driver; made by MediaDriver when it starts."""

    config: MediaDriverSettings
    directory: str
    clock: Clock
    network: DriverNetwork
    names: Names
    send_ports: WildcardPorts
    receive_ports: WildcardPorts
    send_network: DriverNetwork
    receive_network: DriverNetwork
    logs: LogStore
    random: Random
    cnc: CncFile
    counters: CountersManager
    system: SystemCounters
    sender: Sender
    receiver: Receiver
    record_error: RecordError
    record_loss: Callable[[Any, int], None]
    events: EventLog
    transmit_raw: Callable[[int, bytes], None] = field(default=lambda type_id, payload: None)

    def transmit(self, response: Response) -> None:
        """Send a response to every client."""
        type_id, payload = type_id_of(response), encode(response)
        self.events.record(RESPONSE, type_id, payload)
        self.transmit_raw(type_id, payload)

    def lookup_again(self, host: str, channel: str) -> str | None:
        """Return the address of a name whose channel fell silent, or None; why it has none is recorded.

        A name without an address must not keep the others from being looked up.
        """
        try:
            return self.names.lookup(host)
        except TransportError as error:
            self.record_error(reason(error, channel))
            return None

    def check_shortage(self, log: LogBuffers) -> None:
        """Record that a stream is held up because shared memory is full."""
        if log.take_shortage():
            self.record_error(f"shared memory is full, stream {log.stream_id} waits for room: {self.directory}")

    def tell_state(self, kind: str, resource_id: int, log: LogBuffers, state: str) -> None:
        """Write one line into the event log: a publication or image has entered a state."""
        self.events.state(
            "{} {} session_id={} stream_id={} {}", kind, resource_id, log.session_id, log.stream_id, state
        )

    def next_correlation_id(self) -> int:
        return int(self.cnc.to_driver.next_correlation_id())

    def free_counter(self, counter: Counter | None) -> None:
        if counter is not None:
            self.counters.free(counter.counter_id)

    def stream_counter(
        self,
        type_id: int,
        name: str,
        stream: StreamName,
        *,
        owner_id: int,
        value: int = 0,
        reference_id: int = 0,
        suffix: str = "",
    ) -> Counter:
        """Return a counter with a stream key (cnc-and-driver-protocol.md §5.3)."""
        channel = stream.channel.encode("ascii", "replace")
        key = struct.pack("<qii", stream.registration_id, stream.session_id, stream.stream_id)
        key += struct.pack("<i", min(len(channel), _STREAM_CHANNEL_MAX)) + channel[:_STREAM_CHANNEL_MAX]
        label = f"{name}: {stream.registration_id} {stream.session_id} {stream.stream_id} {stream.channel}"
        return self.counters.allocate(
            type_id,
            label[: 380 - len(suffix)] + suffix,
            key,
            registration_id=stream.registration_id,
            owner_id=owner_id,
            reference_id=reference_id,
            value=value,
        )

    def channel_counter(
        self, type_id: int, name: str, channel: str, registration_id: int, address: str = "", value: int = 0
    ) -> Counter:
        """Return a counter with a channel key; its label ends with the bound address."""
        text = channel.encode("ascii", "replace")
        key = struct.pack("<i", min(len(text), _CHANNEL_MAX)) + text[:_CHANNEL_MAX]
        label = f"{name}: {channel[: 380 - len(name) - len(address) - 3]} {address}"
        return self.counters.allocate(type_id, label, key, registration_id=registration_id, value=value)

    def address_counter(self, name: str, status_id: int, address: str, registration_id: int) -> Counter:
        """Return the bound address of a socket, so that clients can use wildcard ports."""
        text = address.encode("ascii")[:_ADDRESS_MAX]
        key = struct.pack("<ii", status_id, len(text)) + text
        label = f"{name}: {status_id} {address}"
        return self.counters.allocate(
            TYPE_LOCAL_ADDRESS, label, key, registration_id=registration_id, value=STATUS_ACTIVE
        )


class StreamName(NamedTuple):
    """The parts of a stream that the keys and labels of its counters name."""

    registration_id: int
    session_id: int
    stream_id: int
    channel: str


def format_address(name: tuple[str, int]) -> str:
    """Return `host:port`, with IPv6 in brackets."""
    host, port = name
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
