"""Decides who takes the next snapshot where `[snapshot] by = "standby"`: a standby for the members, or these after all.

A standby may be gone, behind, of an earlier release, or of another state. Log is deleted only below a snapshot that a
quorum holds, so nothing is lost by that, but the log would grow. The leader has the members take their own

    at once               where no standby has answered for as long as the patience, the log has no level for it, or a
                          service gives no hash of its state, without which no copy can be compared
    after the patience    where no quorum holds a copy of an order by then

and turns to the standby again with the next snapshot that is due, once a quorum holds a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import Orders, SpeakingHost


class CopyOrders:
    """Orders the snapshots of one member while it leads, of standbys or of the members."""

    def __init__(
        self,
        host: SpeakingHost,
        orders: Orders,
        counters: ModuleCounters,
        agreed_position: Callable[[], int],
        find_obstacle: Callable[[], str],
        *,
        patience_ns: int,
        is_on: bool,
    ) -> None:
        """`find_obstacle` returns why no copy could be compared, or an empty string.

        `is_on`: standbys are to take the snapshots that are due.
        """
        self._host = host
        self._orders = orders
        self._counters = counters
        self._agreed_position = agreed_position
        self._find_obstacle = find_obstacle
        self._patience_ns = patience_ns
        self.is_on = is_on
        self._now_ns = 0
        self._heard_ns: int | None = None
        self._newest_position = NULL_VALUE
        """Where the newest order to standbys ends that was executed."""
        self._awaited_position = NULL_VALUE
        """Where the order ends of which, or of a newer one, a quorum is to hold a copy; -1: none."""
        self._since_ns = 0
        self._has_taken_over = False
        self._told = ""

    def note_answer(self, now_ns: int) -> None:
        """Note that a standby has said which snapshot it has."""
        self._heard_ns = now_ns

    def note(self, log_position: int) -> None:
        """Note that an order to standbys was executed."""
        self._newest_position = log_position

    def work(self, now_ns: int) -> None:
        """See whether a quorum has what was ordered."""
        self._now_ns = now_ns
        if self._awaited_position <= self._agreed_position():
            self._awaited_position, self._has_taken_over = NULL_VALUE, False
        if self._awaited_position == NULL_VALUE and self._newest_position > self._agreed_position():
            self._awaited_position, self._since_ns = self._newest_position, now_ns

    @property
    def takes_over(self) -> bool:
        """Whether the members are to take a snapshot now, since they have none that standbys were ordered to take."""
        return self._is_overdue and not self._has_taken_over

    @property
    def _is_overdue(self) -> bool:
        is_awaited = self.is_on and self._awaited_position != NULL_VALUE
        return is_awaited and self._now_ns - self._since_ns > self._patience_ns

    def order(self) -> bool:
        """Order a snapshot that is due. Returns False while the cluster is busy with something else."""
        if not self.is_on:
            return self._orders.ask_snapshot()
        reason = self._find_reason()
        if not reason:
            self._told = ""
            return self._orders.ask_copied()
        return self._order_own(reason)

    def order_own(self) -> bool:
        """Order a snapshot of the members, whatever standbys do."""
        return self._orders.ask_snapshot()

    def _find_reason(self) -> str:
        """Return why the members take the next snapshot, or an empty string."""
        if self._is_overdue:
            return f"no quorum has copied that of log position {self._awaited_position} from a standby"
        if self._heard_ns is None or self._now_ns - self._heard_ns > self._patience_ns:
            return "no standby of [snapshot] standbys answers this member"
        return self._find_obstacle()

    def _order_own(self, reason: str) -> bool:
        if not self._orders.ask_snapshot():
            return False
        self._has_taken_over = True
        self._counters.snapshots.instead.increment()
        if reason != self._told:
            self._told = reason
            self._host.announce("cluster.snapshot", f"the members take their own snapshots: {reason}")
        return True
