"""What a reader that begins in the middle of the log has to know before: the table of requests at that position.

It is taken from the newest snapshot of a service below the position, or begun at the beginning of the log, and brought
there by what the log has in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.follow.entries import record_filter
from ordo.follow.executions import DECIDING_KINDS, NUMBERING_KINDS, Executions
from ordo.follow.follower import LogFollower
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.follow.recordings.position_verdict import PositionVerdict
from ordo.follow.recordings.recording_follower import ANSWER_PATIENCE_NS, RETRY_INTERVAL_NS, Refusals
from ordo.follow.recordings.snapshot_search import SnapshotSearch
from ordo.runtime.errors import OrdoError
from ordo.transport.client.client import TransportClient

FRAGMENTS_PER_CYCLE = 256
POLLS_PER_CYCLE_MAX = 64


class SearchState(Enum):
    """The state of a search; each name says what the search waits for."""

    SURVEYING = "what a node has of the log"
    LOOKING = "its snapshots"
    LOOKING_LATER = "its snapshots of later positions, for the error that says where to begin"
    ROLLING = "the log from there to where the reader begins"
    DONE = "nothing: the table is there"


class ExecutionSearch:
    """A search for the table of executions at `position`.

    Call `work` once per duty cycle until `executions` is set; it never waits.
    """

    numbers = False
    """Whether messages are to be numbered from there on."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        position: int | None,
        silence_s: float,
        cluster: KnownCluster | None = None,
    ) -> None:
        """`position`: where the reader begins; None: with what is committed when the first node is reached.

        `cluster`: the one that the nodes must be of.
        """
        self.position = position
        self.executions: Executions | None = None
        self.begin_position = -1
        """Where the log began that had no snapshot below `position`, in bytes; -1 where one was found."""
        self.later_position: int | None = None
        """Where the oldest snapshot is that is later than `position`, as far as nodes have told."""
        self.problem = ""
        """Why the last node was left."""
        self._client = client
        self._nodes = list(nodes)
        self._silence_s = silence_s
        self._cluster = cluster or KnownCluster()
        self._refusals = Refusals(nodes, self._cluster)
        self._verdict = PositionVerdict(client, nodes, cluster=self._cluster)
        self._state = SearchState.SURVEYING
        self._next_node = 0
        self._asked_ns = -RETRY_INTERVAL_NS
        self._patience_ns = ANSWER_PATIENCE_NS
        self._without: set[str] = set()
        """Nodes that have neither a snapshot of use nor the beginning of the log."""
        self._failed: set[str] = set()
        self._source: LogSource | None = None
        self._snapshots: SnapshotSearch | None = None
        self._table = Executions()
        self._follower: LogFollower | None = None
        self._closing: list[LogSource | SnapshotSearch] = []

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes an answer, so that `work` must be called."""
        return any(one.is_pending for one in self._closing)

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials, or the position is beyond the end.

        Raises OtherClusterError when a node is of another cluster than the first one.
        """
        self._cluster.check()
        self._refusals.check()
        self._verdict.check()
        if self._follower is not None:
            self._follower.check_allowed()

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = sum(one.work(now_ns) for one in self._closing)
        self._closing = [one for one in self._closing if one.is_pending]
        if self._state is SearchState.SURVEYING:
            count += self._survey(now_ns)
        elif self._state is SearchState.LOOKING:
            count += self._look(now_ns)
        elif self._state is SearchState.LOOKING_LATER:
            count += self._look_later(now_ns)
        elif self._state is SearchState.ROLLING:
            count += self._roll(now_ns)
        return count

    @property
    def _node(self) -> ArchiveClientSettings:
        return self._nodes[self._next_node % len(self._nodes)]

    def _survey(self, now_ns: int) -> int:
        """Ask the nodes in turn until one has said where its log begins and ends."""
        if self._source is None:
            if now_ns - self._asked_ns < RETRY_INTERVAL_NS:
                return 0
            self._asked_ns = now_ns
            try:
                self._source = LogSource(self._client, self._node, now_ns, cluster=self._cluster)
            except OrdoError as error:
                self._leave_node(str(error))
                return 0
        source = self._source
        count = source.work(now_ns)
        if source.is_ended:
            self._refusals.note(source)
            self._leave_node(f"{source.address}: {source.reason}")
        elif source.state is SourceState.READY:
            self._begin_look(source, now_ns)
        elif now_ns - self._asked_ns >= self._patience_ns and len(self._nodes) > 1:
            self._patience_ns *= 2
            self._leave_node(f"{source.address}: does not answer")
        return count

    def _begin_look(self, source: LogSource, now_ns: int) -> None:
        self._refusals.clear()
        if self.position is None:
            self.position = source.end_position
        elif self.position > source.end_position:
            self._verdict.note(source, self.position, now_ns)
            self._leave_node(f"{source.address}: ends at position={source.end_position} so far")
            return
        self.begin_position = source.start_position
        self._drop_source()
        self._begin_snapshots(now_ns)

    def _begin_snapshots(self, now_ns: int) -> None:
        assert self.position is not None
        try:
            self._snapshots = SnapshotSearch(self._client, self._node, self.position, now_ns, self._cluster)
            self._state = SearchState.LOOKING
        except OrdoError as error:
            self._leave_node(str(error))

    def _is_late(self, snapshot: ServiceSnapshot) -> bool:
        """Whether an earlier snapshot is to be looked for."""
        return False

    def _make_table(self, snapshot: ServiceSnapshot | None, *, is_known: bool = True) -> Executions:
        """Return the table at a snapshot, or at the beginning of the log."""
        return Executions(snapshot, is_known=is_known, numbers=self.numbers)

    def _look(self, now_ns: int) -> int:
        assert self._snapshots is not None and self.position is not None
        search = self._snapshots
        count = search.work(now_ns)
        if not search.is_done:
            return count
        snapshot = search.snapshot
        self._drop_snapshots()
        if search.problem:
            self._leave_node(search.problem)
        elif snapshot is not None and snapshot.log_position >= self.begin_position:
            if self._is_late(snapshot):
                self.position = snapshot.log_position - 1
                self._begin_snapshots(now_ns)
                return count
            self.begin_position = -1
            self._begin_roll(self._make_table(snapshot), snapshot.log_position)
        elif self.begin_position == 0:
            self._begin_roll(self._make_table(None), 0)
        else:
            self._without.add(self._node.control_channel)
            self._begin_look_later(now_ns)
        return count

    def _begin_look_later(self, now_ns: int) -> None:
        assert self.position is not None
        try:
            self._snapshots = SnapshotSearch(
                self._client, self._node, self.position, now_ns, self._cluster, is_oldest=True
            )
            self._state = SearchState.LOOKING_LATER
        except OrdoError as error:
            self._leave_node(str(error))

    def _look_later(self, now_ns: int) -> int:
        assert self._snapshots is not None
        search = self._snapshots
        count = search.work(now_ns)
        if search.is_done:
            if search.snapshot is not None:
                found, known = search.snapshot.log_position, self.later_position
                self.later_position = found if known is None else min(known, found)
            self._leave_node(f"{self._node.control_channel}: has no snapshot up to position={self.position}")
        return count

    def _leave_node(self, problem: str) -> None:
        """Leave this node and ask the next one.

        When all were asked and one knows that it has nothing, nothing is known.
        """
        self.problem = problem
        self._failed.add(self._node.control_channel)
        self._drop_source()
        self._drop_snapshots()
        self._next_node += 1
        self._state = SearchState.SURVEYING
        if self._without and self._failed == {one.control_channel for one in self._nodes}:
            self._table = self._make_table(None, is_known=False)
            self._finish()

    def _begin_roll(self, table: Executions, position: int) -> None:
        self._table = table
        if position == self.position:
            self._finish()
            return
        self._state = SearchState.ROLLING
        self._follower = LogFollower(
            self._client,
            self._nodes,
            position,
            self._silence_s,
            record_filter=record_filter(NUMBERING_KINDS if self.numbers else DECIDING_KINDS, None),
            cluster=self._cluster,
        )

    def _roll(self, now_ns: int) -> int:
        """Take the table on to where the reader begins."""
        follower, wanted = self._follower, self.position
        assert follower is not None and wanted is not None

        def note(position: int, record: bytes) -> None:
            if position <= wanted:
                self._table.note(position, record)

        count = follower.work(now_ns)
        self.problem = follower.problem
        for _ in range(POLLS_PER_CYCLE_MAX):
            found = follower.poll_records(note, FRAGMENTS_PER_CYCLE)
            count += found
            if not found or (follower.position or 0) >= wanted:
                break
        if (follower.position or 0) >= wanted:
            self._finish()
        elif follower.oldest_position is not None:  # deleted meanwhile: there is a newer snapshot by now
            self._drop_follower()
            self._state = SearchState.SURVEYING
        return count

    def _finish(self) -> None:
        self.executions = self._table
        self._state = SearchState.DONE
        self.close()

    def _drop_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
            self._closing.append(source)

    def _drop_snapshots(self) -> None:
        search, self._snapshots = self._snapshots, None
        if search is not None:
            search.close()
            self._closing.append(search)

    def _drop_follower(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def close(self) -> None:
        """Stop the search and close its source. Idempotent."""
        self._drop_source()
        self._drop_snapshots()
        self._drop_follower()


class NumberedSearch(ExecutionSearch):
    """The same for a reader that numbers messages: the table says how many there were."""

    numbers = True
