"""Settings of a cluster client, for its plain and its asyncio form alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real

from ordo.cluster.client.requests.tracing import Tracing
from ordo.cluster.wire.streams import EGRESS_STREAM_ID, INGRESS_STREAM_ID
from ordo.runtime.errors import ConfigurationError, RequestOutcome
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.kinds import check_kinds, check_seconds
from ordo.transport.secure.settings import Encryption

EGRESS_POLICIES = ("disconnect", "drop-oldest")
OUTSTANDING_REQUESTS_LIMIT = 65_536
"""So many answers of one identity the cluster keeps (cluster.container.requests)."""


TERM_LENGTH_MIN = 64 * 1024
TERM_LENGTH_MAX = 1 << 30
FOREVER_S = 1e9
"""The longest that a call waits, where it is to wait for ever: in nanoseconds a number of 64 bits."""


def to_ns(seconds: float) -> int:
    """Return seconds as whole nanoseconds."""
    return round(seconds * SECOND_NS)


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The settings of a client: times in seconds, lengths in bytes.

    Raises ConfigurationError for a value out of range.
    """

    ingress_channel: str = "aeron:udp?term-length=1m"
    """How messages travel; the endpoint of the leader is added. `aeron:ipc`, with `aeron_dir`: through shared memory
    to a leader on this machine. With a multicast group as its endpoint: to the group (docs/CLIENT.md)."""
    egress_channel: str = "aeron:udp?endpoint=127.0.0.1:0"
    """Where answers come in: an address that every member reaches; port 0 takes a free one."""
    egress_term_length_bytes: int = 256 * 1024
    """Asked of the member that answers: an answer may be an eighth of it long."""
    egress_policy: str = "disconnect"
    """What is done with a client that takes less than it is sent: "disconnect", or "drop-oldest"."""
    ingress_stream_id: int = INGRESS_STREAM_ID
    egress_stream_id: int = EGRESS_STREAM_ID
    message_timeout_s: float = 10.0
    """How long `send` and `query` go on, where the call says nothing else."""
    reconnect: bool | None = None
    """Whether a session that is lost is followed by a new one. None: in a client that makes requests, or is told what
    became of its messages; for others the loss is an error."""
    connect_timeout_s: float = 15.0
    """How long a new session may take, over all members."""
    connect_attempt_timeout_s: float = 1.0
    """How long one member may take, before the next one is asked."""
    new_leader_timeout_s: float = 10.0
    """How long a session waits for a new leader, before it is over."""
    keep_alive_interval_s: float = 1.0
    """After so long without a message the client says that it is still there."""
    keep_alive_thread: bool = True
    """A thread keeps the session while the application does not call the client; for a client with a transport of its
    own."""
    query_retry_interval_s: float = 0.25
    request_retry_interval_s: float = 0.5
    """When no request was answered for so long, those under way are sent again."""
    acknowledge_interval_s: float = 0.01
    """A client that is told what becomes of its messages asks so often while it does not know."""
    unsequenced_bytes_max: int = 16 * 1024 * 1024
    """So much of such a client's messages may be under way; beyond it `offer` returns BACK_PRESSURED."""
    outstanding_requests_max: int = 8192
    """So many requests may be under way at a time."""
    identity: bytes = b""
    """16 bytes that name the sender of requests, over all sessions. Empty: the journal's, or a random one."""
    journal: str = ""
    """File that keeps requests until they are answered, so that they are carried out once even when this process ends.
    One process at a time uses it."""
    journal_sync: bool = True
    """The journal is on disk before a request is sent. Without it requests outlive the process, not the machine."""
    client_name: str = ""
    """For the members' logs."""
    credentials: bytes | Callable[[], bytes] = b""
    """What the cluster's authenticator is shown: bytes, or what gives them whenever a session is opened, as
    `credentials_from_file` and `credentials_from_environment` do. With tokens (docs/SECURITY.md) the token."""
    tracing: Tracing | None = None
    """Traces of a share of the requests, as spans for an OpenTelemetry collector (docs/OPERATIONS.md)."""
    key_file: str = ""
    """Key of the client's own driver, which encrypts with it (`ordo keys new`); ORDO_KEY_FILE when empty."""
    trusted_file: str = ""
    """The members' keys (`ordo keys trust`); ORDO_TRUSTED_FILE when empty."""

    def __post_init__(self) -> None:
        check_kinds(self)
        check_seconds(self, *(field.name for field in fields(self) if field.name.endswith("_s")))
        Encryption(self.key_file, self.trusted_file)
        if len(self.identity) not in (0, 16):
            raise ConfigurationError(f"identity of {len(self.identity)} bytes: must be 16, or empty for a random one")
        if not 0 < self.outstanding_requests_max <= OUTSTANDING_REQUESTS_LIMIT:
            raise ConfigurationError(
                f"outstanding_requests_max={self.outstanding_requests_max}: must be 1 to {OUTSTANDING_REQUESTS_LIMIT}"
            )
        length_bytes = self.egress_term_length_bytes
        if not TERM_LENGTH_MIN <= length_bytes <= TERM_LENGTH_MAX or length_bytes & (length_bytes - 1):
            raise ConfigurationError(
                f"egress_term_length_bytes={length_bytes}: must be a power of two, "
                f"{TERM_LENGTH_MIN} to {TERM_LENGTH_MAX}"
            )
        if self.unsequenced_bytes_max <= 0:
            raise ConfigurationError(f"unsequenced_bytes_max={self.unsequenced_bytes_max}: must be above 0")
        if self.egress_policy not in EGRESS_POLICIES:
            raise ConfigurationError(
                f"egress_policy={self.egress_policy!r}: must be one of {', '.join(EGRESS_POLICIES)}"
            )
        for name in ("ingress_channel", "egress_channel"):
            if not str(getattr(self, name)).startswith(("aeron:udp", "aeron:ipc")):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: must begin with aeron:udp or aeron:ipc")
        if self.egress_channel.startswith("aeron:ipc") and not self.ingress_channel.startswith("aeron:ipc"):
            raise ConfigurationError(
                f"egress_channel={self.egress_channel!r}: only with an ingress_channel of aeron:ipc, too"
            )

    def seconds(self, timeout_s: float | None, outcome: RequestOutcome | None = None) -> float:
        """Return how long a call may take: as long as it says, or `message_timeout_s`.

        Raises ConfigurationError for what is no number of seconds, with the outcome of what was not done because of it.
        """
        if timeout_s is None:
            return self.message_timeout_s
        if isinstance(timeout_s, (float, int, Real)) and timeout_s == timeout_s:  # and not NaN
            return min(float(timeout_s), FOREVER_S)
        raise ConfigurationError(
            f"{'' if outcome is None else f'{outcome}: '}timeout_s={timeout_s!r}: must be a number of seconds, "
            "or None for message_timeout_s",
            outcome=outcome,
        )

    def read_credentials(self) -> bytes:
        """Return the current credentials."""
        return self.credentials if isinstance(self.credentials, bytes) else self.credentials()
