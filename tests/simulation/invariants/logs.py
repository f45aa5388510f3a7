"""The logs of all members as they are on disk, read record by record and only once, for the invariants that compare."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.configuration import decode_configuration
from ordo.consensus.state.configuration import Configuration
from ordo.runtime.errors import CorruptFrameError, OrdoError, StorageError

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordingReader
    from ordo.cluster.wire import records
    from tests.simulation.nodes import SimulatedNode

_HEAD = struct.Struct("<2xHHxxq")
"""Of every record of a cluster's log: template id and schema id of its header, then the term id, which comes first."""
_ACTION_TEMPLATE_ID = codecs.CLUSTER_ACTION_REQUEST.template_id
_SEQUENCED_TEMPLATE_IDS = {
    message.template_id
    for message in (
        codecs.SESSION_OPEN_EVENT, codecs.SESSION_CLOSE_EVENT, codecs.SESSION_MESSAGE_HEADER, codecs.TIMER_EVENT
    )
}  # fmt: skip


class Entry(NamedTuple):
    """`position` is after the record; `chain` is a hash over the log up to here, of this process alone; None where the
    log begins above 0 and what was before is not known."""

    position: int
    leadership_term_id: int
    chain: int | None


class LogCopy:
    """The durable log of one member."""

    def __init__(self, node: SimulatedNode, known_chains: dict[int, int]) -> None:
        """`known_chains`: hashes of the committed log by position, for a log of which the beginning is gone."""
        self._node = node
        self._known_chains = known_chains
        self.start_position = 0
        self._life = 0
        self._end = 0
        self._reader: RecordingReader | None = None
        self.entries: list[Entry] = []
        self.positions: list[int] = []
        self.configurations: list[tuple[int, Configuration]] = []
        self.suspensions: list[tuple[int, bool]] = []
        self.snapshot_orders: list[tuple[int, int]] = []
        """Behind each, and its flags."""
        self.clocks: list[tuple[int, records.ClockEvent]] = []

    def ends_at(self, position: int) -> bool:
        """Whether a record ends there."""
        index = bisect_right(self.positions, position) - 1
        return index >= 0 and self.positions[index] == position

    def chain_at(self, position: int) -> int | None:
        """The hash at a position where a record ends, if it is known."""
        index = bisect_right(self.positions, position) - 1
        return self.entries[index].chain if self.ends_at(position) else None

    @property
    def is_read(self) -> bool:
        """Whether all of the member's log is here: what is damaged cannot be read."""
        end = self.positions[-1] if self.positions else self.start_position
        return end == self._node.append_position

    def cut(self, position: int) -> None:
        """Forgets what lies behind a position."""
        self._reader = None
        count = bisect_right(self.positions, position)
        del self.entries[count:], self.positions[count:]
        self.configurations = [row for row in self.configurations if row[0] <= position]
        self.suspensions = [row for row in self.suspensions if row[0] <= position]
        self.snapshot_orders = [row for row in self.snapshot_orders if row[0] <= position]
        self.clocks = [row for row in self.clocks if row[0] <= position]

    def note_end(self, position: int) -> None:
        """The log ends here now: where it has become shorter, what comes next is new, also behind part of a message."""
        if self._end > position:
            self.cut(position)
        self._end = position

    def refresh(self) -> None:
        """Reads on to the append position of a live member. A truncated or damaged log is read anew."""
        node = self._node
        if node.node is None or node.log_recording_id < 0:
            return
        end = node.append_position
        if self._life != node.boots or self._was_purged():
            self._life = node.boots
            self.cut(0)
            self.start_position = self._find_start()
        self.note_end(end)
        start = self.positions[-1] if self.positions else self.start_position
        if start >= end:
            return
        try:
            with node.readable_disk():
                self._read(start, end)
        except (CorruptFrameError, StorageError) as error:
            self._reader = None
            if not node.is_rotten:
                node.world.fail(f"{node.name}: damage that nobody made: {error}")
        except OrdoError as error:
            self._reader = None
            node.world.fail(f"{node.name}: its log cannot be read: {error}")

    def _was_purged(self) -> bool:
        """Whether what is to be read next is deleted: it was damaged when its turn came, and not mended before."""
        end = self.positions[-1] if self.positions else self.start_position
        return self._reader is None and end < self._find_start()

    def _find_start(self) -> int:
        node = self._node.node
        assert node is not None
        with self._node.readable_disk():
            return int(node.archive.descriptor(self._node.log_recording_id).start_position)

    def _read(self, start: int, end: int) -> None:
        node = self._node.node
        assert node is not None
        if self._reader is None:
            self.start_position = self.start_position if self.entries else self._find_start()
            self._reader = node.archive.reader(self._node.log_recording_id, max(start, self.start_position))
        chain = self.entries[-1].chain if self.entries else None if self.start_position else 0
        for message in self._reader.messages(end):
            position, payload = message.position, message.payload
            chain = self._known_chains.get(position) if chain is None else hash((chain, payload))
            template_id, schema_id, leadership_term_id = _HEAD.unpack_from(payload)
            self.entries.append(Entry(position, leadership_term_id, chain))
            self.positions.append(position)
            if schema_id == ordo_codecs.SCHEMA_ID:
                self._look_at_own(position, payload)
            elif template_id == _ACTION_TEMPLATE_ID:
                self._look_at_action(position, payload)
            elif template_id in _SEQUENCED_TEMPLATE_IDS and self.is_suspended_at(position):
                self._node.world.fail(f"{self._node.name}: a record at {position} of a suspended cluster")

    def is_suspended_at(self, position: int) -> bool:
        """Whether the newest order up to there is to suspend (cluster-consensus.md §19)."""
        return next((is_suspended for at, is_suspended in reversed(self.suspensions) if at <= position), False)

    def _look_at_action(self, position: int, record: bytes) -> None:
        found = codecs.CLUSTER_ACTION_REQUEST.decode(record)
        if found.action in (codecs.ClusterAction.SUSPEND, codecs.ClusterAction.RESUME):
            self.suspensions.append((position, found.action == codecs.ClusterAction.SUSPEND))
        else:
            self.snapshot_orders.append((position, found.flags))

    def _look_at_own(self, position: int, record: bytes) -> None:
        found = ordo_codecs.decode(record)
        if found is not None and found[0] is ordo_codecs.CONFIGURATION_EVENT:
            self.configurations.append((position, decode_configuration(found[1]).ids()))
        elif found is not None and found[0] is ordo_codecs.CLOCK_EVENT:
            self.clocks.append((position, found[1]))
