"""The index of a member's log, looked into, compared with the whole log, and built anew out of it (docs/LOG.md)."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, noted_position
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.log_index.entries import FILE_NAME, SPACING_BYTES
from ordo.cluster.wire.log_index.index import LogIndex
from ordo.cluster.wire.log_index.walk import checksum
from ordo.cluster.wire.log_index.writer import IndexWriter
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.debugging.replaying.recorded_log import CLUSTER
from ordo.follow.executions import Executions
from ordo.runtime.errors import ClusterError, ConfigurationError, DecodeError

if TYPE_CHECKING:
    from pathlib import Path

    from ordo.archive.segments.reader import RecordedMessage
    from ordo.debugging.replaying.recorded_log import RecordedLog
    from ordo.runtime.sbe import Message

_TEMPLATE = slice(2, 6)
_TIMESTAMP = struct.Struct("<q")
_TIMESTAMP_AT = 24


def _template(message: Message) -> bytes:
    return struct.pack("<HH", message.template_id, message.schema_id)


_MESSAGES = frozenset(map(_template, (codecs.SESSION_MESSAGE_HEADER, ordo_codecs.REQUEST, ordo_codecs.ARRIVED_REQUEST)))
_RENUMBERING = frozenset(map(_template, (codecs.CLUSTER_ACTION_REQUEST, ordo_codecs.LEVEL_EVENT)))


class IndexedStretch(NamedTuple):
    """What an index covers: the entries, and the positions and numbers of the first and the last one."""

    entry_count: int
    first_position: int
    last_position: int
    first_sequence: int
    last_sequence: int


def index_path(log: RecordedLog) -> Path:
    """Return where the index of a member's log is. Raises ConfigurationError for a folder that is no member's."""
    folder = log.path / CLUSTER
    if not folder.is_dir():
        raise ConfigurationError(f"{log.path}: only the folder of a member (its data_dir) has an index of the log")
    return folder / FILE_NAME


def open_index(log: RecordedLog) -> LogIndex:
    """Open the index of a member's log, whether the member runs or not."""
    return LogIndex(
        str(index_path(log)),
        log.descriptor.recording_id,
        lambda position: log.reader(log.start if position is None else position),
        walk_bytes_max=1 << 62,
    )


def describe_index(index: LogIndex) -> IndexedStretch:
    """Return what an index covers. Raises IndexFault where an entry is damaged."""
    first = last = None
    count = 0
    for last in index.entries():
        first = first or last
        count += 1
    if first is None or last is None:
        return IndexedStretch(0, 0, 0, 0, 0)
    return IndexedStretch(count, first.position, last.position, first.sequence, last.sequence)


def check_index(log: RecordedLog, service_id: int = 0) -> int:
    """Compare every place with the log, and those at snapshots with these; return how many there are.

    Raises IndexFault at the first that differs.
    """
    known: dict[int, int] = {}
    for entry in log.snapshots:
        snapshot = container_snapshot.decode(iter(log.load(entry, service_id).messages))
        if snapshot.sequence >= 0:
            known[entry.log_position] = snapshot.sequence
    return open_index(log).check(known)


def build_index(log: RecordedLog) -> IndexedStretch:
    """Build the index of a stopped member's log anew, from the oldest place where numbers are known.

    Raises StorageInUseError while the member runs, ClusterError where nobody knows numbers.
    """
    path = index_path(log)
    fresh = path.with_suffix(".new")
    with log.storage.lock_directory(str(log.path)):
        with suppress(FileNotFoundError):
            fresh.unlink()
        writer = IndexWriter(str(fresh), _raise)
        try:
            _IndexBuilder(log, writer).run()
        finally:
            writer.close()
        os.replace(fresh, path)
    return describe_index(open_index(log))


def _raise(error: Exception) -> None:
    raise error


class _IndexBuilder:
    """Executes the log as far as numbers need it, and writes places. Its memory does not grow with the log."""

    def __init__(self, log: RecordedLog, writer: IndexWriter) -> None:
        self._log = log
        self._writer = writer
        self._executions, self._position, self._time = self._find_beginning()
        self._next = self._position

    def _find_beginning(self) -> tuple[Executions, int, int]:
        log = self._log
        if log.start == 0:
            return Executions(numbers=True), 0, 0
        for entry in log.snapshots:
            snapshot = container_snapshot.decode(iter(log.load(entry, 0).messages))
            return Executions(snapshot, numbers=True), entry.log_position, entry.timestamp
        raise ClusterError(
            f"{log.path}: the log begins at position={log.start}, and there is no snapshot to count from"
        )

    def run(self) -> None:
        log, writer = self._log, self._writer
        writer.begin(
            log.descriptor.recording_id,
            self._position,
            lambda position: log.reader(log.start if position is None else position),
        )
        for record in log.records(self._position, self._find_end()):
            self._take(record)

    def _find_end(self) -> int:
        """Return up to where the log is known to be committed: what a member has behind that may be truncated."""
        noted = noted_position(self._log.path / CLUSTER / COMMIT_NOTE_NAME)
        return min(self._log.end, noted) if noted > self._position else self._log.end

    def _take(self, record: RecordedMessage) -> None:
        counts, payload = self._executions.sequence, record.payload
        template = payload[_TEMPLATE]
        if self._position >= self._next:
            self._next = self._position + SPACING_BYTES
            self._writer.note_place(
                self._position,
                counts.last,
                self._time,
                checksum(payload),
                is_counting=counts.is_counting,
                is_kept=counts.is_kept,
            )
        before = counts.last
        self._executions.note(record.position, payload)
        self._position, self._time = record.position, max(self._time, _time_of(payload, template))
        if template in _MESSAGES and counts.is_counting and counts.last == before:
            self._writer.note_unnumbered(record.position, before, self._time)
        elif template in _RENUMBERING:
            self._next = self._position


def _time_of(payload: bytes, template: bytes) -> int:
    """Return the time stamp of a record; -1 if it has none."""
    if template in _MESSAGES:
        return int(_TIMESTAMP.unpack_from(payload, _TIMESTAMP_AT)[0])
    try:
        found = ordo_codecs.decode_any(payload)
    except DecodeError:
        return -1
    return -1 if found is None else getattr(found[1], "timestamp", -1)
