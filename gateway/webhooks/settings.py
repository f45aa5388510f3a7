"""Settings of a webhook."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from ordo.cluster.client.connection.endpoints import check_list
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.consumer_member import ConsumerSettings, Start
from ordo.gateway.doors.settings import is_loopback
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.kinds import check_kinds

Body = Literal["json", "payload"]
BODIES: tuple[Body, ...] = ("json", "payload")
CONTENT_TYPES: Mapping[Body, str] = {"json": "application/json", "payload": "application/octet-stream"}
OWN_HEADERS = re.compile(r"webhook-.*|ordo-.*|content-.*|idempotency-key|host|transfer-encoding|connection", re.ASCII)
"""Headers that a hook sets itself, in lower case."""
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*)")
IN_FLIGHT_MAX = 256


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """Where messages go, and how often they are tried. Times in seconds. Raises ConfigurationError."""

    name: str
    """The name of the durable consumer whose place in the log this hook has."""
    url: str
    endpoints: Sequence[str]
    """The members' ingress as host:port."""
    client: ClientSettings = field(default_factory=ClientSettings)
    start: Start = "first"
    """Where a new hook begins; one that is there goes on where it stands."""
    body: Body = "json"
    content_type: str = ""
    """What the body is; empty: what CONTENT_TYPES says."""
    secrets: Sequence[bytes] = ()
    """Each of them signs every post: two while one replaces the other."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of every post."""
    ca_file: str = ""
    """PEM file of authorities that sign the receiver's certificate; empty: those of the system."""
    certificate: str = ""
    """PEM file with this hook's own certificate, which `key` belongs to (mTLS)."""
    key: str = ""
    in_flight_max: int = 1
    """Above 1 posts are under way at the same time, in no order."""
    tries_max: int = 16
    """So often a message is refused, while the receiver takes others, before it is given up; with `in_flight_max`."""
    timeout_s: float = 10.0
    """How long a receiver may take to answer."""
    retry_min_s: float = 0.5
    retry_max_s: float = 60.0
    """A message is tried again after these times, doubled with each try."""

    def __post_init__(self) -> None:
        check_list("endpoints", self.endpoints)
        check_kinds(self)
        consumer = ConsumerSettings(name=self.name, endpoints=self.endpoints, start=self.start, client=self.client)
        consumer.archive_settings()  # checks each endpoint
        check_url(self.url)
        if self.body not in BODIES:
            raise ConfigurationError(f"body={self.body!r}: allowed is {' or '.join(BODIES)}")
        if HEADER.fullmatch(f"content-type: {self.content_type}") is None:
            raise ConfigurationError(f"content_type={self.content_type!r}: must be one line of ASCII")
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError("a certificate of the hook needs its key, and a key its certificate: give both")
        if (self.ca_file or self.certificate) and not self.uses_tls:
            raise ConfigurationError("ca_file and certificate are for https, and the URL has http")
        if not 1 <= self.in_flight_max <= IN_FLIGHT_MAX:
            raise ConfigurationError(f"in_flight_max={self.in_flight_max}: must be 1 to {IN_FLIGHT_MAX}")
        if not 1 <= self.tries_max <= 255:
            raise ConfigurationError(f"tries_max={self.tries_max}: must be 1 to 255")
        for name in ("timeout_s", "retry_min_s", "retry_max_s"):
            if not 0 < getattr(self, name) <= 3600:
                raise ConfigurationError(f"{name}={getattr(self, name)}: must be above 0 and at most 3600 seconds")
        if self.retry_min_s > self.retry_max_s:
            raise ConfigurationError(f"retry_min_s={self.retry_min_s}: must be at most retry_max_s={self.retry_max_s}")

    @property
    def uses_tls(self) -> bool:
        """Whether the URL has https."""
        return urlsplit(self.url).scheme == "https"

    @property
    def receiver(self) -> str:
        """The URL without its path, which may be a secret: for logs."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def leaves_machine_readable(self) -> bool:
        """Whether posts cross a network without encryption."""
        return not self.uses_tls and not is_loopback(urlsplit(self.url).hostname or "")

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the client's side of TLS; None without it. Raises ConfigurationError for files that are wrong."""
        if not self.uses_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            files = ", ".join(str(one) for one in (self.ca_file, self.certificate, self.key) if one)
            raise ConfigurationError(f"TLS with {files}: {error.strerror or error}") from None
        return context


def check_url(url: str) -> None:
    """Raise ConfigurationError unless posts can be sent to a URL, which is shown in logs and so has no secret."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise ConfigurationError("the URL cannot be read: give one such as https://example.com/hooks/orders") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("the URL has a name or password: put it into a file for --headers-file")
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port or parts.fragment:
        raise ConfigurationError("the URL is no address of a webhook: give https://HOST[:PORT]/PATH, or http")


def read_headers(path: Path) -> dict[str, str]:
    """Return the headers in the lines of a file. Raises ConfigurationError, which never shows a value."""
    headers: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        found = HEADER.fullmatch(line.rstrip())
        if found is None:
            raise ConfigurationError(f"{path}:{number}: must be a header such as Authorization: Bearer TOKEN")
        if OWN_HEADERS.fullmatch(found[1].lower()):
            raise ConfigurationError(f"{path}:{number}: {found[1]} is set by the hook itself: remove the line")
        if found[1].lower() in map(str.lower, headers):
            raise ConfigurationError(f"{path}:{number}: {found[1]} is there twice: give it once")
        headers[found[1]] = found[2]
    return headers


def read_text(path: Path) -> str:
    """Return what is in a file. Raises ConfigurationError."""
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text: give a file of lines") from None
