"""What control clients may do to recordings, and where they may have them sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.protocol.own_codecs import FIND_LOG_PLACE, FIND_PAST_IDENTITY, PlaceFinder, ToldIdentity
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.counters import Counter
from ordo.runtime.sbe import Message
from ordo.runtime.security.authentication import Authenticator, Right, has_topic
from ordo.transport.uri import ChannelUri

READING = (
    codecs.REPLAY_REQUEST,
    codecs.BOUNDED_REPLAY_REQUEST,
    codecs.REPLAY_TOKEN_REQUEST,
    codecs.STOP_REPLAY_REQUEST,
    codecs.LIST_RECORDINGS_REQUEST,
    codecs.LIST_RECORDINGS_FOR_URI_REQUEST,
    codecs.LIST_RECORDING_REQUEST,
    codecs.FIND_LAST_MATCHING_RECORDING_REQUEST,
    codecs.LIST_RECORDING_SUBSCRIPTIONS_REQUEST,
    codecs.RECORDING_POSITION_REQUEST,
    codecs.START_POSITION_REQUEST,
    codecs.STOP_POSITION_REQUEST,
    codecs.MAX_RECORDED_POSITION_REQUEST,
    FIND_LOG_PLACE,
    FIND_PAST_IDENTITY,
)
"""Requests that change nothing but the client's own replays."""
OF_TOPICS = frozenset(
    message.template_id
    for message in READING
    if message not in (codecs.LIST_RECORDING_SUBSCRIPTIONS_REQUEST, FIND_LOG_PLACE)
)
"""Requests of topic readers; `ClientRights.check_reading` decides which recordings they are told about."""
RECORDING = (
    codecs.START_RECORDING_REQUEST,
    codecs.START_RECORDING_REQUEST_2,
    codecs.STOP_RECORDING_REQUEST,
    codecs.STOP_RECORDING_SUBSCRIPTION_REQUEST,
    codecs.STOP_RECORDING_BY_IDENTITY_REQUEST,
    codecs.EXTEND_RECORDING_REQUEST,
    codecs.EXTEND_RECORDING_REQUEST_2,
    codecs.REPLICATE_REQUEST,
    codecs.TAGGED_REPLICATE_REQUEST,
    codecs.REPLICATE_REQUEST_2,
    codecs.STOP_REPLICATION_REQUEST,
)
"""Requests that add to recordings, or end what adds to them."""
RIGHTS = (
    {codecs.ARCHIVE_ID_REQUEST.template_id: Right(0)}
    | {message.template_id: Right.LOG for message in READING}
    | {message.template_id: Right.RECORD for message in RECORDING}
)
"""The right that each request needs. Every client may ask for the archive's id; `_right_for` covers the other
requests."""
NO_CHANNEL_KEYS = ("control", "control-mode", "tags", "response-correlation-id", "response-endpoint")
"""Channel parameters that are refused: they would have the archive's driver listen, or use what belongs to somebody
else."""
CHANNEL_KEYS = frozenset(
    ("endpoint", "session-id", "term-length", "mtu", "sparse", "linger", "eos", "alias", "rejoin", "fc", "ttl")
)


def _right_for(message: Message) -> Right:
    """Return the right that a request needs: DELETE, unless it is known to need less."""
    return RIGHTS.get(message.template_id, Right.DELETE)


def check_right(authenticator: Authenticator | None, message: Message, principal: bytes) -> None:
    """Decide, here and nowhere else, whether a principal may make a request of an archive.

    Raises ArchiveError with UNAUTHORISED_ACTION.
    """
    if authenticator is None:
        return
    right, rights = _right_for(message), authenticator.rights_of(principal)
    if Right.TOPICS in rights and message.template_id in OF_TOPICS:
        return
    if right not in rights:
        role = (right.name or "").lower()
        raise ArchiveError(
            f"{message.name} is refused: these credentials do not have the role {role} (see roles of [[tokens]])",
            code=ErrorCode.UNAUTHORISED_ACTION,
        )


def check_log_right(
    authenticator: Authenticator | None, descriptor: RecordingDescriptor, principal: bytes, topic: str | None = None
) -> None:
    """Raise ArchiveError with UNAUTHORISED_ACTION unless a recording may be read.

    It may be read with the role log, or if it is that of a topic which the roles name.
    """
    if authenticator is None or Right.LOG in (rights := authenticator.rights_of(principal)):
        return
    if topic is not None and Right.TOPICS in rights and has_topic(authenticator.topics_of(principal), topic):
        return
    what = f"recording {descriptor.recording_id}" if topic is None else f"topic {topic}"
    wanted = "log" if topic is None else f"log or topic:{topic}"
    raise ArchiveError(
        f"{what} is refused: these credentials do not have the role {wanted} (see roles of [[tokens]])",
        code=ErrorCode.UNAUTHORISED_ACTION,
    )


