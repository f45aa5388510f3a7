"""Settings of a gateway."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import ConfigurationError

LISTEN = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
MESSAGE_BYTES_DEFAULT = 4 << 20
"""gRPC's own default."""
MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX = 64 << 10, 64 << 20
COUNTS = (
    *("requests_max", "request_bytes_max", "stream_requests_max"),
    *("sessions_max", "subscriptions_max", "archive_calls_max"),
)


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    endpoints: Sequence[str]
    """The members' ingress as host:port."""
    listen: str = "127.0.0.1:50051"
    """host:port of the gRPC server; port 0 takes a free one."""
    archives: Sequence[str] = ()
    """Where the members serve the log; four ports above their ingress when empty."""
    client: ClientSettings = field(default_factory=ClientSettings)
    """Settings of the sessions with the cluster. Its credentials are those of callers without their own."""
    certificate: str = ""
    """PEM file with the server's chain; with `key` the server speaks TLS."""
    key: str = ""
    client_ca: str = ""
    """PEM file: only callers with a certificate that it signed are let in (mTLS)."""
    requests_max: int = 16_384
    """So many requests and queries may be under way in all."""
    request_bytes_max: int = 64 << 20
    """So many bytes of them."""
    stream_requests_max: int = 2_048
    """So many requests of one stream may be under way."""
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    """The longest gRPC message that is taken from a caller."""
    sessions_max: int = 64
    """So many sessions with the cluster: one for each token that callers show."""
    sessions_per_host: int = 0
    """So many of them may callers of one host open, which is also what a proxy is; 0: three quarters."""
    sessions_per_principal: int = 0
    """So many of them may be of one principal, whatever tokens it has; 0: three quarters."""
    operator_sessions: int = -1
    """So many of them are kept for callers of `operator_hosts`; -1: a sixteenth."""
    operator_hosts: Sequence[str] = ("127.0.0.1", "::1")
    """Addresses from which operators call. They may open all sessions, `sessions_per_host` and
    `sessions_per_principal` or not."""
    session_idle_s: float = 60.0
    """A session of callers that are silent for so long is closed."""
    subscriptions_max: int = 32
    archive_calls_max: int = 2
    """So many calls may read or verify recordings; each takes one of the replays of a node, `max_replays` in all."""
    timeout_s: float = 30.0
    """How long a call without a deadline of its own waits for the cluster."""
    grace_s: float = 10.0
    """How long calls under way are waited for at the end."""
    console: str = ""
    """host:port of the console for browsers; empty: there is none."""
    console_names: Sequence[str] = ()
    """Host names under which browsers reach the console, besides addresses and localhost."""
    decoder: str = ""
    """`module:function` that turns a payload into what the console shows of it."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigurationError("endpoints: name the members of the cluster as host:port")
        if not _is_address(self.listen):
            raise ConfigurationError(f"--listen {self.listen}: must be host:port, with a port of 0 to 65535")
        if self.console and not _is_address(self.console):
            raise ConfigurationError(f"--console {self.console}: must be host:port or a port, of 0 to 65535")
        if not self.console and (self.console_names or self.decoder):
            raise ConfigurationError("--console-name and --decoder are for the console: give --console, too")
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("TLS needs both: a certificate and its key")
        if self.client_ca and not self.certificate:
            raise ConfigurationError("client_ca: callers can be asked for a certificate only with TLS: give both")
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be above 0")
        if not MESSAGE_BYTES_MIN <= self.message_bytes_max <= MESSAGE_BYTES_MAX:
            raise ConfigurationError(
                f"message_bytes_max={self.message_bytes_max}: must be {MESSAGE_BYTES_MIN} to {MESSAGE_BYTES_MAX}"
            )
        for name in ("sessions_per_host", "sessions_per_principal"):
            if not 0 <= getattr(self, name) <= self.sessions_max:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be 0 to sessions_max={self.sessions_max}")
        if not -1 <= self.operator_sessions < self.sessions_max:
            raise ConfigurationError(
                f"operator_sessions={self.operator_sessions}: must be -1 to below sessions_max={self.sessions_max}"
            )
        for one in self.operator_hosts:
            if not _is_ip_address(one):
                raise ConfigurationError(f"--operator-hosts {one}: must be IP addresses, as 10.0.0.5,::1")
        for name in ("session_idle_s", "timeout_s", "grace_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be a number of seconds above 0")

    @property
    def host_sessions_max(self) -> int:
        """So many sessions may callers of one host open."""
        return self.sessions_per_host or self._share

    @property
    def principal_sessions_max(self) -> int:
        """So many sessions may be of one principal."""
        return self.sessions_per_principal or self._share

    @property
    def _share(self) -> int:
        return max(self.sessions_max - self.sessions_max // 4, 1)

    @property
    def operator_sessions_kept(self) -> int:
        """So many sessions are kept for operators."""
        return self.sessions_max // 16 if self.operator_sessions < 0 else self.operator_sessions

    def archive_endpoints(self) -> list[str]:
        """Where the members serve the log. Raises ConfigurationError."""
        return list(self.archives) or [archive_endpoint(one) for one in self.endpoints]

    def credentials_for(self, shown: bytes | None) -> bytes:
        """Return a caller's own credentials, or else the gateway's."""
        return self.client.read_credentials() if shown is None else shown


def _is_address(text: str) -> bool:
    found = LISTEN.fullmatch(text)
    return found is not None and int(found[1]) <= 65_535


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def read_file(path: str) -> bytes:
    """Raise ConfigurationError where the file cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
