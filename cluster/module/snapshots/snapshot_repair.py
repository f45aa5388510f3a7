"""Replaces a damaged snapshot of this member by another member's copy, while the member runs.

    the scrubber finds damage in a recording of a snapshot -> another member reports the same snapshot -> this one
    counts no more as whole -> it is fetched from there -> its recordings take the place of the damaged ones

What no other member holds stays as it is: the next snapshot replaces it, and a start that meets it uses an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
from ordo.runtime.errors import CorruptFrameError, StorageError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_fetch import FetchedSnapshot, SnapshotFetch
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.cluster.module.state.state_store import SnapshotEntry

SILENCE_NS = 5_000_000_000
"""Members report once a second; one that was silent for so long is not asked."""


class SnapshotRepairHost(Protocol):
    """What replacing a snapshot needs of its member."""

    def announce(self, event: str, text: str) -> None: ...


class SnapshotRepair:
    """The snapshots of one member that are to be replaced."""

    def __init__(self, host: SnapshotRepairHost, shelf: SnapshotShelf, reports: SnapshotReports, own_id: int) -> None:
        self._host = host
        self._shelf = shelf
        self._reports = reports
        self._own_id = own_id
        self._damaged: dict[int, tuple[SnapshotEntry, bool]] = {}
        """Keyed by log position: the entry, and whether its content was read and is wrong."""
        self._fetching_position = NULL_VALUE
        self._attempts = 0
        self.repaired_count = 0

    def on_damage(self, recording_id: int, error: CorruptFrameError | StorageError) -> None:
        """Note that a recording is damaged, which may be a snapshot's."""
        entry = self._shelf.find_recording(recording_id)
        if entry is not None and entry.log_position not in self._damaged:
            self._damaged[entry.log_position] = entry, isinstance(error, CorruptFrameError)

    def work(self, fetch: SnapshotFetch, leader_id: int, now_ns: int, *, is_free: bool) -> None:
        """Advance the replacement; `is_free`: nothing else needs the fetch or the endpoint for catch-ups.

        A fetch under way for this is abandoned when something else needs them.
        """
        if not is_free:
            if self._fetching_position != NULL_VALUE and fetch.position == self._fetching_position:
                fetch.abandon()
            self._fetching_position = NULL_VALUE
        elif self._damaged and not fetch.is_under_way:
            self._fetch_oldest(fetch, leader_id, now_ns)

    def _fetch_oldest(self, fetch: SnapshotFetch, leader_id: int, now_ns: int) -> None:
        position = min(self._damaged)
        entry, is_wrong = self._damaged[position]
        wanted = self._shelf.describe(entry)
        if wanted is None:
            del self._damaged[position]  # deleted, or replaced by a new one
            return
        holders = [one for one in self._reports.holders(wanted, now_ns - SILENCE_NS) if one != self._own_id]
        if not holders:
            return
        holders.sort(key=leader_id.__eq__)  # the leader last: it has enough to do
        if is_wrong:
            self._shelf.condemn(entry)
        if fetch.begin(wanted, holders[self._attempts % len(holders)], now_ns):
            self._fetching_position = position
            self._attempts += 1

    def install(self, fetched: FetchedSnapshot) -> list[int]:
        """Put a fetched snapshot in the place of a damaged one.

        Return the recordings it replaces, or none if it is not for that.
        """
        position = fetched.entry.log_position
        if position != self._fetching_position:
            return []
        self._fetching_position = NULL_VALUE
        entry, _ = self._damaged.pop(position)
        if self._shelf.describe(entry) != HeldSnapshot(position, fetched.digest):
            self._shelf.drop(fetched.entry)
            return []
        self._shelf.add(fetched.entry, fetched.digest)
        self.repaired_count += 1
        self._host.announce("cluster.snapshot-mended", f"replaced the damaged snapshot at log position {position}")
        return [*entry.recording_ids]
