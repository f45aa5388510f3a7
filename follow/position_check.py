"""Checks whether the log can be read from a position, so that no reader waits there for ever."""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.recordings.boundary_search import BoundarySearch
from ordo.follow.recordings.recording_follower import RETRY_INTERVAL_NS, Refusals
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.transport.client.client import TransportClient


class PositionCheck:
    """Asks the nodes in turn, until one knows. `work` once a duty cycle, until `is_done`. Never waits.

    `error` then says why the log cannot be read from the position; None: it can, once the log is as long as that.
    """

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        position: int,
        cluster: KnownCluster | None = None,
    ) -> None:
        """`cluster`: the one that the nodes must be of."""
        self.is_done = False
        self.error: ArchiveError | None = None
        self.problem = "no node has answered"
        """Why the last node was left."""
        self._client = client
        self._nodes = nodes
        self._position = position
        self._cluster = cluster or KnownCluster()
        self._refusals = Refusals(nodes, self._cluster)
        self._next_node = 0
        self._asked_ns = -RETRY_INTERVAL_NS
        self._search: BoundarySearch | None = None
        self._closing: list[BoundarySearch] = []
        self._starts: dict[str, int] = {}

    def check_allowed(self) -> None:
        """Raise ArchiveError when every node refuses these credentials, OtherClusterError as readers do."""
        self._cluster.check()
        self._refusals.check()

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = sum(search.work(now_ns) for search in self._closing)
        self._closing = [search for search in self._closing if search.is_pending]
        if self.is_done:
            return count
        if self._search is None and now_ns - self._asked_ns >= RETRY_INTERVAL_NS:
            self._ask_next(now_ns)
        search = self._search
        if search is not None:
            count += search.work(now_ns)
            if search.is_done:
                self._note(search)
                self._leave()
        return count

    def _ask_next(self, now_ns: int) -> None:
        settings = self._nodes[self._next_node % len(self._nodes)]
        self._next_node += 1
        self._asked_ns = now_ns
        try:
            self._search = BoundarySearch(self._client, settings, self._position, now_ns, cluster=self._cluster)
        except OrdoError as error:
            self.problem = error.message

    def _note(self, search: BoundarySearch) -> None:
        source, position = search.source, self._position
        if not search.is_known:
            self.problem = f"{source.address}: {source.reason or 'does not answer'}"
            self._refusals.note(source)
        elif position < source.start_position:
            self._starts[source.address] = source.start_position
            self.problem = f"{source.address}: has the log from position={source.start_position} on only"
            if len(self._starts) == len({one.control_channel for one in self._nodes}):
                self._refuse(f"was deleted everywhere; the oldest that is left is {min(self._starts.values())}")
        elif position < source.end_position and not search.is_at_boundary:
            self._refuse(f"is inside a record of the log: {search.allowed}")
        else:
            self.is_done = True

    def _refuse(self, why: str) -> None:
        self.error = ArchiveError(f"position={self._position} {why}", code=ErrorCode.INVALID_POSITION)
        self.is_done = True

    def _leave(self) -> None:
        search, self._search = self._search, None
        if search is not None:
            search.close()
            self._closing.append(search)

    def close(self) -> None:
        """Stop the check and close its sources. Idempotent."""
        self._leave()
