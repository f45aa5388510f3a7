"""Where a new consumer begins: where the log does, or before the first entry that is not older than a time.

Where the log has lost its beginning, nobody knows of the requests before the oldest snapshot which were executed; who
must know it begins there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.own_codecs import PlaceKind
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.entries import LogEntry
from ordo.follow.follower import LogFollower
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.follow.recordings.place_question import PlaceQuestion
from ordo.follow.recordings.recording_follower import ANSWER_PATIENCE_NS, RETRY_INTERVAL_NS, Refusals
from ordo.follow.recordings.snapshot_search import SnapshotSearch
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.cluster_time import time_ns
from ordo.transport.client.client import TransportClient

FRAGMENTS_PER_CYCLE = 256


class StartSearch:
    """A search that asks one node which part of the log it has.

    For a time, it asks the node's index of the log. Where that cannot tell, it bisects over the terms of the log
    buffers, and reads through one of them. `work` once a duty cycle, until `position` is there. Never waits.

    A message never reaches over the end of a term, so one begins where a term does; and the time stamps of entries
    never go back. A time after the newest entry is found at the log's end as it was when the search began.
    """

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        time: int | None,
        silence_s: float,
        cluster: KnownCluster | None = None,
        *,
        decides: bool,
    ) -> None:
        """`time`: since 1970, in the unit that its size tells; None: where the log begins.

        `cluster`: the one that the nodes must be of. `decides`: not before the place from which on it is known which
        requests are executed.
        """
        self.position: int | None = None
        self.problem = ""
        """Why the last node was left."""
        self._client = client
        self._nodes = nodes
        self._silence_s = silence_s
        self._cluster = cluster or KnownCluster()
        self._refusals = Refusals(nodes, self._cluster)
        self._next_node = 0
        self._asked_ns = -RETRY_INTERVAL_NS
        self._patience_ns = ANSWER_PATIENCE_NS
        self._source: LogSource | None = None
        self._closing: list[LogSource | SnapshotSearch] = []
        self._follower: LogFollower | None = None
        self._decides = decides
        self._floor = 0
        """Where the search may end at the lowest."""
        self._begin = 0
        self._snapshots: SnapshotSearch | None = None
        self._question = None if time is None else PlaceQuestion(PlaceKind.TIME, time)
        self._starts: list[int] = []
        """Where the rest of the log, among which the time is, may be begun: the first of them for sure not too late."""
        self._end = 0
        self._is_later = False
        """Whether an entry was met that is not older than the time."""
        self._reached = 0

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes an answer, so that `work` must be called."""
        return any(one.is_pending for one in self._closing)

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = sum(source.work(now_ns) for source in self._closing)
        self._closing = [source for source in self._closing if source.is_pending]
        if self.position is not None:
            return count
        if self._snapshots is not None:
            return count + self._look(now_ns)
        return count + (self._read(now_ns) if self._starts else self._survey(now_ns))

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials, OtherClusterError as readers do."""
        self._cluster.check()
        self._refusals.check()

    def _survey(self, now_ns: int) -> int:
        """Ask the nodes in turn until one has said which part of the log it has.

        Each is given longer than the one before, since it may be down, or far away.
        """
        if self._source is None and now_ns - self._asked_ns >= RETRY_INTERVAL_NS:
            settings = self._nodes[self._next_node % len(self._nodes)]
            self._next_node += 1
            self._asked_ns = now_ns
            try:
                self._source = LogSource(self._client, settings, now_ns, cluster=self._cluster)
            except OrdoError as error:
                self.problem = str(error)
        source = self._source
        if source is None:
            return 0
        count = source.work(now_ns)
        if source.is_ended:
            self.problem = f"{source.address}: {source.reason}"
            self._refusals.note(source)
            self.close()
        elif source.state is SourceState.READY and (self._question is None or self._question.is_answered(source)):
            settings = self._nodes[(self._next_node - 1) % len(self._nodes)]
            self._note(source)
            self.close()
            self._begin_look(settings, now_ns)
        elif now_ns - self._asked_ns >= self._patience_ns and len(self._nodes) > 1:
            self._patience_ns *= 2
            source.end("does not answer")
        return count

    def _note(self, source: LogSource) -> None:
        begin, self._end = source.start_position, source.end_position
        self._begin = begin
        if self._question is None or self._question.place is not None or begin >= self._end:
            self._starts = []
            return
        assert source.descriptor is not None
        length = source.descriptor.term_length
        self._starts = [begin, *range(begin - begin % length + length, self._end, length)]

    def _begin_look(self, settings: ArchiveClientSettings, now_ns: int) -> None:
        """Look for the oldest snapshot of the node, where its log has lost its beginning."""
        if self._decides and self._begin > 0:
            try:
                self._snapshots = SnapshotSearch(
                    self._client, settings, self._begin, now_ns, self._cluster, is_oldest=True
                )
            except OrdoError as error:
                self._survey_anew(str(error))
        elif not self._starts:
            self._find(self._found)

    def _look(self, now_ns: int) -> int:
        search = self._snapshots
        assert search is not None
        count = search.work(now_ns)
        if search.is_done:
            self._drop_snapshots()
            if search.problem:
                self._survey_anew(search.problem)
            else:
                self._floor = self._begin if search.snapshot is None else search.snapshot.log_position
                if not self._starts:
                    self._find(self._found)
        return count

    @property
    def _found(self) -> int:
        """Where the search ends, if there is nothing to bisect."""
        place = None if self._question is None else self._question.place
        return self._begin if place is None else place.position

    def _survey_anew(self, problem: str) -> None:
        """Ask the next node."""
        self.problem, self._starts = problem, []

    @property
    def _middle(self) -> int:
        return len(self._starts) // 2

    def _read(self, now_ns: int) -> int:
        if self._follower is None:
            self._is_later, self._reached = False, self._starts[self._middle]
            self._follower = LogFollower(
                self._client, self._nodes, self._reached, self._silence_s, cluster=self._cluster
            )
        follower = self._follower
        count = follower.work(now_ns)
        follower.check_allowed()
        self.problem = follower.problem
        if follower.oldest_position is not None:  # deleted meanwhile: what there is is asked for anew
            self.close()
            self._starts = []
            return count
        count += follower.poll(self._on_entry, FRAGMENTS_PER_CYCLE)
        self._decide(follower)
        return count

    def _on_entry(self, entry: LogEntry) -> None:
        assert self._question is not None
        if not self._is_later:
            self._is_later = time_ns(entry.timestamp) >= time_ns(self._question.value)
        if not self._is_later:
            self._reached = entry.position

    def _decide(self, follower: LogFollower) -> None:
        """After each look: gives up the half in which the time is not, until it is found."""
        middle = self._middle
        has_earlier = self._reached > self._starts[middle]
        has_read_all = follower.position is not None and follower.position >= self._end
        if has_earlier and (self._is_later or has_read_all):
            self._find(self._reached if self._is_later else self._end)
        elif has_earlier and len(self._starts) > 1:
            self._starts = self._starts[middle:]
            if len(self._starts) > 1:
                self.close()
        elif not has_earlier and (self._is_later or has_read_all):
            if middle == 0:
                self._find(self._starts[0] if self._is_later else self._end)
            self._starts = self._starts[:middle]
            self.close()

    def _find(self, position: int) -> None:
        self.position = max(position, self._floor)
        self.close()

    def _drop_snapshots(self) -> None:
        search, self._snapshots = self._snapshots, None
        if search is not None:
            search.close()
            self._closing.append(search)

    def close(self) -> None:
        """Stop the search and close its source. Idempotent."""
        follower, self._follower = self._follower, None
        source, self._source = self._source, None
        if follower is not None:
            follower.close()
        if source is not None:
            source.close()
            self._closing.append(source)
        self._drop_snapshots()
