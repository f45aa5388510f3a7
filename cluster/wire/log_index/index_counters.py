"""The counters of a log's numbers and of its index, with the type ids that Aeron has for its Sequencer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.wire.log_index.entries import IndexEntry
    from ordo.runtime.native.counters import Counter, CountersReader

INDEX_COUNTERS = {
    CounterType.SEQUENCER_INDEX: "Sequencer index",
    CounterType.REPLAY_INDEX_MIN_SEQUENCE: "Replay index min sequence index",
    CounterType.REPLAY_INDEX_MIN_POSITION: "Replay index min log position",
    CounterType.REPLAY_INDEX_MAX_SEQUENCE: "Replay index max sequence index",
    CounterType.REPLAY_INDEX_MAX_POSITION: "Replay index max log position",
    CounterType.REPLAY_INDEX_INITIAL_SEQUENCE: "Replay index initial sequence index",
    CounterType.REPLAY_INDEX_INITIAL_POSITION: "Replay index initial log position",
}
"""What a node allocates, by type, with its label. The container of service 0 writes them."""


class IndexCounters:
    """What an index covers, for programs that watch the node; counters that the node does not have are left out."""

    def __init__(self, counters: CountersReader, cluster_id: int) -> None:
        found = {kind: find_counter(counters, kind, cluster_id) for kind in INDEX_COUNTERS}
        self._counters = {kind: counters.counter(one) for kind, one in found.items() if one >= 0}

    @property
    def sequence(self) -> Counter | None:
        """The counter of the last message's number."""
        return self._counters.get(CounterType.SEQUENCER_INDEX)

    def set_initial(self, entry: IndexEntry | None) -> None:
        """Show the first entry of the file."""
        self._set(CounterType.REPLAY_INDEX_INITIAL_SEQUENCE, CounterType.REPLAY_INDEX_INITIAL_POSITION, entry)

    def set_min(self, entry: IndexEntry | None) -> None:
        """Show the first entry whose log is still there."""
        self._set(CounterType.REPLAY_INDEX_MIN_SEQUENCE, CounterType.REPLAY_INDEX_MIN_POSITION, entry)

    def set_max(self, entry: IndexEntry | None) -> None:
        """Show the last entry."""
        self._set(CounterType.REPLAY_INDEX_MAX_SEQUENCE, CounterType.REPLAY_INDEX_MAX_POSITION, entry)

    def _set(self, sequence: CounterType, position: CounterType, entry: IndexEntry | None) -> None:
        values = (NULL_VALUE, NULL_VALUE) if entry is None else (entry.sequence, entry.position)
        for kind, value in zip((sequence, position), values, strict=True):
            counter = self._counters.get(kind)
            if counter is not None:
                counter.set(value)
