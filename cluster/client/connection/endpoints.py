"""Sources of the members' endpoints: given by the user, in DNS, or in a file.

The cluster itself then says who leads.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ordo.runtime.errors import ConfigurationError
from ordo.transport.uri import ChannelUri

NULL_MEMBER_ID = -1
ARCHIVE_PORT_OFFSET = 4
ENDPOINTS_MAX = 16
ENDPOINT = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
Endpoints = Iterable[str] | Mapping[int, str]
EndpointSource = Callable[[], Endpoints]
"""Is asked whenever members are looked for: at the start, after a member did not answer, and for a new session."""


def archive_endpoint(endpoint: str) -> str:
    """Return where the member with this first port serves the log. Raises ConfigurationError."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigurationError(f"endpoint {endpoint!r}: must be host:port")
    return f"{host}:{int(port) + ARCHIVE_PORT_OFFSET}"


def check_list(name: str, endpoints: object) -> None:
    """Raise ConfigurationError for one endpoint in place of a list, which would be taken for a list of letters."""
    if isinstance(endpoints, str | bytes) or not isinstance(endpoints, Iterable):
        text = endpoints if isinstance(endpoints, str) else "10.0.0.1:20000"
        raise ConfigurationError(f"{name} is a {type(endpoints).__name__}, must be a list: give [{text!r}]")


def endpoint_table(endpoints: Endpoints, ingress_channel: str) -> dict[int, str]:
    """Return the user's endpoints by member id. Raises ConfigurationError."""
    check_list("ingress_endpoints", endpoints)
    table = dict(endpoints) if isinstance(endpoints, Mapping) else dict(enumerate(endpoints))
    if ingress_channel.startswith("aeron:ipc"):
        if table:
            raise ConfigurationError("ingress_endpoints must be empty for an IPC ingress")
        return {NULL_MEMBER_ID: ""}
    if table and "endpoint=" in ingress_channel:
        raise ConfigurationError("ingress_endpoints must be empty when ingress_channel has an endpoint")
    if not table and "endpoint=" not in ingress_channel:
        raise ConfigurationError("ingress_endpoints is empty: name at least one member as host:port")
    for member_id, endpoint in table.items():
        if not _is_endpoint(endpoint):
            raise ConfigurationError(f"ingress endpoint of member {member_id}: {endpoint!r}, must be host:port")
    return table or {NULL_MEMBER_ID: ""}


def check_own_driver(ingress_channel: str, *, is_encrypted: bool) -> None:
    """Raise ConfigurationError where messages cannot travel so from a driver of the client's own."""
    if ingress_channel.startswith("aeron:ipc"):
        raise ConfigurationError(
            f"ingress_channel={ingress_channel!r}: needs aeron_dir, the folder of the leader's driver on this machine"
        )
    if is_encrypted and ChannelUri.parse(ingress_channel).is_multicast:
        raise ConfigurationError(f"ingress_channel={ingress_channel!r}: multicast cannot be encrypted")


def _is_endpoint(text: object) -> bool:
    host, separator, port = str(text).rpartition(":")
    return bool(host and separator) and port.isascii() and port.isdigit() and 0 < int(port) < 65536


def endpoints_from_dns(endpoint: str) -> EndpointSource:
    """Return a source of all addresses of a name, as `host:port`; for a name that means the whole cluster.

    The first look-up is waited for. Later ones go on in the background while the last result is used, so that a slow
    resolver holds up nobody. Raises ConfigurationError for what is no `host:port`.
    """
    if not _is_endpoint(endpoint):
        raise ConfigurationError(f"endpoints_from_dns: {endpoint!r}, must be host:port")
    return _DnsEndpoints(endpoint)


