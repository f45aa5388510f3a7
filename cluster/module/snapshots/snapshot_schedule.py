"""Decides when the leader takes a snapshot by itself: after a given amount of log, or of time, since the last one.

The decision is the leader's; the snapshot itself is an order in the log, which every member carries out at the same
record (cluster-consensus.md §16.1). What counts is the order, not whether it was a success, so that a service that
cannot take snapshots is not asked again and again. One that a member cannot go on without is ordered until a quorum has
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.time_units import MILLISECOND_NS

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.copy_orders import CopyOrders
    from ordo.cluster.module.snapshots.retention import Retention
    from ordo.cluster.module.state.host import TermHost
    from ordo.sequencer.sequencer import Sequencer

AGAIN_NS = 20_000 * MILLISECOND_NS
"""A snapshot that is needed is ordered again after so long: the copies that wrote the last one may have died."""


class SnapshotSchedule:
    """Orders snapshots; 0 for `every_bytes` or `every_ns` switches that condition off."""

    def __init__(self, every_bytes: int, every_ns: int, ask: Callable[[], bool]) -> None:
        """Take the limits; `ask` orders a snapshot, and returns False while the cluster is busy with something else."""
        self._every_bytes = every_bytes
        self._every_ms = every_ns // MILLISECOND_NS
        self._ask = ask
        self.last_position = 0
        """The end of the log at the newest order."""
        self._last_ms = 0

    def note(self, log_position: int, cluster_time_ms: int) -> None:
        """Note that an order to take a snapshot was executed, or that the member started from a snapshot."""
        self.last_position = log_position
        self._last_ms = cluster_time_ms

    def work(self, commit_position: int, cluster_time_ms: int) -> None:
        """Order a snapshot when one is due; for the serving leader.

        An idle cluster, where nothing is logged, takes none.
        """
        grown_bytes = commit_position - self.last_position
        if grown_bytes <= 0:
            return
        if self._last_ms == 0:
            self._last_ms = cluster_time_ms
        is_due = 0 < self._every_bytes <= grown_bytes
        is_time = 0 < self._every_ms <= cluster_time_ms - self._last_ms
        if is_due or is_time:
            self._ask()


class ReportedClock(Protocol):
    """What the leader writes of its clock, behind whatever makes the log grow (ClockReports)."""

    def is_all_between(self, begin_position: int, end_position: int) -> bool: ...


class SnapshotOrders:
    """Orders the snapshots of one member while it leads."""

    def __init__(
        self,
        host: TermHost,
        sequencer: Sequencer,
        schedule: SnapshotSchedule,
        retention: Retention,
        clock: ReportedClock,
        copies: CopyOrders,
    ) -> None:
        self._host = host
        self._sequencer = sequencer
        self._schedule = schedule
        self._retention = retention
        self._clock = clock
        self._copies = copies

    def work(self, now_ns: int) -> None:
        """Order a snapshot when one is due."""
        self._copies.work(now_ns)
        if self._host.is_leader and self._copies.takes_over:
            self._copies.order()
        elif self._host.is_leader and self._has_grown():
            self._schedule.work(self._sequencer.commit_position, time_ms(self._host.cluster_time))

    def order_early(self, room_bytes: int) -> None:
        """Order a snapshot of the members, as a leader short of room, so that retention can delete log."""
        is_behind = self._sequencer.commit_position > self._schedule.last_position
        if is_behind and self._has_grown() and self._retention.frees(room_bytes):
            self._copies.order_own()

    def _has_grown(self) -> bool:
        """Return whether there is more behind the last order than the report of the clock that followed it.

        Such a report calls for no snapshot: the next would be followed by another report, and so on for ever.
        """
        return not self._clock.is_all_between(self._schedule.last_position, self._sequencer.commit_position)

    def note(self, log_position: int, cluster_time_ms: int, *, is_copied: bool = False) -> None:
        """Note that an order to take a snapshot was executed, or that the member started from a snapshot.

        `is_copied`: standbys were ordered to, for the members.
        """
        if is_copied:
            self._copies.note(log_position)
        if self._copies.is_on or not is_copied:
            self._schedule.note(log_position, cluster_time_ms)


class NeededSnapshot:
    """Orders a snapshot for a member that needs a newer one than a quorum holds."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        """Take `ask`, which orders a snapshot as that of a schedule does."""
        self._ask = ask
        self._behind = -1
        self._due_ns = 0

    def order(self, behind: int, now_ns: int) -> None:
        """Order a snapshot on the leader, as long as no quorum has one from after this position."""
        if (behind != self._behind or now_ns >= self._due_ns) and self._ask():
            self._behind, self._due_ns = behind, now_ns + AGAIN_NS
