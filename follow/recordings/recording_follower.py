"""Follows a recording that all nodes have alike, without gaps or repeats: the committed log, or a topic of the feeds.

The clock is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.recordings.live_stream import LivePatience
from ordo.follow.recordings.log_source import REPLAY_STREAM_ID, LogSource, SourceState
from ordo.follow.recordings.position_verdict import PositionVerdict
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.transport.client.client import TransportClient

RETRY_INTERVAL_NS = 100_000_000
ANSWER_PATIENCE_NS = 500_000_000
"""A node that has not answered for so long may be down: the next one is asked as well."""
LOOK_PAUSE_NS_MIN = 1_000_000_000
LOOK_PAUSE_NS_MAX = 64_000_000_000


class Refusals:
    """The nodes that refuse a reader's credentials, or cannot show that their logs go on with what it has read.

    Only when every node does, nothing can be read: the reader's cluster has the error then for what nobody can show.
    """

    def __init__(self, nodes: Sequence[ArchiveClientSettings], cluster: KnownCluster) -> None:
        self._addresses = {settings.control_channel for settings in nodes}
        self._refused: set[str] = set()
        self._unproven: dict[str, str] = {}
        """The reasons why nodes cannot show it, by address."""
        self._too_old: dict[str, str] = {}
        """The nodes that have deleted the log up to a position behind the reader's."""
        self._cluster = cluster
        self._last = ""

    def note(self, source: LogSource) -> None:
        """Note that a source has ended, and why."""
        if source.is_refused:
            self._refused.add(source.address)
            self._last = f"{source.address}: {source.reason}"
        if source.is_unproven or source.is_too_old:
            (self._unproven if source.is_unproven else self._too_old)[source.address] = source.reason
        if self._unproven and self._unproven.keys() | self._too_old.keys() == self._addresses:
            address, reason = self._unproven.popitem()
            self._cluster.refuse_unproven(address, reason)

    def clear(self) -> None:
        """Forget refusals: a node lets this client read."""
        for one in (self._refused, self._unproven, self._too_old):
            one.clear()

    def check(self, too_old: Collection[str] = ()) -> None:
        """Raise ArchiveError when every node refuses these credentials, except for those in `too_old`."""
        if self._refused and self._refused | set(too_old) == self._addresses:
            others = "; the other nodes have deleted this part of the log" if self._refused != self._addresses else ""
            raise ArchiveError(
                f"{self._last}{others}; reading the log takes credentials with the role log (docs/SECURITY.md)",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )


