"""Channels as the archive keeps and makes them (archive.md A4, A8.1)."""

from ordo.transport.frame_layout import setups_worth
from ordo.transport.uri import ChannelUri

_KEPT = frozenset(
    {
        "endpoint", "interface", "control", "control-mode", "tags", "rejoin", "group", "tether", "fc", "gtag", "cc",
        "so-rcvbuf", "so-sndbuf", "so-tos", "rcv-wnd", "channel-snd-ts-offset", "channel-rcv-ts-offset",
        "media-rcv-ts-offset",
        "session-id", "alias", "response-correlation-id", "response-endpoint", "ttl", "stream-id",
    }
)  # fmt: skip


def strip_channel(channel: str) -> str:
    """Return the channel with its addresses only: no lengths, no positions, no spy prefix. Raises ChannelError."""
    uri = ChannelUri.parse(channel)
    return str(ChannelUri(uri.media, {key: value for key, value in uri.params.items() if key in _KEPT}))


def replay_channel(
    channel: str, *, position: int, initial_term_id: int, term_length: int, mtu: int, session_id: int | None
) -> str:
    """Return the channel of a publication that continues a recording at `position` (bytes).

    It has the recording's terms and MTU.

    `eos`, `sparse`, `linger` and what `strip_channel` keeps stay. Raises ChannelError.
    """
    given = ChannelUri.parse(channel)
    kept = _KEPT | {"eos", "sparse", "linger"}
    uri = ChannelUri(given.media, {key: value for key, value in given.params.items() if key in kept})
    term_id = (initial_term_id + position // term_length + (1 << 31)) % (1 << 32) - (1 << 31)
    uri = uri.with_params(
        init_term_id=initial_term_id,
        term_id=term_id,
        term_offset=position % term_length,
        term_length=term_length,
        mtu=mtu,
    )
    return str(uri if session_id is None else uri.with_params(session_id=session_id))


def bounded_channel(channel: str, message_length_bytes: int) -> str:
    """Return the channel with a bound on set-ups to an address that never answers.

    They weigh no more than the request that named it, so that nobody can have an archive send to somebody else more
    than was sent to the archive.
    """
    uri = ChannelUri.parse(channel)
    if uri.control_mode == "response":  # nothing is sent before somebody asks
        return channel
    return str(uri.with_params(setup_limit=setups_worth(message_length_bytes)) if uri.is_udp else uri)


def answers_requester(channel: str) -> bool:
    """Return whether a publication of this channel goes back to the publisher of a stream. Raises ChannelError."""
    return ChannelUri.parse(channel).control_mode == "response"


def answering_channel(channel: str, image_correlation_id: int) -> str:
    """Return the channel of a publication to the publisher of an image. Raises ChannelError."""
    return str(ChannelUri.parse(channel).with_params(response_correlation_id=image_correlation_id))


def recording_key(channel: str, stream_id: int) -> str:
    """Return a key that is equal for requests of the same stream (archive.md A4). Raises ChannelError."""
    uri = ChannelUri.parse(channel)
    parts = [
        f"{key}={uri.get(key)}" for key in ("endpoint", "interface", "control", "session-id", "tags") if uri.has(key)
    ]
    return f"{stream_id}:{uri.media}?{'|'.join(parts)}"
