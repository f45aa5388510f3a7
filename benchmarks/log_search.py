"""How long a member looks for a number, or for a time, in a long log: `python -m benchmarks.log_search --gib 100`.

The log is sparse, or it would take as much disk: each of its terms has real records where the search looks, and one
frame of padding behind them. Its index is whole: it has as many entries, with the same numbers and times, as that of a
log whose terms are full of such records. A search is what a member does for a reader: it opens the index, looks in it,
compares what it says with the records of the log back to the place before, and walks to the record.

Warm: files are in the page cache. Cold: index and segment are dropped from it before each search.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.segments import segment_base_position, segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.bench.machine import describe_machine
from ordo.cluster.wire.log_index.entries import FILE_NAME, EntryFlag, EntryType, IndexEntry
from ordo.cluster.wire.log_index.index import LogIndex
from ordo.cluster.wire.log_index.index_file import IndexFile
from ordo.cluster.wire.log_index.walk import first_checksum
from ordo.pipeline.decoding.synthetic import RecordingWriter
from ordo.pipeline.generate import RecordingBuilder
from ordo.runtime.io.storage import FileStorage

TERM_BYTES, SEGMENT_BYTES = 64 << 20, 128 << 20
PAYLOAD_BYTES, FRAME_BYTES = 256, 320
MESSAGES_PER_PLACE = 410  # 128 KiB of log, as members have it
STRETCH_MESSAGES = 4 * MESSAGES_PER_PLACE
PLACES_PER_TERM = TERM_BYTES // (MESSAGES_PER_PLACE * FRAME_BYTES)
MESSAGES_PER_MS = 100
BEGIN_MS = 1_700_000_000_000


class SparseLog:
    """A log of so many terms, and its index."""

    def __init__(self, folder: Path, terms: int) -> None:
        self.folder, self.terms = folder, terms
        self.storage = FileStorage(open_lmdb)
        with RecordingBuilder(
            str(folder), term_length=TERM_BYTES, segment_length=SEGMENT_BYTES, initial_term_id=0, stopped=False
        ) as builder:
            self.descriptor = builder.descriptor
        for term in range(terms):
            self._write_term(term)
        self.index_path = folder / FILE_NAME
        file = IndexFile(str(self.index_path), self.descriptor.recording_id)
        try:
            for term in range(terms):
                file.append(self._places(term))
        finally:
            file.close()
        with self.index_path.open("rb") as written:
            os.fsync(written.fileno())

    @staticmethod
    def first_of(term: int) -> int:
        """How many messages are before a term."""
        return term * PLACES_PER_TERM * MESSAGES_PER_PLACE

    @staticmethod
    def begin_ms(term: int) -> int:
        """The time of the first message of a term."""
        return BEGIN_MS + SparseLog.first_of(term) // MESSAGES_PER_MS

    def open(self, position: int | None) -> RecordingReader:
        """Open a reader of the log from a position; None: from where it begins."""
        return RecordingReader(self.storage, str(self.folder), self.descriptor, position)

    def segment_path(self, position: int) -> Path:
        base = segment_base_position(0, position, TERM_BYTES, SEGMENT_BYTES)
        return self.folder / segment_name(self.descriptor.recording_id, base)

    def _write_term(self, term: int) -> None:
        begin, parts = term * TERM_BYTES, bytearray()
        writer = RecordingWriter(lambda _, data: parts.extend(data[:kept]), TERM_BYTES, position=begin)
        kept = STRETCH_MESSAGES * FRAME_BYTES
        writer.append_messages(
            STRETCH_MESSAGES, 0, 1, 100, self.begin_ms(term), 1, MESSAGES_PER_MS, PAYLOAD_BYTES, PAYLOAD_BYTES, term
        )
        writer.flush()
        kept = 32  # the head of the frame of padding: zeros follow
        writer.append_padding(TERM_BYTES - STRETCH_MESSAGES * FRAME_BYTES)
        writer.flush()
        path = self.segment_path(begin)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(SEGMENT_BYTES)
            file.seek(begin % SEGMENT_BYTES)
            file.write(parts)
            file.flush()
            os.fsync(file.fileno())

    def _places(self, term: int) -> Iterator[IndexEntry]:
        for place in range(PLACES_PER_TERM):
            messages = place * MESSAGES_PER_PLACE
            position = term * TERM_BYTES + messages * FRAME_BYTES
            before_ms = self.begin_ms(term) + (messages - 1) // MESSAGES_PER_MS if messages else self.begin_ms(term)
            crc = first_checksum(self.open(position)) if messages < STRETCH_MESSAGES else 0
            flags = EntryFlag.BEGINS if position == 0 else 0
            ordinal = term * PLACES_PER_TERM + place
            yield IndexEntry(
                position, self.first_of(term) + messages, before_ms, crc, ordinal, EntryType.PLACE, int(flags)
            )


class Figures(NamedTuple):
    """Milliseconds of searches."""

    p50: float
    p99: float

    @classmethod
    def of(cls, taken_ns: list[int]) -> Figures:
        ordered = sorted(taken_ns)
        return cls(ordered[len(ordered) // 2] / 1e6, ordered[len(ordered) * 99 // 100] / 1e6)


def _drop(path: Path) -> None:
    """Drop a file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _measure(log: SparseLog, searches: int, is_cold: bool, search: Callable[[LogIndex, int, int], None]) -> Figures:
    """Search so often, each time for a message between the second and the third place of some term."""
    index = LogIndex(str(log.index_path), log.descriptor.recording_id, log.open)
    chosen, taken = random.Random(7), []
    for _ in range(searches):
        term, message = chosen.randrange(log.terms), chosen.randrange(MESSAGES_PER_PLACE, 2 * MESSAGES_PER_PLACE)
        if is_cold:
            _drop(log.index_path)
            _drop(log.segment_path(term * TERM_BYTES))
        begin = time.perf_counter_ns()
        search(index, term, message)
        taken.append(time.perf_counter_ns() - begin)
    return Figures.of(taken)


