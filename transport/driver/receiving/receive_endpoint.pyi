from ordo.runtime.io.datagram import DatagramChannel
from ordo.runtime.native.counters import Counter
from ordo.transport.driver.channels.channel import UdpChannelSpec
from ordo.transport.driver.frames.event_log import EventLog
from ordo.transport.driver.frames.pointers import Worked
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.driver.frames.timestamps import FrameStamper
from ordo.transport.udp import UdpChannel

class ReceiveTransport:
    channel: UdpChannel
    spec: UdpChannelSpec
    endpoint: ReceiveEndpoint
    registration_id: int
    is_multicast: bool
    has_explicit_control: bool
    local_address_counter: Counter
    def __init__(
        self,
        channel: DatagramChannel,
        spec: UdpChannelSpec,
        endpoint: ReceiveEndpoint,
        *,
        registration_id: int,
        is_multicast: bool,
        has_explicit_control: bool,
        control: bytes,
        now_ns: int,
    ) -> None: ...
    def replace_control(self, control: bytes) -> bool: ...
    def ask_again(self) -> None: ...

class ReceiveEndpoint:
    spec: UdpChannelSpec
    transports: list[ReceiveTransport]
    receiver_id: int
    has_tag: bool
    tag: int
    stamper: FrameStamper | None
    media_stamper: FrameStamper | None
    images: dict[tuple[int, int], Worked]
    interests: dict[int, list[int | None]]
    pending: dict[tuple[int, int], int]
    reference_count: int
    status: Counter
    def __init__(
        self,
        spec: UdpChannelSpec,
        system: SystemCounters,
        *,
        receiver_id: int,
        tag: int | None,
        stamper: FrameStamper | None = None,
        media_stamper: FrameStamper | None = None,
        events: EventLog | None = None,
    ) -> None: ...
    def retain(self) -> None: ...
    def release(self) -> bool: ...
    def add_transport(self, transport: ReceiveTransport) -> None: ...
    def remove_transport(self, transport: ReceiveTransport) -> None: ...
    def close(self) -> None: ...
    def add_interest(self, stream_id: int, session_id: int | None) -> None: ...
    def remove_interest(self, stream_id: int, session_id: int | None) -> None: ...
    def is_interested(self, session_id: int, stream_id: int) -> bool: ...
    def marker_of(self, session_id: int, stream_id: int) -> int: ...
    def mark(self, session_id: int, stream_id: int, marker: int, deadline_ns: int = 0) -> None: ...
    def unmark(self, session_id: int, stream_id: int) -> None: ...
    def add_image(self, image: Worked, session_id: int, stream_id: int) -> None: ...
    def remove_image(self, image: Worked, session_id: int, stream_id: int) -> None: ...
    def ask_setup(self, session_id: int, stream_id: int) -> None: ...
    def conduct_endpoint(self, now_ns: int) -> int: ...
