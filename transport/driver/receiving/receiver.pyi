from typing import NamedTuple

from ordo.transport.driver.flow.admission import Admission
from ordo.transport.driver.frames.event_log import EventLog
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.driver.receiving.publication_image import PublicationImage
from ordo.transport.driver.receiving.receive_endpoint import ReceiveEndpoint, ReceiveTransport

class Setup(NamedTuple):
    transport: ReceiveTransport
    source: bytes
    session_id: int
    stream_id: int
    initial_term_id: int
    active_term_id: int
    term_offset: int
    term_length: int
    mtu: int
    ttl: int
    flags: int

class Receiver:
    setups: list[Setup]
    pending_endpoints: dict[ReceiveEndpoint, None]
    admission: Admission
    events: EventLog | None
    def __init__(self, system: SystemCounters, admission: Admission, pending_max: int) -> None: ...
    def release(self, setup: Setup, is_confirmed: bool = False) -> None: ...
    def add_transport(self, transport: ReceiveTransport) -> None: ...
    def remove_transport(self, transport: ReceiveTransport) -> None: ...
    def add_image(self, image: PublicationImage, now_ns: int) -> None: ...
    def remove_image(self, image: PublicationImage) -> None: ...
    def take_setups(self, limit: int = ...) -> list[Setup]: ...
    def take_encrypted_source(self) -> bytes: ...
