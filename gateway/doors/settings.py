"""Settings that all doors have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from ordo.cluster.client.connection.endpoints import archive_endpoint, check_list
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.settings.kinds import check_counts, check_kinds, check_seconds

ADDRESS = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
PORT_MAX = 65_535


class SessionsFullError(OrdoError):
    """Callers show as many tokens as a door has sessions for, in all, of one host, or of one principal."""


@dataclass(frozen=True, kw_only=True)
class DoorSettings:
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    endpoints: Sequence[str]
    """The members' ingress as host:port."""
    listen: str = "127.0.0.1:0"
    """host:port that callers connect to; port 0 takes a free one."""
    archives: Sequence[str] = ()
    """Where the members serve the log and topics; four ports above their ingress when empty."""
    client: ClientSettings = field(default_factory=ClientSettings)
    """Settings of the sessions with the cluster. Its credentials are those of callers without their own."""
    certificate: str = ""
    """PEM file with the server's chain; with `key` the server speaks TLS."""
    key: str = ""
    client_ca: str = ""
    """PEM file: only callers with a certificate that it signed are let in (mTLS)."""
    sessions_max: int = 64
    """So many sessions with the cluster: one for each token that callers show."""
    timeout_s: float = 30.0
    """How long the cluster is waited for, where a caller sets no deadline of its own."""

    def __post_init__(self) -> None:
        check_list("endpoints", self.endpoints)
        check_kinds(self)
        if not self.endpoints:
            raise ConfigurationError("endpoints: name the members of the cluster as host:port")
        check_address("listen", self.listen)
        for one in self.archives:
            archive_endpoint(one)  # it is one of host and port
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("TLS needs both: a certificate and its key")
        if self.client_ca and not self.certificate:
            raise ConfigurationError("client_ca: callers can be asked for a certificate only with TLS: give both")
        check_counts(self, "sessions_max")
        check_seconds(self, "timeout_s")

    def archive_endpoints(self) -> list[str]:
        """Where the members serve the log and topics. Raises ConfigurationError."""
        return list(self.archives) or [archive_endpoint(one) for one in self.endpoints]

    def credentials_for(self, shown: bytes | None) -> bytes:
        """Return a caller's own credentials, or else the door's. Raises ConfigurationError."""
        return self.client.read_credentials() if shown is None else shown


def check_address(option: str, text: str) -> None:
    """Raise ConfigurationError, naming the option, unless a text is host:port."""
    found = ADDRESS.fullmatch(text)
    if found is None or int(found[1]) > PORT_MAX:
        raise ConfigurationError(f"--{option} {text}: must be host:port, with a port of 0 to {PORT_MAX}")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone, by its address or as `localhost`; other names are not resolved."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_file(path: str) -> bytes:
    """Raise ConfigurationError where the file cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
