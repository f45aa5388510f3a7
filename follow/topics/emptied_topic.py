"""Finds the last message of a topic of which a node has no message left, in the node's newest snapshot.

A recording without messages says nothing of what was published before: the messages were deleted with the log, or the
node began from a snapshot. A reader that wants one of those would wait for the next message to hear that it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.recordings.snapshot_search import SnapshotSearch
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.transport.client.client import TransportClient

POSITION_MAX = (1 << 63) - 1
PAUSE_NS = SECOND_NS
"""So long after a snapshot that says nothing the next one is looked for."""


class EmptiedTopic:
    """Asks the node that is read; `work` once a duty cycle. Never waits."""

    def __init__(
        self,
        client: TransportClient,
        nodes: Sequence[ArchiveClientSettings],
        topic: str,
        cluster: KnownCluster,
    ) -> None:
        """Take what the topic's reader has; nothing is asked before `look`."""
        self._client = client
        self._nodes = {one.control_channel: one for one in nodes}
        self._topic = topic
        self._cluster = cluster
        self._search: SnapshotSearch | None = None
        self._closing: list[SnapshotSearch] = []
        self._address = ""
        self._end_position = -1
        self._due_ns = 0

    def look(self, source: LogSource, now_ns: int) -> Any:
        """Return the last FeedState of a topic whose recording is empty, or None if it is not known."""
        search = self._search
        if search is None or source.address != self._address or source.end_position != self._end_position:
            self._begin(source, now_ns)
            return None
        if not search.is_done:
            return None
        states = search.snapshot.feeds if search.snapshot is not None else ()
        found = next((one for one in states if one.topic == self._topic), None)
        if found is not None and found.position == self._end_position:
            return found
        if now_ns >= self._due_ns:
            self._begin(source, now_ns)
        return None

    def _begin(self, source: LogSource, now_ns: int) -> None:
        self.close()
        self._address, self._end_position = source.address, source.end_position
        self._due_ns = now_ns + PAUSE_NS
        try:
            settings = self._nodes[source.address]
            self._search = SnapshotSearch(self._client, settings, POSITION_MAX, now_ns, self._cluster)
        except OrdoError:
            self._search = None

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        count = sum(one.work(now_ns) for one in self._closing)
        self._closing = [one for one in self._closing if one.is_pending]
        return count + (self._search.work(now_ns) if self._search is not None else 0)

    def close(self) -> None:
        """Stop the search and close its source. Idempotent."""
        if self._search is not None:
            self._search.close()
            self._closing.append(self._search)
        self._search = None
