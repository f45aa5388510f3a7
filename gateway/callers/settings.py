"""Settings of a gateway."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from ordo.gateway.doors.settings import ADDRESS, DoorSettings
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.kinds import check_counts, check_seconds

MESSAGE_BYTES_DEFAULT = 4 << 20
"""gRPC's own default."""
MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX = 64 << 10, 64 << 20
WORKERS_MAX = 64
MESSAGE_BYTES_BESIDE = 256
"""So much of a gRPC message is left for what a request has besides its payload, its id among that."""
COUNTS = (
    *("requests_max", "request_bytes_max", "stream_requests_max"),
    *("subscriptions_max", "archive_calls_max"),
)


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(DoorSettings):
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    listen: str = "127.0.0.1:50051"
    """host:port of the gRPC server; port 0 takes a free one."""
    workers: int = 1
    """So many processes serve at this address; each has the limits below for itself."""
    requests_max: int = 16_384
    """So many requests and queries may be under way in all."""
    request_bytes_max: int = 64 << 20
    """So many bytes of them."""
    stream_requests_max: int = 2_048
    """So many requests of one stream may be under way."""
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    """The longest gRPC message that is taken from a caller."""
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
    grace_s: float = 10.0
    """How long calls under way are waited for at the end."""
    console: str = ""
    """host:port of the console for browsers; empty: there is none."""
    console_names: Sequence[str] = ()
    """Host names under which browsers reach the console, besides addresses and localhost."""
    decoder: str = ""
    """`module:function` that turns a payload into what the console shows of it; `log` goes by the log's schemas."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.console and not _is_address(self.console):
            raise ConfigurationError(f"--console {self.console}: must be host:port or a port, of 0 to 65535")
        if not self.console and (self.console_names or self.decoder):
            raise ConfigurationError("--console-name and --decoder are for the console: give --console, too")
        if not 1 <= self.workers <= WORKERS_MAX:
            raise ConfigurationError(f"workers={self.workers}: must be 1 to {WORKERS_MAX}")
        check_counts(self, *COUNTS)
        check_seconds(self, "session_idle_s", "grace_s")
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


def _is_address(text: str) -> bool:
    found = ADDRESS.fullmatch(text)
    return found is not None and int(found[1]) <= 65_535


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
