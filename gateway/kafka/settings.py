"""Settings of a door for Kafka's clients."""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ordo.gateway.doors.settings import DoorSettings, check_address, is_loopback
from ordo.gateway.kafka.service.topics import NAME, is_door_address
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.kinds import check_counts, check_seconds

ALL_ADDRESSES = ("0.0.0.0", "::")


@dataclass(frozen=True, kw_only=True)
class KafkaSettings(DoorSettings):
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    listen: str = "127.0.0.1:9092"
    """host:port that clients connect to; port 0 takes a free one."""
    advertise: str = ""
    """host:port that clients are told to connect to; empty: the address by which they came, and to clients of other
    doors the one at which this door listens."""
    network: str = ""
    """Doors of one network are named to each other's clients; empty: `tls` with a certificate, else `plain`, and one of
    this machine alone for a door that has a loopback address and no `advertise`."""
    lease_s: float = 10.0
    """A door that the cluster does not hear of for so long loses its groups to other doors."""
    creates_topics: bool = True
    """Whether a topic is created when a client that wants so first asks for it."""
    connections_max: int = 1_024
    address_connections_max: int = 0
    """So many of them from one address; 0: half of all that there may be."""
    request_bytes_max: int = 4 << 20
    """The longest request that is taken."""
    requests_bytes_max: int = 128 << 20
    """So many bytes of requests are held at a time."""
    responses_bytes_max: int = 128 << 20
    """So many bytes of records are held at a time for clients that have not taken them yet."""
    readers_max: int = 32
    """So many places in topics are read at a time; consumers near each other share one."""
    idle_s: float = 600.0
    """A connection without a request for so long is closed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advertise:
            check_address("advertise", self.advertise)
        host = self.listen.rpartition(":")[0]
        if not is_door_address(self.advertise or f"{host}:1"):
            option = f"--advertise {self.advertise}" if self.advertise else f"--listen {self.listen}"
            raise ConfigurationError(f"{option}: must be host:port in ASCII (of other names the xn-- form), not port 0")
        check_counts(self, "connections_max", "readers_max")
        if self.address_connections_max < 0:
            raise ConfigurationError(
                f"address_connections_max={self.address_connections_max}: must be above 0, or 0 for half of all"
            )
        check_seconds(self, "idle_s")
        if not 1 <= self.lease_s <= 60:
            raise ConfigurationError(f"lease_s={self.lease_s}: must be 1 to 60 seconds")
        if self.network and not NAME.fullmatch(self.network):
            raise ConfigurationError(f"network={self.network}: must be 1 to 64 letters, digits, dots, dashes")
        if not 1 << 16 <= self.request_bytes_max <= self.requests_bytes_max:
            raise ConfigurationError(
                f"request_bytes_max={self.request_bytes_max}: must be {1 << 16} to {self.requests_bytes_max}"
            )

    def network_of(self, address: str) -> str:
        """Return the network that the clients are in of a door that others name by an address."""
        kind = "tls" if self.certificate else "plain"
        if self.network or self.advertise or not is_loopback(address.rpartition(":")[0].strip("[]")):
            return self.network or kind
        return f"{kind}-{_this_machine()}"

    def registered_address(self, port: int) -> str:
        """Return host:port by which other doors name this one, which listens on a port."""
        host = self.listen.rpartition(":")[0]
        if self.advertise or host.strip("[]") not in ALL_ADDRESSES:
            return self.advertise or f"{host}:{port}"
        return f"{_own_host(self.endpoints[0])}:{port}"


def _this_machine() -> str:
    """Return letters that are the same for all processes of this machine or container, and no other one's."""
    known = socket.gethostname().encode()
    with suppress(OSError):
        known += Path("/etc/machine-id").read_bytes()
    return hashlib.sha256(known).hexdigest()[:16]


def _own_host(endpoint: str) -> str:
    """Return the address of this machine from which an endpoint is reached."""
    host, _, port = endpoint.rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # nothing is sent
            found = str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
    return f"[{found}]" if ":" in found else found
