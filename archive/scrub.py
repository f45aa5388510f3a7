"""The scrubber: reads all recordings in turn and slowly, so that bit rot is found in time.

Found while the other members have it whole, it can be repaired.

A pass goes through all recordings, in steps of at most 64 KiB, and waits after each step as long as the rate demands.
Behind damage it goes on at the next segment; what lies between is read again once `look_again` says that it is mended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import RecordingState
from ordo.archive.segments.cursor import SegmentCursor
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.scan import FrameScanner
from ordo.runtime.errors import CorruptFrameError, StorageError, UnknownRecordingError
from ordo.runtime.native.time_units import SECOND_NS

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.segments.catalog import RecordingDescriptor

STEP_BYTES = 64 * 1024


class Scrubber:
    """The scrubber of one archive. A pass begins `interval_ns` after the last one began; 0 turns it off.

    `on_damage(descriptor, position, error)` is told of every damaged place, once a pass. Positions in bytes.
    """

    def __init__(
        self,
        archive: Archive,
        interval_ns: int,
        bytes_per_second: int,
        on_damage: Callable[[RecordingDescriptor, int, CorruptFrameError | StorageError], None],
    ) -> None:
        self._archive = archive
        self._interval_ns = interval_ns
        self._bytes_per_second = bytes_per_second
        self._on_damage = on_damage
        self._due_ns = 0
        self._pass_began_ns = 0
        self._places: deque[tuple[int, int]] = deque()
        self._recording_id = -1
        self._position = 0
        self._scanner: FrameScanner | None = None
        self._pass_first_byte = 0
        self._pass_length_bytes = 0
        self._damaged: set[tuple[int, int]] = set()
        self.pass_count = 0
        self.scrubbed_bytes = 0
        self.found_count = 0
        """The number of damaged places found; one that is found again in the next pass counts once."""
        self.mended_count = 0
        """The number of those that were read again and are whole."""

    @property
    def progress(self) -> float:
        """The share of the present pass that is done, from 0 to 1; between two passes 1, and 0 before the first one."""
        if self._scanner is None and not self._places:
            return min(float(self.pass_count), 1.0)
        return min((self.scrubbed_bytes - self._pass_first_byte) / max(self._pass_length_bytes, 1), 1.0)

    def damaged_count(self) -> int:
        """Return how many places are damaged now, without those repaired or removed since."""
        self._damaged = {(one, position) for one, position in self._damaged if self._is_there(one, position)}
        return len(self._damaged)

    def _is_there(self, recording_id: int, position: int) -> bool:
        try:
            descriptor = self._archive.descriptor(recording_id)
        except UnknownRecordingError:
            return False
        return bool(descriptor.start_position <= position < self._bound(descriptor))

    def note_replaced(self, recording_ids: Collection[int]) -> None:
        """Count the damage in these recordings as repaired, because other recordings have replaced them."""
        replaced = {place for place in self._damaged if place[0] in recording_ids}
        self._damaged -= replaced
        self.mended_count += len(replaced)

    def look_again(self, recording_id: int, position: int) -> None:
        """Read from `position` on before anything else, because something was repaired there."""
        if self._scanner is not None:
            self._places.appendleft((self._recording_id, self._position))
        self._places.appendleft((recording_id, position))
        self._scanner = None

    def work(self, now_ns: int) -> None:
        """Take one step, if it is due."""
        if self._interval_ns == 0 or now_ns < self._due_ns:
            return
        if self._scanner is None and not self._places and not self._begin_pass(now_ns):
            return
        if self._scanner is None:
            self._recording_id, self._position = self._places.popleft()
        length = self._step()
        self._due_ns = now_ns + length * SECOND_NS // self._bytes_per_second
        if self._scanner is None and not self._places:
            self.pass_count += 1

    def _begin_pass(self, now_ns: int) -> bool:
        """List what there is to read; return False if there is nothing, or it is not time yet."""
        if self.pass_count and now_ns < self._pass_began_ns + self._interval_ns:
            return False
        self._pass_began_ns = now_ns
        found = [one for one in self._archive.recordings() if one.state is RecordingState.VALID]
        self._places.extend((one.recording_id, one.start_position) for one in found)
        self._pass_first_byte = self.scrubbed_bytes
        self._pass_length_bytes = sum(self._bound(one) - one.start_position for one in found)
        self._due_ns = now_ns + SECOND_NS
        return bool(self._places)

    def _step(self) -> int:
        """Read the next frames of a recording; return how many bytes."""
        try:
            descriptor = self._archive.descriptor(self._recording_id)
        except UnknownRecordingError:
            self._scanner = None  # it was purged
            return 0
        start = max(self._position, descriptor.start_position)  # older segments may have been purged
        bound = self._bound(descriptor)
        if start >= bound:
            self._scanner = None
            return 0
        if self._scanner is None:
            self._scanner = FrameScanner(SegmentCursor(self._archive.storage, self._archive.directory, descriptor))
        damage: CorruptFrameError | StorageError | None
        try:
            end, _, damage = self._scanner.run(start, min(start + STEP_BYTES, bound))
        except StorageError as error:
            end, damage = self._scanner.end_position, error
        self._position = end
        self.scrubbed_bytes += end - start
        self._note_whole(start, end)
        if damage is not None:
            self._note_damaged(end)
            self._on_damage(descriptor, end, damage)
            self._position = base_of(descriptor, end) + descriptor.segment_length
        return max(int(end - start), STEP_BYTES if damage else 0)

    def _note_whole(self, start: int, end: int) -> None:
        whole = {one for one in self._damaged if one[0] == self._recording_id and start <= one[1] < end}
        self._damaged -= whole
        self.mended_count += len(whole)

    def _note_damaged(self, position: int) -> None:
        place = self._recording_id, position
        self.found_count += place not in self._damaged
        self._damaged.add(place)

    def _bound(self, descriptor: RecordingDescriptor) -> int:
        """Return the position below which everything must be whole."""
        active = self._archive.recording(descriptor.recording_id)
        return int(descriptor.stop_position if active is None else active.durable_position)
