from ordo.runtime.native.counters import Counter
from ordo.transport.driver.channels.parameters import PublicationParameters
from ordo.transport.driver.flow.flow_control import FlowControl
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.driver.sending.send_endpoint import SendEndpoint
from ordo.transport.driver.sending.sent_stream import SentStream
from ordo.transport.streams.logbuffer import LogBuffers

STATE_NAMES: tuple[str, ...]

class NetworkPublication(SentStream):
    flow_control: FlowControl
    registration_id: int
    client_id: int
    is_exclusive: bool
    window: int
    signal_eos: bool
    spies_simulate_connection: bool
    parameters: PublicationParameters
    counters: dict[str, Counter]
    is_response: bool
    wants_response: bool
    state: int
    reference_count: int
    setups_left: int
    def __init__(
        self,
        *,
        log: LogBuffers,
        endpoint: SendEndpoint,
        flow_control: FlowControl,
        system: SystemCounters,
        registration_id: int,
        client_id: int,
        is_exclusive: bool,
        parameters: PublicationParameters,
        counters: dict[str, Counter],
        start_position: int,
        connection_timeout_ns: int,
        resend_delay_ns: int,
        resend_linger_ns: int,
        unblock_timeout_ns: int,
        now_ns: int,
    ) -> None: ...
    def allow_setups(self, limit: int) -> None: ...
    @property
    def receiver_count(self) -> int: ...
    @property
    def spy_count(self) -> int: ...
    @property
    def state_name(self) -> str: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def consumer_position(self) -> int: ...
    @property
    def untethered_limit(self) -> int: ...
    @property
    def accepts_subscriptions(self) -> bool: ...
    def add_spy(self, position: Counter) -> None: ...
    def remove_spy(self, position: Counter) -> None: ...
    def spies_have_drained(self) -> bool: ...
    def begin_draining(self, now_ns: int, revoke: bool = False) -> None: ...
    def on_time_event(self, now_ns: int, epoch_ms: int) -> str | None: ...
