"""Decides which parts of the log and which snapshots are deleted, and when (docs/ARCHITECTURE.md, A log that forgets).

Never deleted is what is above the newest snapshot that this member and a quorum of voters were seen to hold alike, what
this member needs to start from the oldest snapshot that it keeps, and what a member that is on its way needs.

A durable consumer that is held back for (`consumer_bytes`) needs the log from where it is, and a snapshot at or below
that: it takes from it which requests were executed (ordo.follow.executions), or from the log's very beginning. So that
there is one, whatever the pace of the consumer, a few of those between it and the newest stay as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.state.settings import RetentionSettings
    from ordo.cluster.module.state.state_store import SnapshotEntry

SPARED_PER_CONSUMER_BYTES = 4
"""Snapshots that stay for consumers are about this many to `consumer_bytes` of log, and at most twice as many."""


@dataclass(frozen=True)
class RetentionPolicy:
    """The rules for what is kept.

    The newest `snapshots_kept` snapshots, and at least `log_bytes` or `log_ns` of log, of both where both are given;
    without either the whole log is kept.

    `consumer_bytes` is how much log is kept for durable consumers that lag.
    """

    snapshots_kept: int
    log_bytes: int | None = None
    log_ns: int | None = None
    consumer_bytes: int = 0

    @classmethod
    def of(cls, snapshots_kept: int, settings: RetentionSettings) -> RetentionPolicy:
        log_ns = None if settings.seconds is None else settings.seconds * SECOND_NS
        return cls(snapshots_kept, settings.bytes, log_ns, settings.consumer_bytes)

    @property
    def purges_log(self) -> bool:
        return self.log_bytes is not None or self.log_ns is not None

    def find_bound(self, kept: list[SnapshotEntry], commit_position: int, cluster_time_ms: int) -> int:
        """Log below this position may go as far as the policy goes; `kept` are the snapshots, the newest first."""
        if not self.purges_log or len(kept) < self.snapshots_kept:
            return 0
        bound = kept[self.snapshots_kept - 1].log_position
        if self.log_bytes is not None:
            bound = min(bound, commit_position - self.log_bytes)
        if self.log_ns is not None:
            kept_since_ms = cluster_time_ms - self.log_ns // MILLISECOND_NS
            older = (entry.log_position for entry in kept if time_ms(entry.timestamp) <= kept_since_ms)
            bound = min(bound, max(older, default=0))
        return max(0, bound)

    def find_held(self, held_position: int, commit_position: int) -> int:
        """Return the position from where on the log waits for a durable consumer that has read up to a position."""
        return max(held_position, commit_position - self.consumer_bytes, 0)


class Retention:
    """Applies the policy to one member's disk."""

    def __init__(self, policy: RetentionPolicy, archive: Archive, shelf: SnapshotShelf) -> None:
        self._policy = policy
        self._archive = archive
        self._shelf = shelf
        self._cleared_log_id = NULL_VALUE
        self.held_position: int | None = None
        """A durable consumer has read up to here; -1: there is none; None: the service container has not said yet, for
        it may be loading a long snapshot."""

    def hold(self, log_position: int) -> None:
        """Note up to where the slowest durable consumer has read; -1: there is none."""
        self.held_position = log_position

    def clear(self, recording_id: int) -> None:
        """Delete what no entry names: other logs than this one, once, and what deletions have left over."""
        if self._cleared_log_id != recording_id:
            self._cleared_log_id = recording_id
            self._shelf.clear_logs(recording_id)
        self._shelf.purge_left_over()

    def frees(self, room_bytes: int) -> bool:
        """Return whether another snapshot, which has this much room, would let log go."""
        return self.purges_log and 2 * self._shelf.newest_length_bytes < room_bytes

    def note_service_ready(self) -> None:
        """Note that the service container has loaded its state, and has reported what its consumers need."""
        if self.held_position is None:
            self.held_position = NULL_VALUE

    @property
    def purges_log(self) -> bool:
        """Whether the policy lets any log go."""
        return self._policy.purges_log

    def _find_consumers_start(self, commit_position: int) -> int | None:
        """Return the position of the snapshot that the slowest durable consumer starts from.

        From it the consumer learns what was executed. 0 is the beginning of the log; None where no log has to wait.
        """
        if not self.purges_log or self.held_position is None or self.held_position == NULL_VALUE:
            return None
        held = self._policy.find_held(self.held_position, commit_position)
        return next((one.log_position for one in self._shelf.valid() if one.log_position <= held), 0)

    def _find_spared(self, start: int, bound: int) -> set[int]:
        """Return the positions of snapshots below `bound` that stay for consumers.

        They are `start`, and after it as many as it takes to have one in each part of `consumer_bytes`, so that both
        their number and the log kept are bounded.
        """
        gap = self._policy.consumer_bytes // SPARED_PER_CONSUMER_BYTES
        older = sorted(one.log_position for one in self._shelf.valid() if start <= one.log_position < bound)
        spared = {start}
        last = start
        for position, following in zip(older, [*older, bound][1:], strict=True):
            if following - last > gap:
                spared.add(position)
                last = position
        return spared

    def remove_snapshots(self, agreed_position: int, needed_position: int | None, commit_position: int) -> int:
        """Delete snapshots that are neither among the newest few nor needed by others; return how many."""
        kept = self._shelf.valid()[: self._policy.snapshots_kept]
        if len(kept) < self._policy.snapshots_kept or agreed_position < 0:
            return 0
        if self.purges_log and self.held_position is None:
            return 0
        bounds = [kept[-1].log_position, agreed_position, needed_position]
        bound = min(one for one in bounds if one is not None)
        start = self._find_consumers_start(commit_position)
        spared = set() if start is None else self._find_spared(start, bound)
        return self._shelf.remove_below(bound, spared)

    def find_log_bound(
        self, agreed_position: int, needed_position: int | None, commit_position: int, cluster_time_ms: int
    ) -> int:
        """Return the position below which the log is not needed."""
        if self.held_position is None:
            return 0
        bound = self._policy.find_bound(self._shelf.valid(), commit_position, cluster_time_ms)
        bound = min(bound, agreed_position)
        bounds = [bound, needed_position, self._find_consumers_start(commit_position)]
        return min(one for one in bounds if one is not None)

    def purge_log(self, recording_id: int, bound: int) -> int:
        """Delete whole segment files of the log below a position; return the count of files."""
        descriptor = self._archive.descriptor(recording_id)
        base = self._archive.segment_base(recording_id, max(bound, descriptor.start_position))
        first = self._archive.segment_base(recording_id, descriptor.start_position)
        if base <= first:
            return 0
        try:
            return int(self._archive.purge_segments(recording_id, base))
        except ArchiveError:
            return 0  # a member is being given that part: it goes later
