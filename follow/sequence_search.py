"""What a reader has to know that begins with the message of a number: where to count from, and what was executed there.

A node's index of its log tells the last place before it; the table of requests is then brought there from the newest
snapshot, without the messages in between. Where no index tells, it is the newest snapshot whose last message has a
lower number, or the beginning of the log, and all messages from there on are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.own_codecs import LogPlaceFields, PlaceKind
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.follow.execution_search import NumberedSearch
from ordo.follow.executions import Executions
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.recordings.place_question import PlaceQuestion
from ordo.transport.client.client import TransportClient

RECORD_BYTES_MIN = 64
"""The shortest message in the log: the headers of its frame and of its session."""


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
        self._question = PlaceQuestion(PlaceKind.SEQUENCE, sequence)
        self._place: LogPlaceFields | None = None

    def _begin_look(self, source: LogSource, now_ns: int) -> None:
        if not self._question.is_answered(source):
            return
        place = self._question.place
        self._place = place if place is not None and 0 <= place.sequence < self._sequence else None
        self.numbers = self._place is None
        self.position = None if self._place is None else self._place.position
        # Without a place each node is asked for its newest snapshot first.
        super()._begin_look(source, now_ns)

    def _is_late(self, snapshot: ServiceSnapshot) -> bool:
        """Whether the message comes before a snapshot.

        Where messages have no numbers, those that begin after it are above its position.
        """
        self._drop_place_unless_possible(snapshot)
        if self._place is not None:
            return False
        last = snapshot.sequence if snapshot.sequence >= 0 else snapshot.log_position
        return self._sequence <= last

    def _drop_place_unless_possible(self, snapshot: ServiceSnapshot) -> None:
        """Do without a place that a snapshot, which is right, shows to be wrong."""
        if self._place is not None and not self._is_possible(self._place, snapshot):
            self._place, self.numbers = None, True

    @staticmethod
    def _is_possible(place: LogPlaceFields, snapshot: ServiceSnapshot) -> bool:
        """Return whether there can be as many messages between a snapshot and the place as the index says."""
        if snapshot.sequence < 0:  # numbers begin later, with any
            return True
        count = place.sequence - snapshot.sequence
        return 0 <= count <= max(0, place.position - snapshot.log_position) // RECORD_BYTES_MIN

    def _begin_roll(self, table: Executions, position: int) -> None:
        if self._place is None:
            self.position = position
        super()._begin_roll(table, position)

    def _finish(self) -> None:
        if not self._table.is_known:
            self.position = self.begin_position
        elif self._place is not None:
            self._table.count_from(self._place.sequence, is_kept=bool(self._place.is_kept))
        super()._finish()
