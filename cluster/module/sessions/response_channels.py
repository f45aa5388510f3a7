"""Limits the response channels that clients name: what a stranger may make this member's driver do.

Every connect request opens a publication to wherever it says. So it may name a unicast address and little else, and
what that address is sent weighs at most as much as the request until it has answered: to answer, it must return the
session id of the publication, a random number that was sent to it alone.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from ordo.cluster.wire.members import host_of
from ordo.cluster.wire.streams import EGRESS_POLICY_KEY, own_streams
from ordo.runtime.errors import ChannelError
from ordo.runtime.security.authentication import KEY_NAME_MARK, key_name_of
from ordo.transport.frame_layout import setups_worth
from ordo.transport.uri import ChannelUri

KEPT_KEYS = frozenset(("endpoint", "term-length", "mtu", "rejoin", "alias", "eos", "so-sndbuf", EGRESS_POLICY_KEY))
"""Other parameters would choose ids, addresses and resources of this member, or describe the client's own side."""
TERM_LENGTH_MAX = 16 << 20
SEND_BUFFER_MAX = 4 << 20
ALIAS_LENGTH_MAX = 64
LOCAL_KEYS = KEPT_KEYS - {"endpoint", "so-sndbuf"}
SHARED_MEMORY = "ipc"
"""In the place of a host."""
OPENERS_KEPT = 8192
"""Parsed channels of sessions, for each keep-alive asks."""


def response_channel(text: str, *, is_local: bool = False) -> str:
    """Return the channel that is published to, and kept in the log, for the one that a client asks for.

    Raises ChannelError for what no client may ask for.

    `is_local`: the request came through shared memory, and so may the answers go.
    """
    uri = ChannelUri.parse(text)
    if is_local and uri.is_ipc and not uri.is_spy:
        return _bounded_values(uri, LOCAL_KEYS)
    endpoint = uri.address("endpoint")
    if not uri.is_udp or uri.is_spy:
        raise ChannelError(f"response channel {text!r} is refused: it must be aeron:udp")
    if endpoint is None or endpoint.is_multicast or not endpoint.port or uri.has("control") or uri.has("control-mode"):
        raise ChannelError(f"response channel {text!r} is refused: it must name one unicast endpoint with a port")
    return _bounded_values(uri, KEPT_KEYS)


def _bounded_values(uri: ChannelUri, keys: frozenset[str]) -> str:
    kept = {key: value for key, value in uri.params.items() if key in keys}
    if uri.integer("term-length", 0) > TERM_LENGTH_MAX:
        kept["term-length"] = str(TERM_LENGTH_MAX)
    if "so-sndbuf" in kept and uri.integer("so-sndbuf", 0) > SEND_BUFFER_MAX:
        kept["so-sndbuf"] = str(SEND_BUFFER_MAX)
    if "alias" in kept:
        kept["alias"] = kept["alias"][:ALIAS_LENGTH_MAX]
    return str(ChannelUri(uri.media, kept))


def check_stream(channel: str, stream_id: int, cluster_id: int) -> None:
    """Raise ChannelError for a stream over shared memory that the cluster uses itself."""
    if ChannelUri.parse(channel).is_ipc and stream_id in own_streams(cluster_id):
        raise ChannelError(f"response channel {channel!r} is refused: the cluster uses stream {stream_id} itself")


def bounded(channel: str, message_length_bytes: int) -> str:
    """Return the channel with a limit on set-ups: without an answer, no more bytes are sent than the request had."""
    if ChannelUri.parse(channel).is_ipc:
        return channel
    return str(ChannelUri.parse(channel).with_params(setup_limit=setups_worth(message_length_bytes)))


def opened_by(channel: str, source_identity: str) -> str:
    """Return a session's channel for the log, with the host that opened it if its endpoint does not show that.

    A later leader has not seen the stream that the session was opened on, and must know who may go on with it.
    """
    host, key_name = _host_and_key(source_identity)
    if (host, key_name) == (_endpoint_host(ChannelUri.parse(channel)), ""):
        return channel
    kept = str(ChannelUri.parse(channel).with_params(opened_by=host + KEY_NAME_MARK + key_name))
    ChannelUri.parse(kept)  # raises ChannelError where this makes it too long
    return kept


def is_from_opener(channel: str, source_identity: str) -> bool:
    """Return whether a stream comes from the host that opened or answers a channel's session, under the same key.

    The host is the one that opened the session of this channel, or the one that the session is answered at.
    """
    hosts, key_name = _opener(channel)
    claimed_host, claimed_key_name = _host_and_key(source_identity)
    return claimed_host in hosts and claimed_key_name == key_name


@lru_cache(OPENERS_KEPT)
def opener_host(channel: str) -> str:
    """Return the host that opened the session of this channel; empty for a channel that this member would refuse."""
    try:
        uri = ChannelUri.parse(channel)
    except ChannelError:
        return ""
    return (uri.get("opened-by") or "").partition(KEY_NAME_MARK)[0] or _endpoint_host(uri)


@lru_cache(OPENERS_KEPT)
def _opener(channel: str) -> tuple[frozenset[str], str]:
    """Return the hosts of a session and the name of its key; both empty for a channel that this member would refuse."""
    try:
        uri = ChannelUri.parse(channel)
    except ChannelError:
        return frozenset(), ""
    host, _, key_name = (uri.get("opened-by") or "").partition(KEY_NAME_MARK)
    return frozenset((host, _endpoint_host(uri))), key_name


def _host_and_key(source_identity: str) -> tuple[str, str]:
    """Return host and key name of a source.

    The name is quoted, since it may have characters that no channel may have.
    """
    return host_of(source_identity) or SHARED_MEMORY, quote(key_name_of(source_identity), safe="")


def _endpoint_host(uri: ChannelUri) -> str:
    endpoint = uri.address("endpoint")
    return SHARED_MEMORY if endpoint is None else host_of(str(endpoint))
