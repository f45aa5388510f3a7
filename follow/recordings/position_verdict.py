"""Decides, from what the nodes answer, whether the log can ever be read from a reader's first position.

One node may lag, and one may be damaged. So a position counts as beyond the end once every node has said so, or most of
them with the leader among them, and none has caught up for a while; and as inside a record once most nodes say so that
have it. A reader that has begun is no longer judged: where it stands is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.recordings.boundary_search import HINT, BoundarySearch
from ordo.follow.recordings.log_source import LogSource
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.transport.client.client import TransportClient

BEYOND_PATIENCE_NS = 3_000_000_000


class EndVotes:
    """The nodes whose recordings end before a reader's position, and how long they have answered so."""

    def __init__(self, nodes: Sequence[ArchiveClientSettings]) -> None:
        self._count = len({one.control_channel for one in nodes})
        self._ends: dict[str, int] = {}
        self._leaders: set[str] = set()
        self._since_ns = 0

    @property
    def end(self) -> int:
        """The furthest end that a node has named; -1 without one."""
        return max(self._ends.values(), default=-1)

    def clear(self) -> None:
        """Forget the votes, because a node has the position, or its log has grown."""
        self._ends.clear()
        self._leaders.clear()

    def note(self, address: str, end: int, is_leader: bool, now_ns: int) -> bool:
        """Note that a node ends too early. Return whether all do, or most with the leader among them, since long."""
        if not self._ends:
            self._since_ns = now_ns
        self._ends[address] = end
        (self._leaders.add if is_leader else self._leaders.discard)(address)
        is_by_all = len(self._ends) == self._count
        is_by_leader = 2 * len(self._ends) > self._count and bool(self._leaders)
        return (is_by_all or is_by_leader) and now_ns - self._since_ns >= BEYOND_PATIENCE_NS


class PositionVerdict:
    """A verdict on a first position.

    `note` takes a source's answers, `work` runs once per duty cycle, `check` raises what is final.
    """

    is_beyond = False
    """The verdict is that the nodes' recordings end before the position: they may get there later."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        what: str = "the log",
        cluster: KnownCluster | None = None,
    ) -> None:
        self._client = client
        self._nodes = {one.control_channel: one for one in nodes}
        self._what = what
        self._cluster = cluster
        self._votes = EndVotes(nodes)
        self._between: set[str] = set()
        self._too_old: set[str] = set()
        self._search: BoundarySearch | None = None
        self._error: ArchiveError | None = None
        self._has_begun = False

    @property
    def is_searching(self) -> bool:
        """Whether it is certain that nothing can be read; only the text of the error is still to come."""
        return self._search is not None and self._error is None

    @property
    def problem(self) -> str:
        """What `check` raises, empty for nothing."""
        return "" if self._error is None else self._error.message

    def check(self) -> None:
        """Raise ArchiveError when nothing can be read from the position."""
        if self._error is not None:
            raise self._error

    def note_begun(self) -> None:
        """Note that a node has begun to send; later answers no longer count."""
        self._has_begun = True

    def note(self, source: LogSource, position: int, now_ns: int, topic: str | None = None) -> None:
        """Note the answer of a source that has answered or ended."""
        if self._has_begun or self._search is not None or self._error is not None:
            return
        if source.is_too_old:
            self._too_old.add(source.address)
        if not source.is_between_frames:
            self._between.add(source.address)
            if self._are_enough_between:
                self._begin_search(source, position, now_ns, topic)
        elif source.has_answered and source.end_position >= 0:
            self._note_end(source, position, now_ns)

    @property
    def _are_enough_between(self) -> bool:
        is_by_most = 2 * len(self._between) > len(self._nodes)
        return is_by_most or len(self._between | self._too_old) == len(self._nodes)

    def _begin_search(self, source: LogSource, position: int, now_ns: int, topic: str | None) -> None:
        try:
            self._search = BoundarySearch(
                self._client, self._nodes[source.address], position, now_ns, topic=topic, cluster=self._cluster
            )
        except OrdoError:
            self._refuse_between(position, HINT)

    def _note_end(self, source: LogSource, position: int, now_ns: int) -> None:
        if source.end_position >= position:
            self._votes.clear()
        elif self._votes.note(source.address, source.end_position, source.is_leader, now_ns):
            end, self.is_beyond = self._votes.end, True
            self._error = ArchiveError(
                f"position={position} is beyond the end of {self._what}, which is position={end}: begin there or below",
                code=ErrorCode.INVALID_POSITION,
            )

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        search = self._search
        if search is None:
            return 0
        count = search.work(now_ns)
        if search.is_done and self._error is None:
            self._refuse_between(search.position, search.allowed)
        return count

    def _refuse_between(self, position: int, allowed: str) -> None:
        self._error = ArchiveError(
            f"position={position} is inside a record of {self._what}: {allowed}", code=ErrorCode.INVALID_POSITION
        )

    def close(self) -> None:
        """Give up the search. Idempotent."""
        if self._search is not None:
            self._search.close()
