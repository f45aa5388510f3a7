"""The address of an archive, and where it sends its answers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, Unpack

from ordo.archive.protocol.codes import CONTROL_STREAM_ID_DEFAULT, RESPONSE_STREAM_ID_DEFAULT
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.kinds import check_kinds, check_seconds
from ordo.transport.secure.settings import Encryption
from ordo.transport.uri import ChannelUri

CONTROL_TERM_LENGTH = "64k"


class ArchiveClientOptions(TypedDict, total=False):
    """The settings that may be given beside an archive's address; ArchiveClientSettings explains them."""

    response_channel: str
    control_stream_id: int
    response_stream_id: int
    message_timeout_s: float
    credentials: bytes | Callable[[], bytes]
    on_challenge: Callable[[bytes], bytes] | None
    name: str
    key_file: str
    trusted_file: str


@dataclass(frozen=True, kw_only=True)
class ArchiveClientSettings:
    """Settings of one client session. Raises ConfigurationError and ChannelError for a value that is not allowed."""

    control_channel: str
    """Where the archive listens: `aeron:udp?endpoint=host:port`, or `aeron:ipc` for one on the same driver."""
    response_channel: str
    """Where it answers: a UDP channel at an address of this host that it can reach (port 0 for any), or `aeron:ipc`.
    With `control-mode=response` it answers to where the requests come from."""
    control_stream_id: int = CONTROL_STREAM_ID_DEFAULT
    response_stream_id: int = RESPONSE_STREAM_ID_DEFAULT
    message_timeout_s: float = 10.0
    """How long opening the session, and then each request, may take."""
    credentials: bytes | Callable[[], bytes] = b""
    """What the archive's authenticator is shown: bytes, or what gives them whenever a session is opened. With tokens
    (docs/SECURITY.md) the token."""
    on_challenge: Callable[[bytes], bytes] | None = None
    """Gives the answer to a challenge; by default the credentials are shown again."""
    name: str = ""
    key_file: str = ""
    """Key of the client's own driver, which encrypts with it (`ordo keys new`); ORDO_KEY_FILE when empty."""
    trusted_file: str = ""
    """The archive's key (`ordo keys trust`); ORDO_TRUSTED_FILE when empty."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for channel in (self.control_channel, self.response_channel):
            ChannelUri.parse(channel)
        Encryption(self.key_file, self.trusted_file)
        check_seconds(self, "message_timeout_s")
        if len(self.name) > 100:
            raise ConfigurationError(f"name has {len(self.name)} characters, at most 100")

    def read_credentials(self) -> bytes:
        """Return the current credentials."""
        return self.credentials if isinstance(self.credentials, bytes) else self.credentials()

    def answer(self, challenge: bytes) -> bytes:
        """Return the answer to an authenticator's challenge."""
        return self.read_credentials() if self.on_challenge is None else self.on_challenge(challenge)

    @property
    def message_timeout_ns(self) -> int:
        """`message_timeout_s` in nanoseconds."""
        return round(self.message_timeout_s * SECOND_NS)

    @classmethod
    def at(cls, address: str, **settings: Unpack[ArchiveClientOptions]) -> ArchiveClientSettings:
        """Return settings for the archive at `host:port`, or at a channel such as `aeron:ipc`.

        Answers come to this host.

        Raises ConfigurationError when the host is not known, ChannelError.
        """
        channel = address if address.startswith(("aeron:", "aeron-spy:")) else str(_udp(address))
        if "response_channel" not in settings:
            settings["response_channel"] = _response_channel(ChannelUri.parse(channel))
        return cls(control_channel=channel, **settings)

    @property
    def is_answered_alone(self) -> bool:
        """Whether the archive finds the way of its answers by the stream of the requests."""
        return ChannelUri.parse(self.response_channel).control_mode == "response"

    def channels(self, next_session_id: Callable[[], int]) -> tuple[str, str]:
        """Return the request and response channel of a session: with small terms, and a session id of their own."""
        session_id = None if self.is_answered_alone else next_session_id()
        request, response = (ChannelUri.parse(channel) for channel in (self.control_channel, self.response_channel))
        return tuple(  # type: ignore[return-value]
            str(
                uri.with_params(
                    term_length=uri.get("term-length", CONTROL_TERM_LENGTH),
                    sparse=uri.get("sparse", "true"),
                    session_id=session_id,
                )
            )
            for uri in (request, response)
        )


def _udp(address: str) -> ChannelUri:
    return ChannelUri.parse(f"aeron:udp?endpoint={address}")


def _response_channel(control: ChannelUri) -> str:
    """Return the response channel, at the local address from which the archive is reached."""
    endpoint = control.endpoint
    if not control.is_udp or endpoint is None:
        return "aeron:ipc"
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            host = probe.getsockname()[0]
    except OSError as error:
        raise ConfigurationError(f"the archive's address {endpoint} cannot be reached: {error.strerror}") from None
    return str(_udp(str(endpoint._replace(host=host, port=0))))