def _find_number(index: LogIndex, term: int, message: int) -> None:
    found = index.find_sequence(SparseLog.first_of(term) + message + 1)
    assert found == term * TERM_BYTES + message * FRAME_BYTES, found


def _find_time(index: LogIndex, term: int, message: int) -> None:
    first = -(-message // MESSAGES_PER_MS) * MESSAGES_PER_MS  # the first one of a millisecond
    found = index.find_time(SparseLog.begin_ms(term) + first // MESSAGES_PER_MS, 1 << 62)
    assert found == term * TERM_BYTES + first * FRAME_BYTES, found


def run(folder: Path, gib: float, searches: int) -> dict[str, Figures]:
    """Return the figures of each kind of search."""
    log = SparseLog(folder, max(1, round(gib * (1 << 30) / TERM_BYTES)))
    kinds = {"number": _find_number, "time": _find_time}
    return {
        f"{kind}, {'cold' if is_cold else 'warm'}": _measure(log, searches, is_cold, search)
        for kind, search in kinds.items()
        for is_cold in (False, True)
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_search", description="Searches in a long log.")
    parser.add_argument("--gib", type=float, default=100.0, help="GiB of log (default 100)")
    parser.add_argument("--searches", type=int, default=1000, help="searches of each kind (default 1000)")
    parser.add_argument("--folder", default=None, help="where the sparse log is made (default: for temporary files)")
    options = parser.parse_args(arguments)
    if options.gib <= 0 or options.searches < 1:
        parser.error("--gib and --searches must be above 0")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        figures = run(Path(folder), options.gib, options.searches)
        index_bytes = (Path(folder) / FILE_NAME).stat().st_size
    print(f"{describe_machine()['processor']}; load {os.getloadavg()[0]:.1f}")
    print(f"{options.gib:g} GiB of log, {index_bytes / (1 << 20):.1f} MiB of index, {options.searches} searches each")
    for kind, found in figures.items():
        print(f"  {kind:14} p50 {found.p50:7.3f} ms   p99 {found.p99:7.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
