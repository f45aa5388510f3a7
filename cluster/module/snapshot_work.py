"""The periodic work of a member on its snapshots and on the rules of its log, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.module.periodic_work import EverySecond, Work
from ordo.cluster.module.snapshots.old_log import OldLog
from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotReporter
from ordo.consensus.state.states import ElectionState
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.member_parts import Foundation, HeldStates, SnapshotExchange
    from ordo.cluster.module.members.standings import Standings


class SnapshotWork:
    """Runs the work on snapshots in order; does itself only what needs several parts at once."""

    def __init__(
        self,
        base: Foundation,
        held: HeldStates,
        rules: LogRules,
        exchange: SnapshotExchange,
        standings: Standings,
        cluster_time: Callable[[], int],
    ) -> None:
        self._core = base.core
        self._sequencer = base.sequencer
        self._held = held
        self._rules = rules
        self._exchange = exchange
        agreement = exchange.agreement
        self._reporter = reporter = SnapshotReporter(
            base.sequencer, base.contacts, held.shelf, held.reports, exchange.fetch
        )
        self._old_log = OldLog(
            base.core,
            base.sequencer,
            base.log,
            exchange.feeds,
            exchange.retention,
            held.reports,
            agreement,
            cluster_time,
        )
        self.every_second = EverySecond(
            (
                reporter.work,
                self._let_go,
                rules.levels.work,
                lambda now_ns: rules.identity.work(),
                lambda now_ns: rules.schemas.work(),
                lambda now_ns: standings.work(),
                lambda now_ns: rules.hashes.work(now_ns, agreement.newest),
                self._take_others_state,
            ),
            reporter.has_news,
        )

    @property
    def works(self) -> tuple[Work, ...]:
        """What is done at each turn of the periodic work."""
        exchange, versions = self._exchange, self._rules.versions
        return (
            exchange.fetch.work,
            lambda now_ns: exchange.feeds.work(),
            self._rules.skips.work,
            self._repair_log,
            exchange.orders.work,
            self._reporter.look,
            lambda now_ns: versions.work(now_ns, exchange.agreement.newest_position),
            self._repair_snapshots,
            exchange.copies.work,
            self._rules.clock.work,
            self.every_second.work,
        )

    @property
    def _is_in_step(self) -> bool:
        """Whether this member leads, or follows the live log."""
        return self._core.state is ElectionState.CLOSED

    def _repair_log(self, now_ns: int) -> None:
        self._exchange.repair.work(now_ns, is_free=self._is_in_step and not self._exchange.fetch.is_under_way)

    def _repair_snapshots(self, now_ns: int) -> None:
        exchange = self._exchange
        is_whole = self._held.doubt.position == NULL_VALUE and not exchange.repair.is_under_way
        leader_id = self._core.leader_member_id
        exchange.snapshot_repair.work(exchange.fetch, leader_id, now_ns, is_free=self._is_in_step and is_whole)

    def _let_go(self, now_ns: int) -> None:
        if not self._exchange.fetch.is_under_way:
            self._old_log.work(now_ns)

    def _take_others_state(self, now_ns: int) -> None:
        """Advance towards the others' state, if this member's state is in doubt or its code is missing."""
        if self._is_in_step:
            fetch, agreement = self._exchange.fetch, self._exchange.agreement
            self._held.doubt.work(fetch, agreement.newest, self._sequencer.append_position, now_ns)
            self._rules.versions.lacks.work(fetch, agreement.newest, now_ns, agreement.holders())