class RecordingFollower:
    """A follower with at most two nodes at a time: the one that it reads, and one that it asks whether it has more.

    Who reads the leader asks the other nodes, and goes on at one that has as much: the leader has enough to do.

    `position` is where the next entry begins. It moves with each record, before the record is handed out, and by
    nothing else; every source is begun there, and what ends at or below it is not handed out again. So a change of
    nodes neither skips nor repeats.
    """

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        position: int | None,
        silence_s: float,
        *,
        is_from_start: bool = False,
        stream_id: int | None = REPLAY_STREAM_ID,
        topic: str | None = None,
        record_filter: Mapping[str, str] | None = None,
        goes_live: bool = False,
        cluster: KnownCluster | None = None,
    ) -> None:
        """Follow from `position`; None begins with what is committed when the first node is reached.

        With `is_from_start`, None begins where that node's log begins. `stream_id`, `topic` and `record_filter` are
        those of LogSource. `goes_live`: without a filter it reads, once it has caught up, what the node sends to all
        such readers alike; it is polled, not recorded. `cluster`: the one that is known already; nodes of another one
        are refused (`check_allowed`).
        """
        self.position = position
        self.problem = ""
        self.cluster = cluster or KnownCluster()
        if position is not None and topic is None:
            self.cluster.position = max(self.cluster.position, position)
        self.oldest_position: int | None = None
        """Where the log begins now, when `position` is below that at every node."""
        self._refusals = Refusals(nodes, self.cluster)
        what = "the log" if topic is None else f"topic {topic}"
        self._verdict = PositionVerdict(client, nodes, what, self.cluster)
        self._is_from_start = is_from_start
        self._stream_id = stream_id
        self._topic = topic
        self._record_filter = record_filter
        self._patience = LivePatience() if goes_live and not record_filter else None
        self._client = client
        self._nodes = list(nodes)
        self._silence_ns = round(silence_s * SECOND_NS)
        self._next_node = 0
        self._retry_ns = 0
        self._last_progress_ns: int | None = None
        self._source: LogSource | None = None
        self._probe: LogSource | None = None
        self._probed_at: int | None = None
        self._is_look = False
        """The probe is to take over from a leader, not from a node that stands still."""
        self._look_ns = 0
        self._look_pause_ns = LOOK_PAUSE_NS_MIN
        self._closing: list[LogSource] = []
        self._too_old: dict[str, int] = {}

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials, or the position to begin at.

        Raises OtherClusterError when a node is of another cluster than what was read.
        """
        self.cluster.check()
        self._refusals.check()
        self._verdict.check()

    @property
    def is_beyond(self) -> bool:
        """Whether `check_allowed` raises since the nodes' recordings end before `position`; they may get there."""
        return self._verdict.is_beyond

    @property
    def source(self) -> LogSource | None:
        """The node that is read, for a caller that records its replay instead of polling."""
        return self._source

    def advance(self, position: int) -> None:
        """Everything up to `position` was taken from the source by who records it."""
        self.position = position
        self._last_progress_ns = None
        self._too_old.clear()
        self._refusals.clear()

    @property
    def source_address(self) -> str | None:
        is_reading = self._source is not None and self._source.state is SourceState.REPLAYING
        return self._source.address if is_reading and self._source is not None else None

    @property
    def is_live(self) -> bool:
        """Whether it reads the stream that a node sends to all its readers."""
        return self._source is not None and self._source.is_live

    def work(self, now_ns: int) -> int:
        """One duty cycle: finds, leaves and changes nodes. The count of things done."""
        if self._last_progress_ns is None:
            self._last_progress_ns = now_ns
        if self.position is not None and self._topic is None:
            self.cluster.position = max(self.cluster.position, self.position)
        work_count = sum(source.work(now_ns) for source in self._closing)
        self._closing = [source for source in self._closing if source.is_pending]
        if self._verdict.is_searching:
            return work_count + self._verdict.work(now_ns)
        if self._source is None and now_ns >= self._retry_ns:
            self._source = self._open_next(now_ns)
        if self._source is not None:
            work_count += self._source.work(now_ns)
            self._attend_source(now_ns)
        is_silent = self._source is not None and now_ns - self._last_progress_ns >= self._silence_of(self._source)
        if is_silent:
            self._drop_probe()  # it has not answered, either
        if self._probe is not None:
            work_count += self._probe.work(now_ns)
            self._attend_probe(now_ns)
        elif is_silent:
            self._last_progress_ns = now_ns
            self._open_probe(now_ns, is_look=False)
        elif self._source is not None and self._source.is_leader and now_ns >= self._look_ns:
            self._look(now_ns)
        return work_count

    def _silence_of(self, source: LogSource) -> int:
        return self._silence_ns if source.has_answered else min(ANSWER_PATIENCE_NS, self._silence_ns)

    def _open_probe(self, now_ns: int, is_look: bool) -> None:
        self._probed_at, self._is_look = self.position, is_look
        self._probe = self._open_next(now_ns)

    def _look(self, now_ns: int) -> None:
        """Ask another node than the leader; less often each time, since all may be down, or full."""
        if self.source_address is None or self._stream_id is None:
            return  # nothing is read yet; or it is recorded, by who has chosen the node
        has_rested = now_ns - self._look_ns >= LOOK_PAUSE_NS_MAX
        self._look_pause_ns = LOOK_PAUSE_NS_MIN if has_rested else min(2 * self._look_pause_ns, LOOK_PAUSE_NS_MAX)
        self._look_ns = now_ns + self._look_pause_ns
        self._open_probe(now_ns, is_look=True)

    def _open_next(self, now_ns: int) -> LogSource | None:
        """Open a source at the next node in turn, other than the current one if there is another."""
        for _ in range(len(self._nodes)):
            settings = self._nodes[self._next_node % len(self._nodes)]
            self._next_node += 1
            if self._source is None or settings.control_channel != self._source.address:
                break
        else:
            return None
        try:
            return self._source_at(settings, now_ns)
        except OrdoError as error:
            self.problem = str(error)
            self._retry_ns = now_ns + RETRY_INTERVAL_NS
            return None

    def _source_at(self, settings: ArchiveClientSettings, now_ns: int) -> LogSource:
        """Return a node as a source. Raises TransportError, ChannelError."""
        return LogSource(
            self._client,
            settings,
            now_ns,
            stream_id=self._stream_id,
            topic=self._topic,
            record_filter=self._record_filter,
            patience=self._patience,
            cluster=self.cluster,
        )

    def _attend_source(self, now_ns: int) -> None:
        source = self._source
        assert source is not None
        if source.state is SourceState.READY:
            if self.position is None:
                self.position = self._choose_position(source)
            if self.position is None:
                source.end("another node may have more")
            else:
                source.begin(self.position)
        self._judge(source, now_ns)
        if source.is_ended:
            self.problem = self._verdict.problem or f"{source.address}: {source.reason}"
            self._note_end(source)
            self._drop(source)
            if self._is_look:
                self._drop_probe()  # it may be silent for long; the next node is asked at once
            self._source, self._probe = self._probe, None
            self._retry_ns = now_ns + RETRY_INTERVAL_NS
            self._last_progress_ns = now_ns

    def _judge(self, source: LogSource, now_ns: int) -> None:
        """Note whether this node says that the reader's first position can never be read."""
        if source.image is not None:
            self._verdict.note_begun()
        elif self.position is not None and (source.is_ended or source.is_beyond):
            self._verdict.note(source, self.position, now_ns, self._topic)
            if source.is_beyond:
                so_far = f"{source.address}: ends at position={source.end_position} so far"
                self.problem = self._verdict.problem or so_far

    def _judge_probe(self, probe: LogSource, now_ns: int) -> None:
        """Note the answer of the node that was asked whether it has more."""
        if self.position is not None:
            self._verdict.note(probe, self.position, now_ns, self._topic)

    def leave_source(self, reason: str) -> None:
        """Leave a node that lacks what the reader needs; the next duty cycle asks the next node."""
        if self._source is not None:
            self._source.end(reason)

    def _choose_position(self, source: LogSource) -> int | None:
        """Where to begin, now that the first node was reached; None: another one is to be asked, too."""
        return source.start_position if self._is_from_start else source.end_position

    def _note_end(self, source: LogSource) -> None:
        """Note why a source ended.

        A position is lost when every node has lost it, and refused when every node refuses it.
        """
        self._refusals.note(source)
        if not source.is_too_old:
            return
        self._too_old[source.address] = source.start_position
        if self._are_all(self._too_old):
            self.oldest_position = min(self._too_old.values())

    def _are_all(self, addresses: Collection[str]) -> bool:
        """Return whether these are the addresses of all nodes; one may have been given twice."""
        return len(addresses) == len({settings.control_channel for settings in self._nodes})

    def _attend_probe(self, now_ns: int) -> None:
        """Change to the other node when that is better.

        It is when that node spares the leader, when it answers and this one does not, or when it has more and nothing
        has come since it was asked.
        """
        probe, source = self._probe, self._source
        if probe is None or source is None:
            return
        if probe.is_ended:
            self._drop_probe()
        elif probe.state is SourceState.READY:
            self._judge_probe(probe, now_ns)
            self._probe = None
            if self._spares_leader(source, probe):
                self.problem = f"{source.address}: is the leader, which is spared"
                self._take(probe)
            elif not source.has_answered:
                self.problem = f"{source.address}: does not answer"
                self._take(probe)
            elif not self._is_look and self._has_more(probe):
                self.problem = f"{source.address}: stands still at position={self.position}"
                self._take(probe)
            else:
                self._drop(probe)

    def _has_more(self, probe: LogSource) -> bool:
        """Return whether another node has more, and nothing has come from the current one since the other was asked."""
        if self.position is None:
            return True
        return self.position == self._probed_at and probe.end_position > self.position >= probe.start_position

    def _spares_leader(self, source: LogSource, probe: LogSource) -> bool:
        """Return whether a node that does not lead has what the leader was known to have when it was asked."""
        if self.position is None or self._probed_at is None or probe.is_leader or not source.is_leader:
            return False
        known_position = max(self._probed_at, source.end_position)
        return probe.end_position >= known_position and self.position >= probe.start_position

    def _take(self, probe: LogSource) -> None:
        """Read this node from now on."""
        assert self._source is not None
        self._drop(self._source)
        self._source = probe

    def _drop_probe(self) -> None:
        if self._probe is not None:
            self._drop(self._probe)
        self._probe, self._is_look = None, False

    def _drop(self, source: LogSource) -> None:
        source.close()
        self._closing.append(source)

    def poll_records(self, handler: Callable[[int, bytes], object], limit: int) -> int:
        """Call `handler(position, record)` for what has come, at most `limit` fragments; return how many."""
        source = self._source
        if source is None:
            return 0
        limit_position = None if self._topic is not None else source.limit_position
        is_beyond = False

        def on_record(position: int, record: bytes) -> None:
            nonlocal is_beyond
            if self.position is not None and position <= self.position:
                return
            if limit_position is not None and position > limit_position:
                is_beyond = True
                return
            self.position = position
            handler(position, record)

        before = self.position
        count = source.poll(on_record, limit)
        if self._record_filter and self.position is not None:
            passed = source.position if limit_position is None else min(source.position, limit_position)
            self.position = max(self.position, passed)
        if self.position is not None and self.position != before:
            self.advance(self.position)
        if is_beyond:
            self.leave_source("is to say once more which cluster's log it has")
        return count

    def close(self) -> None:
        """Give up both sources. Idempotent."""
        for source in (self._source, self._probe):
            if source is not None:
                source.close()
        self._source = self._probe = None
        self._verdict.close()
