"""What a node's archive offers to others: the committed log, its snapshots and the feeds, read-only."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ordo.archive.control.access import AccessPolicy, ReadingRights, UnicastChannels, check_log_right
from ordo.archive.control.conductor import ControlConductor
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.protocol.own_codecs import PlaceFinder, PlaceKind, ToldIdentity, ToldPlace
from ordo.cluster.wire.log_index.entries import FILE_NAME
from ordo.cluster.wire.log_index.index import LogIndex
from ordo.cluster.wire.streams import EGRESS_STREAM_ID, LOG_STREAM_ID, is_feed, topic_of
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.reporting.logging import tell
from ordo.runtime.security.authentication import Right

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.archive import Archive
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.runtime.native.counters import Counter
    from ordo.runtime.security.authentication import Authenticator
    from ordo.transport.client.client import TransportClient


SESSIONS_BESIDE = 32
"""Sessions of clients that replay nothing: readers that ask whether a node has more, and tools."""
LINGER_NS_MAX = 5_000_000_000
"""Replays that have ended are in no bound: a client that began and ended them one after another had many."""
PROBLEMS_TOLD_MAX = 8
"""So many problems of the log's index a node logs until it starts again."""
STREAM_IDS_END = 128
"""Streams of a cluster have ids from LOG_STREAM_ID to below this one."""


class TopicRights(ReadingRights):
    """Hides the uncommitted part of the log, which may still be truncated."""

    def check_reading(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        topic = topic_of(descriptor.original_channel)
        check_log_right(self.authenticator, descriptor, principal, topic)

    def check_measuring(self, descriptor: RecordingDescriptor, principal: bytes) -> None:
        """Tell readers of topics how far the log is committed: they ask whether it has come to a position."""
        authenticator = self.authenticator
        is_log = descriptor.stream_id == LOG_STREAM_ID
        if not is_log or authenticator is None or Right.TOPICS not in authenticator.rights_of(principal):
            self.check_reading(descriptor, principal)


class MemberChannels(UnicastChannels):
    """Keeps clients out of the streams that members send each other."""

    def __init__(self, member_ports: Callable[[], Collection[int]]) -> None:
        """`member_ports`: gives the ports where members of the cluster listen."""
        self._member_ports = member_ports

    def check_destination(self, channel: str, port: int, stream_id: int) -> None:
        """Keep clients from having a member's archive send a stream of the cluster to another member.

        Such a stream could pass for one of its own, and a session's messages in the log look like those to its client.
        """
        if stream_id == EGRESS_STREAM_ID:
            raise ArchiveError(
                f"stream {stream_id} to {channel[:200]!r} is refused: clients listen to it for their answers",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )
        if LOG_STREAM_ID <= stream_id < STREAM_IDS_END and port in self._member_ports():
            raise ArchiveError(
                f"stream {stream_id} to {channel[:200]!r} is refused: a member listens to it there",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )


class CommittedLogBounds:
    """Hides whatever of the log is not committed, since it may still be truncated. Feeds are of committed log only.

    Readers of feeds and all others have bounds of their own, so that neither keep the others out.
    """

    def __init__(self, archive: Archive, commit_position: Counter, replays_max: int, subscribers_max: int) -> None:
        self._archive = archive
        self._commit_position = commit_position
        self._replays_max = replays_max
        self._subscribers_max = subscribers_max

    def check_replay(self, recording_id: int, replayed_ids: Sequence[int]) -> None:
        is_wanted_feed = self._is_feed(recording_id)
        bound = self._subscribers_max if is_wanted_feed else self._replays_max
        if sum(self._is_feed(one) == is_wanted_feed for one in replayed_ids) >= bound:
            what = "feeds have" if is_wanted_feed else "the log and snapshots have"
            name = "max_subscribers lets, or the limit of open files" if is_wanted_feed else "max_replays lets"
            raise ArchiveError(f"{what} {bound} readers at this node, as many as {name}", code=ErrorCode.MAX_REPLAYS)

    def check_share(self, recording_id: int, replayed_ids: Sequence[int], shared_ids: Sequence[int]) -> None:
        """Let the first shared stream of the log, or of a feed, in even when replays have all places.

        It empties them.
        """
        is_feed_wanted = self._is_feed(recording_id)
        if not is_feed_wanted and self.limit(recording_id) is None:
            raise ArchiveError(f"recording {recording_id} is not shared: replay it for yourself")
        if any(self._is_feed(one) == is_feed_wanted for one in shared_ids):
            self.check_replay(recording_id, [*replayed_ids, *shared_ids])

    def limit(self, recording_id: int) -> Counter | None:
        is_log = self._archive.descriptor(recording_id).stream_id == LOG_STREAM_ID
        return self._commit_position if is_log else None

    def _is_feed(self, recording_id: int) -> bool:
        return is_feed(self._archive.descriptor(recording_id).original_channel)


class LogPlaces:
    """Finds numbers and times in a node's log by its index."""

    def __init__(self, archive: Archive, cluster_dir: str, counters: ModuleCounters) -> None:
        """Look into the index in a cluster folder; questions may have times of any unit."""
        self._archive = archive
        self._path = f"{cluster_dir}/{FILE_NAME}"
        self._counters = counters
        self._told: set[str] = set()

    @property
    def is_there(self) -> bool:
        return os.path.exists(self._path)

    def find(self, kind: PlaceKind, value: int) -> ToldPlace | None:
        """Return where the log has a number or a time; None where the index cannot tell, or does not agree."""
        recording_id = self._counters.log_recording.value
        if recording_id < 0:
            return None
        index = LogIndex(self._path, recording_id, lambda position: self._archive.reader(recording_id, position))
        try:
            if kind is PlaceKind.SEQUENCE:
                place = index.before_sequence(value)
                return None if place is None else ToldPlace(*place)
            position = index.find_time(value, self._counters.commit_position.value)
            return None if position is None else ToldPlace(position, 0, value, False)
        except Exception as error:  # a block that cannot be read, or a mistake of ours, must not end the node
            self._tell(error.message if isinstance(error, OrdoError) else f"{type(error).__name__}: {error}")
            return None

    def _tell(self, problem: str) -> None:
        """Log what is wrong with the index: each problem once, and the first few."""
        if problem not in self._told and len(self._told) < PROBLEMS_TOLD_MAX:
            self._told.add(problem)
            tell("warning", "log.index", text=problem)


def serve_archive(
    archive: Archive,
    client: TransportClient,
    random: Random,
    *,
    endpoint: str,
    commit_position: Counter,
    replays_max: int,
    subscribers_max: int,
    authenticator: Authenticator | None,
    member_ports: Callable[[], Collection[int]],
    log_identity: Callable[[], ToldIdentity | None],
    past_identity: Callable[[int], bytes],
    places: PlaceFinder,
    on_error: Callable[[Exception], object],
) -> ControlConductor:
    """Return the agent that serves a node's archive at its member's archive endpoint; not started yet."""
    config = ControlSettings(
        control_channel=f"aeron:udp?endpoint={endpoint}|alias=archive",
        local_control_channel=None,
        replays_max=replays_max + subscribers_max,
        live_replays_max=1 + subscribers_max,
        linger_ns_max=LINGER_NS_MAX,
        sessions_max=SESSIONS_BESIDE + 2 * (replays_max + subscribers_max),
    )
    access = AccessPolicy(
        TopicRights(authenticator),
        MemberChannels(member_ports),
        CommittedLogBounds(archive, commit_position, replays_max, subscribers_max),
        log_identity,
        places,
        past_identity,
    )
    return ControlConductor(archive, client, random, config, access=access, on_error=on_error)
