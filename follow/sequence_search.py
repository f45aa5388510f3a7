"""What a reader has to know that begins with the message of a number: where to count from, and what was executed there.

That is the newest snapshot whose last message has a lower number, or the beginning of the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.follow.execution_search import NumberedSearch
from ordo.follow.executions import Executions
from ordo.follow.recordings.log_source import LogSource
from ordo.transport.client.client import TransportClient


class SequenceSearch(NumberedSearch):
    """A search among snapshots, from the newest to the oldest. `position` is where the reader is to begin."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        sequence: int,
        silence_s: float,
        cluster: KnownCluster | None = None,
    ) -> None:
        super().__init__(client, nodes, None, silence_s, cluster)
        self._sequence = sequence

    def _begin_look(self, source: LogSource, now_ns: int) -> None:
        self.position = None  # each node is asked for its newest snapshot first
        super()._begin_look(source, now_ns)

    def _is_late(self, snapshot: ServiceSnapshot) -> bool:
        """Whether the message comes before a snapshot.

        Where messages have no numbers, those that begin after it are above its position.
        """
        last = snapshot.sequence if snapshot.sequence >= 0 else snapshot.log_position
        return self._sequence <= last

    def _begin_roll(self, table: Executions, position: int) -> None:
        self.position = position
        super()._begin_roll(table, position)

    def _finish(self) -> None:
        if not self._table.is_known:
            self.position = self.begin_position
        super()._finish()
