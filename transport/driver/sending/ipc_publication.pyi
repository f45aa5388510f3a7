from ordo.runtime.native.counters import Counter
from ordo.transport.driver.channels.parameters import PublicationParameters
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.streams.logbuffer import LogBuffers

STATE_NAMES: tuple[str, ...]

class IpcPublication:
    log: LogBuffers
    session_id: int
    stream_id: int
    registration_id: int
    client_id: int
    is_exclusive: bool
    parameters: PublicationParameters
    counters: dict[str, Counter]
    window: int
    state: int
    reference_count: int
    def __init__(
        self,
        *,
        log: LogBuffers,
        system: SystemCounters,
        registration_id: int,
        client_id: int,
        is_exclusive: bool,
        parameters: PublicationParameters,
        counters: dict[str, Counter],
        start_position: int,
        unblock_timeout_ns: int,
        now_ns: int,
    ) -> None: ...
    @property
    def subscriber_count(self) -> int: ...
    @property
    def state_name(self) -> str: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def join_position(self) -> int: ...
    @property
    def untethered_limit(self) -> int: ...
    @property
    def is_draining(self) -> bool: ...
    @property
    def accepts_subscriptions(self) -> bool: ...
    def add_subscriber(self, position: Counter) -> None: ...
    def remove_subscriber(self, position: Counter) -> None: ...
    def subscribers_have_drained(self) -> bool: ...
    def reject(self, until_ns: int) -> None: ...
    def begin_draining(self, now_ns: int, revoke: bool = False) -> None: ...
    def on_time_event(self, now_ns: int, epoch_ms: int) -> str | None: ...
