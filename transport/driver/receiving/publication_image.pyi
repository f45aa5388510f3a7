from collections.abc import Callable
from typing import Any

from ordo.runtime.native.counters import Counter
from ordo.transport.driver.flow.claims import Claims
from ordo.transport.driver.flow.congestion import ReceiveWindow
from ordo.transport.driver.flow.loss import LossDetector
from ordo.transport.driver.frames.pointers import Worked
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.driver.receiving.receive_endpoint import ReceiveEndpoint, ReceiveTransport
from ordo.transport.streams.logbuffer import LogBuffers

STATE_NAMES: tuple[str, ...]

class PublicationImage(Worked):
    log: LogBuffers
    endpoint: ReceiveEndpoint
    loss: LossDetector
    session_id: int
    stream_id: int
    correlation_id: int
    source_identity: str
    counters: dict[str, Counter]
    state: int
    window: ReceiveWindow
    is_reliable: bool
    rejoins: bool
    claims: Claims
    high_water: int
    rebuild_position: int
    is_end_of_stream: bool
    is_revoked: bool
    is_superseded: bool
    rejection: bytes | None
    setup: Any
    channel: str
    asks_response: bool
    has_response: bool
    is_confirmed: bool
    loss_record: Callable[[PublicationImage, int], None] | None
    def __init__(
        self,
        *,
        log: LogBuffers,
        endpoint: ReceiveEndpoint,
        loss: LossDetector,
        system: SystemCounters,
        correlation_id: int,
        source_identity: str,
        counters: dict[str, Counter],
        join_position: int,
        window: ReceiveWindow,
        rejoins: bool,
        sm_timeout_ns: int,
        liveness_timeout_ns: int,
        connection_timeout_ns: int,
        now_ns: int,
    ) -> None: ...
    @property
    def subscriber_count(self) -> int: ...
    @property
    def state_name(self) -> str: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def accepts_subscriptions(self) -> bool: ...
    @property
    def join_position(self) -> int: ...
    @property
    def rejected(self) -> bool: ...
    @property
    def untethered_limit(self) -> int: ...
    @property
    def ended_orderly(self) -> bool: ...
    def add_connection(self, transport: ReceiveTransport, source: bytes, now_ns: int) -> None: ...
    def drop_connection(self, transport: ReceiveTransport) -> None: ...
    def add_subscriber(self, position: Counter) -> None: ...
    def remove_subscriber(self, position: Counter) -> None: ...
    def subscribers_have_drained(self) -> bool: ...
    def offer_response(self, session_id: int) -> None: ...
    def withdraw_response(self) -> None: ...
    def reject(self, reason: bytes) -> None: ...
    def end_now(self, now_ns: int) -> None: ...
    def supersede(self) -> None: ...
    def on_time_event(self, now_ns: int, epoch_ms: int) -> str | None: ...
