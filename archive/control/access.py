"""What control clients may do to recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from archive.control import codecs
from archive.control.codes import ErrorCode
from runtime.counters import Counter
from runtime.errors import ArchiveError
from runtime.sbe import Message
from transport.uri import ChannelUri

READING = frozenset(
    message.template_id
    for message in (
        codecs.ARCHIVE_ID_REQUEST,
        codecs.REPLAY_REQUEST,
        codecs.BOUNDED_REPLAY_REQUEST,
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
    )
)
"""Requests that change nothing but the replays of who asks."""


class AccessPolicy(Protocol):
    """Decides what the clients of an archive may do."""

    @property
    def owns_replays(self) -> bool:
        """Whether a client may stop its own replays only."""

    def check_request(self, message: Message) -> None:
        """Raises ArchiveError with UNAUTHORISED_ACTION for a request that nobody may make."""

    def check_channel(self, channel: str) -> None:
        """Raises ArchiveError for a channel that clients may not have the archive publish to."""

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        """Raises ArchiveError with MAX_REPLAYS for one replay too many; `replayed_ids` are the recordings of all that
        are active, one for each replay."""

    def replay_limit(self, recording_id: int) -> Counter | None:
        """The counter that a replay of a recording may not pass; None when there is no bound."""


class FullAccess:
    """An archive of its own: clients may do everything."""

    owns_replays = False

    def check_request(self, message: Message) -> None:
        pass

    def check_channel(self, channel: str) -> None:
        pass

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        pass

    def replay_limit(self, recording_id: int) -> Counter | None:
        return None


class ReadOnlyAccess:
    """An archive that belongs to somebody else: clients look, and replay up to a bound."""

    owns_replays = True

    def check_request(self, message: Message) -> None:
        if message.template_id not in READING:
            raise ArchiveError(
                f"{message.name} is refused: this archive belongs to a node of a cluster and can be read only",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )

    def check_channel(self, channel: str) -> None:
        """Over IPC a stranger could reach what the node's own processes tell each other."""
        if not ChannelUri.parse(channel).is_udp:
            raise ArchiveError(
                f"channel {channel!r} is refused: a node's archive publishes to aeron:udp channels only",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        pass

    def replay_limit(self, recording_id: int) -> Counter | None:
        return None
