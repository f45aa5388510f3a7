"""The logs of all members as they are on disk, read record by record and only once, for the invariants that compare."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from cluster import ordo_codecs
from cluster.membership import decode_configuration
from consensus.configuration import Configuration
from runtime.errors import CorruptFrameError, OrdoError

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode

SESSION_TERM_OFFSET = 8
SCHEMA_OFFSET = 4


class Entry(NamedTuple):
    """`position` is after the record; `chain` is a hash over the log up to here, of this process alone."""

    position: int
    term_id: int
    chain: int


class LogCopy:
    """The durable log of one member."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._life = 0
        self.entries: list[Entry] = []
        self.positions: list[int] = []
        self.configurations: list[tuple[int, Configuration]] = []

    def chain_at(self, position: int) -> int | None:
        """The hash at a position where a record ends; None when none ends there."""
        index = bisect_right(self.positions, position) - 1
        if index < 0 or self.positions[index] != position:
            return None
        return self.entries[index].chain

    @property
    def is_read(self) -> bool:
        """Whether all of the member's log is here: what is damaged cannot be read."""
        end = self.positions[-1] if self.positions else 0
        return end == self._node.append_position

    def cut(self, position: int) -> None:
        """Forgets what lies behind a position."""
        count = bisect_right(self.positions, position)
        del self.entries[count:], self.positions[count:]
        self.configurations = [row for row in self.configurations if row[0] <= position]

    def note_end(self, position: int) -> None:
        """The log ends here now: where it has become shorter, what comes next is new."""
        if self.positions and self.positions[-1] > position:
            self.cut(position)

    def refresh(self) -> None:
        """Reads on to the append position of a live member. A truncated or damaged log is read anew."""
        node = self._node
        if node.node is None or node.log_recording_id < 0:
            return
        end = node.append_position
        if self._life != node.boots:
            self._life = node.boots
            self.cut(0)
        self.note_end(end)
        start = self.positions[-1] if self.positions else 0
        if start >= end:
            return
        try:
            with node.readable_disk():
                self._read(start, end)
        except CorruptFrameError as error:
            if not node.is_rotten:
                node.world.fail(f"{node.name}: damage that nobody made: {error}")
        except OrdoError as error:
            node.world.fail(f"{node.name}: its log cannot be read: {error}")

    def _read(self, start: int, end: int) -> None:
        assert self._node.node is not None
        reader = self._node.node.archive.reader(self._node.log_recording_id, start)
        chain = self.entries[-1].chain if self.entries else 0
        for message in reader.messages(end):
            chain = hash((chain, message.payload))
            term_id = _term_of(message.payload)
            self.entries.append(Entry(message.position, term_id, chain))
            self.positions.append(message.position)
            found = ordo_codecs.decode(message.payload) if _is_of_ordo(message.payload) else None
            if found is not None and found[0] is ordo_codecs.CONFIGURATION_EVENT:
                self.configurations.append((message.position, decode_configuration(found[1]).ids()))


def _is_of_ordo(record: bytes) -> bool:
    """Whether the header names the schema of Ordo's own records."""
    return int.from_bytes(record[SCHEMA_OFFSET : SCHEMA_OFFSET + 2], "little") == ordo_codecs.SCHEMA_ID


def _term_of(record: bytes) -> int:
    """Every record of a cluster's log has its term id first."""
    return int.from_bytes(record[SESSION_TERM_OFFSET : SESSION_TERM_OFFSET + 8], "little", signed=True)
