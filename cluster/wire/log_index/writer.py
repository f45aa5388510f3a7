"""Writes a log's index as the log is executed.

Only what is executed is indexed, hence only what is committed, which is never truncated. The file is not synced: after
a loss of power it may end earlier, or in damage, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable

from ordo.archive.segments.reader import RecordingReader
from ordo.cluster.wire.log_index.entries import UNNUMBERED_MAX, EntryFlag, EntryType, IndexEntry
from ordo.cluster.wire.log_index.index_counters import IndexCounters
from ordo.cluster.wire.log_index.index_file import IndexFile
from ordo.cluster.wire.log_index.walk import first_checksum
from ordo.runtime.errors import OrdoError

PLACES_BETWEEN_LOOKS = 64
"""So often it is looked again from where on there is log."""
LET_GO_MIN = 16384
"""So many entries without log, and no fewer than half of all, are dropped before the next start."""
OpenLog = Callable[[int | None], RecordingReader]
"""A reader of the log from a position; None: from where it begins."""


class IndexWriter:
    """The one writer of the file. It fails alone: what it cannot write it tells once, and writes no more."""

    def __init__(self, path: str, on_error: Callable[[Exception], object]) -> None:
        self._path = path
        self._on_error = on_error
        self._file: IndexFile | None = None
        self._unnumbered: list[IndexEntry] = []
        self._has_gap = False
        self._places_until_look = 0
        self._shown: IndexCounters | None = None
        self._open_log: OpenLog | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def last(self) -> IndexEntry | None:
        """The last entry of the file."""
        return None if self._file is None else self._file.last

    def begin(self, recording_id: int, position: int, open_log: OpenLog, shown: IndexCounters | None = None) -> None:
        """Go on with the file behind the last place that is of this log; begin it anew where none is.

        `position`: of the log, from where on entries come. `shown`: where it is shown what the file covers.
        """
        self._shown, self._open_log = shown, open_log
        self._unnumbered.clear()
        try:
            self._file = IndexFile(self._path, recording_id)
            self._file.cut(_count_agreed(self._file, open_log))
            self._look(let_go_min=1)
        except OSError as error:
            self._fail(error)
            return
        self._has_gap = self.last is None or self.last.position < position

    def note_place(
        self, position: int, sequence: int, timestamp: int, record_checksum: int, *, is_counting: bool, is_kept: bool
    ) -> None:
        """Note where a record begins, with the last number and the newest time before it."""
        file, last = self._file, self.last
        if file is None or (last is not None and (position, EntryType.PLACE) <= (last.position, last.type)):
            return
        flags = EntryFlag(0)
        if self._has_gap:
            flags |= EntryFlag.BEGINS
        if is_kept:
            flags |= EntryFlag.KEPT
        if not is_counting:
            flags |= EntryFlag.UNCOUNTED
        number = sequence if last is None else max(sequence, last.sequence)
        place = IndexEntry(position, number, timestamp, record_checksum, 0, EntryType.PLACE, flags)
        try:
            file.append([*self._unnumbered, place])
            self._show_place()
        except OSError as error:
            self._fail(error)
            return
        self._unnumbered.clear()
        self._has_gap = False

    def note_unnumbered(self, position: int, sequence: int, timestamp: int) -> None:
        """Note where a message ends that has no number. It is written with the next place.

        Where there are too many, nothing is known of the log up to there.
        """
        last = self._unnumbered[-1] if self._unnumbered else self.last
        if self._file is None or self._has_gap or last is None or position <= last.position:
            return
        if len(self._unnumbered) == UNNUMBERED_MAX:
            self._unnumbered.clear()
            self._has_gap = True
            return
        number = max(sequence, last.sequence)
        self._unnumbered.append(IndexEntry(position, number, timestamp, 0, 0, EntryType.UNNUMBERED, EntryFlag(0)))

    def _show_place(self) -> None:
        file = self._file
        assert file is not None
        self._places_until_look -= 1
        if self._places_until_look <= 0:
            self._look(let_go_min=max(LET_GO_MIN, file.count // 2))
        elif self._shown is not None:
            self._shown.set_max(file.last)

    def _look(self, let_go_min: int) -> None:
        """Let entries go whose log is gone, if there are enough of them, and show what the file covers.

        The last place without log remains: it vouches for the next one.
        """
        file = self._file
        assert file is not None and self._open_log is not None
        self._places_until_look = PLACES_BETWEEN_LOOKS if file.count else 0
        try:
            start_position = self._open_log(None).start_position
        except OrdoError:  # its readers find out what is wrong with it
            return
        first = file.first_from(start_position)
        gone = file.place_up_to(first - 1)
        if gone >= let_go_min:
            try:
                file.let_go(gone)
            except OSError:  # no room for the copy: the next look tries again, and the file is whole as it is
                return
            first -= gone
        if self._shown is not None:
            self._shown.set_initial(file.read(0) if file.count else None)
            self._shown.set_min(file.read(first) if first < file.count else None)
            self._shown.set_max(file.last)

    def _fail(self, error: OSError) -> None:
        """Give up: readers find an index that ends here, which the next start goes on with."""
        self.close()
        self._on_error(OrdoError(f"the log's index {self._path} is not written any more: {error}"))

    def close(self) -> None:
        """Close the file. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _count_agreed(file: IndexFile, open_log: OpenLog) -> int:
    """Return how many entries there are up to the last place whose record the log has; 0 where none tells.

    A log that ends earlier than its index was cut, and may have gone on with other records: what agrees comes first.
    """
    try:
        start_position = open_log(None).start_position
    except OrdoError:
        return 0
    low, high = 0, file.count
    while low < high:
        middle = (low + high) // 2
        at = file.place_up_to(middle)
        if at < low or _agrees(file.read(at), start_position, open_log):
            low = middle + 1
        else:
            high = at
    last = file.place_up_to(low - 1)
    return last + 1 if last >= 0 and file.read(last).position >= start_position else 0


def _agrees(entry: IndexEntry, start_position: int, open_log: OpenLog) -> bool:
    """Return whether the log has a place's record there; where it is let go, later places tell."""
    if entry.position < start_position:
        return True
    try:
        return first_checksum(open_log(entry.position)) == entry.record_checksum
    except OrdoError:  # the log does not reach it, or no record begins there
        return False