class _DnsEndpoints:
    def __init__(self, endpoint: str) -> None:
        self._host, _, self._port = endpoint.rpartition(":")
        self._found: list[str] = []
        self._thread: threading.Thread | None = None

    def __call__(self) -> list[str]:
        if not self._found:
            self._look_up()
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._look_up, name="ordo-endpoints", daemon=True)
            self._thread.start()
        if not self._found:
            raise ConfigurationError(f"endpoints: the name {self._host} has no address now")
        return list(self._found)

    def _look_up(self) -> None:
        host = self._host.strip("[]")
        try:
            found = socket.getaddrinfo(host, int(self._port), type=socket.SOCK_DGRAM)
        except OSError:
            return  # the addresses of before may still be right
        addresses = {str(address[0]) for *_, address in found}
        texts = {f"[{address}]" if ":" in address else address for address in addresses}
        self._found = sorted(f"{text}:{self._port}" for text in texts)


def endpoints_from_file(path: str | Path) -> EndpointSource:
    """Return a source that reads a file each time: a line for each member, `host:port` or `id=host:port`.

    Empty lines, and what follows a #, are left out. It raises ConfigurationError for a file that is not so.
    """
    file = Path(path)

    def read() -> Endpoints:
        try:
            lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"endpoints: {file} cannot be read: {error}") from error
        items = [line.partition("=") for line in lines if line]
        for member_id, separator, endpoint in items:
            is_named = separator and member_id.strip().isascii() and member_id.strip().isdigit()
            if not _is_endpoint(endpoint.strip() if separator else member_id) or (separator and not is_named):
                line = member_id + separator + endpoint
                raise ConfigurationError(f"endpoints: {file}: {line!r}, must be host:port or id=host:port")
        if all(separator for _, separator, _ in items):
            return {int(member_id): endpoint.strip() for member_id, _, endpoint in items}
        return [endpoint.strip() if separator else member_id for member_id, separator, endpoint in items]

    return read


class NamedEndpoints:
    """The endpoints that the user of a client has given; a source such as DNS is asked again."""

    def __init__(self, endpoints: Endpoints | EndpointSource, ingress_channel: str) -> None:
        """Raise ConfigurationError."""
        self._source = endpoints if callable(endpoints) else None
        self._channel = ingress_channel
        named = endpoints() if callable(endpoints) else endpoints
        self.table = endpoint_table(named, ingress_channel)
        self.by_id = dict(named) if isinstance(named, Mapping) else {}

    def renew(self) -> dict[int, str] | None:
        """Return the table when it is another one than before, otherwise None. A source that fails changes nothing."""
        if self._source is None:
            return None
        try:
            table = endpoint_table(self._source(), self._channel)
        except ConfigurationError:
            return None
        if table == self.table:
            return None
        self.table = table
        return dict(table)


def parse_list(endpoints: str, option: str = "--endpoints") -> list[str]:
    """Return the members of `host:port,host:port`. Raises ConfigurationError."""
    found = [one.strip() for one in endpoints.split(",")]
    for one in found:
        match = ENDPOINT.fullmatch(one)
        if match is None or not 0 < int(match[2]) < 65_536:
            meaning = "the ingress of members, as 10.0.0.1:20000,10.0.0.2:20000"
            wanted = "an address of this machine, as 10.0.0.9:20099" if option == "--egress" else meaning
            raise ConfigurationError(f"{option} {endpoints}: must be {wanted}")
    if len(found) > ENDPOINTS_MAX:
        raise ConfigurationError(f"{option}: {len(found)} endpoints, at most {ENDPOINTS_MAX}")
    return found


def own_address(endpoint: str) -> str:
    """Return this machine's address towards a `host:port`, by the routing table; nothing is sent.

    Raises ConfigurationError.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        name = host.strip("[]")
        asked = name.encode() if name.isascii() else name  # of text the tables of international names are loaded
        ((family, kind, _, _, address), *_) = socket.getaddrinfo(asked, int(port), type=socket.SOCK_DGRAM)
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            own = str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigurationError(f"{host} cannot be reached: {error.strerror or error}") from error
    return f"[{own}]" if family == socket.AF_INET6 else own