class ClientRights(Protocol):
    """Decides which clients an archive lets in, and which requests each of them may make."""

    @property
    def authenticator(self) -> Authenticator | None:
        """The authenticator that decides which clients are admitted; None admits every client."""

    @property
    def owns_replays(self) -> bool:
        """Whether a client may stop only its own replays."""

    def check_request(self, message: Message, principal: bytes) -> None:
        """Raise ArchiveError with UNAUTHORISED_ACTION for a request that this client may not make."""

    def check_reading(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        """Raise ArchiveError with UNAUTHORISED_ACTION for a recording that this client may not read."""

    def check_measuring(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        """Raise ArchiveError with UNAUTHORISED_ACTION for a recording whose length this client may not know."""


class ClientChannels(Protocol):
    """Decides where clients may have an archive publish to."""

    def response_channel(self, channel: str, stream_id: int, session_id: int) -> str:
        """Return the channel for the responses of a client that asks in a stream with this session id.

        Raises ArchiveError for one that clients may not have the archive publish to.
        """

    def replay_channel(self, channel: str, stream_id: int) -> str:
        """Return the channel of a replay, checked in the same way."""


class ReplayBounds(Protocol):
    """Decides how many replays there may be, and how far each recording may be replayed."""

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        """Raise ArchiveError with MAX_REPLAYS for one replay too many.

        `replayed_ids` are the recordings of all active replays, one for each replay.
        """

    def check_share(self, recording_id: int, replayed_ids: Sequence[int], shared_ids: Sequence[int]) -> None:
        """Raise ArchiveError for a recording that clients may not share a replay of.

        Raises it with MAX_REPLAYS for one shared replay too many. The ids as for `check_replay`, `shared_ids` of those
        that are shared.
        """

    def limit(self, recording_id: int) -> Counter | None:
        """Return the counter that a replay of a recording may not pass, or None when there is no bound."""


class FullRights:
    """The rights at an archive of its own: clients may do everything, or what their roles say."""

    def __init__(self, authenticator: Authenticator | None = None) -> None:
        self.authenticator = authenticator
        self.owns_replays = authenticator is not None

    def check_request(self, message: Message, principal: bytes) -> None:
        check_right(self.authenticator, message, principal)

    def check_reading(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        check_log_right(self.authenticator, descriptor, principal)

    def check_measuring(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        self.check_reading(descriptor, principal)


class ReadingRights(FullRights):
    """The rights at an archive that belongs to a node: clients only look and replay."""

    def __init__(self, authenticator: Authenticator | None = None) -> None:
        super().__init__(authenticator)
        self.owns_replays = True

    def check_request(self, message: Message, principal: bytes) -> None:
        if _right_for(message) not in Right.LOG:
            raise ArchiveError(
                f"{message.name} is refused: this archive belongs to a node of a cluster and can be read only",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )
        super().check_request(message, principal)


class AnyChannel:
    """Takes every channel, for an archive of its own."""

    def response_channel(self, channel: str, stream_id: int, session_id: int) -> str:
        return channel

    def replay_channel(self, channel: str, stream_id: int) -> str:
        return channel


class UnicastChannels:
    """Takes unicast channels that a stranger can do no harm with, for an archive that belongs to a node."""

    def response_channel(self, channel: str, stream_id: int, session_id: int) -> str:
        """Return the checked response channel.

        Its session id must be that of the client's own stream: with any other, the client could pass for the
        sender of somebody else's.
        """
        uri = self._client_channel(channel, stream_id)
        if uri.has("session-id") and uri.session_id != session_id:
            raise _refused(channel, "its session-id is not that of the stream that it came in")
        return str(uri)

    def replay_channel(self, channel: str, stream_id: int) -> str:
        return str(self._client_channel(channel, stream_id))

    def _client_channel(self, channel: str, stream_id: int) -> ChannelUri:
        """Return the checked channel of a client.

        IPC is refused, since a stranger could reach what the node's own processes tell each other.
        """
        uri = ChannelUri.parse(channel)
        if not uri.is_udp or uri.is_spy:
            raise _refused(channel, "a node's archive publishes to aeron:udp channels only")
        endpoint = uri.address("endpoint")
        if endpoint is None or endpoint.is_multicast or not endpoint.port or any(map(uri.has, NO_CHANNEL_KEYS)):
            raise _refused(channel, "it must name one unicast endpoint with a port, and nothing of the node's own")
        self.check_destination(channel, endpoint.port, stream_id)
        return ChannelUri(uri.media, {key: value for key, value in uri.params.items() if key in CHANNEL_KEYS})

    def check_destination(self, channel: str, port: int, stream_id: int) -> None:
        """Raise ArchiveError for a stream to which another program listens on that channel."""


class NoBounds:
    """Lets every recording be replayed as often and as far as clients want."""

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        pass

    def check_share(self, recording_id: int, replayed_ids: Sequence[int], shared_ids: Sequence[int]) -> None:
        pass

    def limit(self, recording_id: int) -> Counter | None:
        return None


@dataclass(frozen=True)
class AccessPolicy:
    """What the clients of an archive may do.

    `log_identity` returns which cluster's log the archive has; None: of none, or that is not certain yet.
    """

    rights: ClientRights
    channels: ClientChannels
    replays: ReplayBounds
    log_identity: Callable[[], ToldIdentity | None] = lambda: None
    places: PlaceFinder | None = None
    """What finds numbers and times in the log; None: nothing."""
    past_identity: Callable[[int], bytes] | None = None
    """Returns the identity that the log had where a record of it ends, empty where that is not known; None: nothing."""


def full_access(authenticator: Authenticator | None = None) -> AccessPolicy:
    """Return the policy of an archive of its own."""
    return AccessPolicy(FullRights(authenticator), AnyChannel(), NoBounds())


def _refused(channel: str, reason: str) -> ArchiveError:
    return ArchiveError(f"channel {channel[:200]!r} is refused: {reason}", code=ErrorCode.UNAUTHORISED_ACTION)
