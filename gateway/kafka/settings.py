"""Settings of a door for Kafka's clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.settings import ClientSettings
from ordo.gateway.callers.settings import LISTEN, GatewaySettings
from ordo.runtime.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    endpoints: Sequence[str]
    """The members' ingress as host:port."""
    listen: str = "127.0.0.1:9092"
    """host:port that clients connect to; port 0 takes a free one."""
    advertise: str = ""
    """host:port that clients are told to connect to; empty: the address by which they came."""
    archives: Sequence[str] = ()
    """Where the members serve topics; four ports above their ingress when empty."""
    client: ClientSettings = field(default_factory=ClientSettings)
    """Settings of the sessions with the cluster. Its credentials are those of clients that do not use SASL."""
    certificate: str = ""
    """PEM file with the server's chain; with `key` the server speaks TLS."""
    key: str = ""
    client_ca: str = ""
    """PEM file: only clients with a certificate that it signed are let in (mTLS)."""
    creates_topics: bool = True
    """Whether a topic is created when a client that wants so first asks for it."""
    connections_max: int = 1_024
    request_bytes_max: int = 4 << 20
    """The longest request that is taken."""
    requests_bytes_max: int = 128 << 20
    """So many bytes of requests are held at a time."""
    readers_max: int = 32
    """So many places in topics are read at a time; consumers near each other share one."""
    sessions_max: int = GatewaySettings.sessions_max
    """So many sessions with the cluster: one for each token that clients show."""
    timeout_s: float = GatewaySettings.timeout_s
    """How long the cluster is waited for at most."""
    idle_s: float = 600.0
    """A connection without a request for so long is closed."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigurationError("endpoints: name the members of the cluster as host:port")
        for name in ("listen", "advertise"):
            found = LISTEN.fullmatch(getattr(self, name))
            is_unset = name == "advertise" and not self.advertise
            if not is_unset and (found is None or int(found[1]) > 65_535):
                raise ConfigurationError(f"--{name} {getattr(self, name)}: must be host:port, with a port to 65535")
        for one in self.archives:
            archive_endpoint(one)  # it is one of host and port
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("TLS needs both: a certificate and its key")
        if self.client_ca and not self.certificate:
            raise ConfigurationError("client_ca: clients can be asked for a certificate only with TLS: give both")
        for name in ("connections_max", "readers_max", "sessions_max"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be above 0")
        if not 1 << 16 <= self.request_bytes_max <= self.requests_bytes_max:
            raise ConfigurationError(
                f"request_bytes_max={self.request_bytes_max}: must be {1 << 16} to {self.requests_bytes_max}"
            )
        for name in ("timeout_s", "idle_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be a number of seconds above 0")

    def archive_endpoints(self) -> list[str]:
        """Where the members serve topics. Raises ConfigurationError."""
        return list(self.archives) or [archive_endpoint(one) for one in self.endpoints]
