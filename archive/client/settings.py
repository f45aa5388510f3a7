"""Where an archive is, and where it answers."""

from __future__ import annotations

from dataclasses import dataclass

from archive.control.codes import CONTROL_STREAM_ID_DEFAULT, RESPONSE_STREAM_ID_DEFAULT
from runtime.errors import ConfigurationError
from transport.uri import ChannelUri

MESSAGE_TIMEOUT_NS_DEFAULT = 10_000_000_000
CONTROL_TERM_LENGTH = "64k"


@dataclass(frozen=True)
class ArchiveClientSettings:
    """Settings of one client session. Checked when made: ConfigurationError, ChannelError."""

    control_channel: str
    """Where the archive listens: `aeron:udp?endpoint=host:port`, or `aeron:ipc` for one on the same driver."""
    response_channel: str
    """Where it answers: a UDP channel at an address of this host that it can reach (port 0 for any), or `aeron:ipc`."""
    control_stream_id: int = CONTROL_STREAM_ID_DEFAULT
    response_stream_id: int = RESPONSE_STREAM_ID_DEFAULT
    message_timeout_ns: int = MESSAGE_TIMEOUT_NS_DEFAULT
    credentials: bytes = b""
    name: str = ""

    def __post_init__(self) -> None:
        for channel in (self.control_channel, self.response_channel):
            ChannelUri.parse(channel)
        if self.message_timeout_ns <= 0:
            raise ConfigurationError(f"message_timeout_ns={self.message_timeout_ns}, must be above 0")
        if len(self.name) > 100:
            raise ConfigurationError(f"name has {len(self.name)} characters, at most 100")

    def channels(self, session_id: int) -> tuple[str, str]:
        """Request and response channel of a session: small terms, and a session id of their own."""
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
