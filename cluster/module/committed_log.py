"""One member's log as its consensus module follows it: noted once durable, executed once committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.log.log_executor import LogExecutor
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.consensus.state.messages import Lead
from ordo.sequencer.hosts import LogHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.cluster.module.log.log_executor import Handler
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.member_parts import Foundation
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
    from ordo.cluster.module.state.recovery import Recovery
    from ordo.runtime.sbe import Message


class CommittedLog(LogHost):
    """Takes the records other than session messages from the Sequencer, and has them executed in log order."""

    _membership: Membership
    _rules: LogRules
    _snapshots: SnapshotTaker
    _carry_out: Callable[[int], None]

    def __init__(self, base: Foundation, recovery: Recovery) -> None:
        self._core = base.core
        self._sequencer = base.sequencer
        self._counters = base.counters
        self._clock = base.seams.clock
        self._clock_watch = base.member.clock_watch
        self._executor = LogExecutor(recovery.log_position)
        self._terms_known_to = recovery.append_position
        self._has_members = not base.config.is_standby
        """The log names this member's cluster; that of a standby names the one that it copies."""

    def attach(
        self,
        handlers: Mapping[Message, Handler],
        membership: Membership,
        rules: LogRules,
        snapshots: SnapshotTaker,
        carry_out: Callable[[int], None],
    ) -> None:
        """Take what executes committed records, and the parts that note durable ones; called once, before the start."""
        self._executor.attach(handlers)
        self._membership = membership
        self._rules = rules
        self._snapshots = snapshots
        self._carry_out = carry_out

    # -- from the Sequencer ----------------------------------------------------------------------------------------

    def on_record(self, position: int, record: bytes) -> None:
        """Note a record other than a session message that became durable in this member's log."""
        log_record = self._executor.add(position, record)
        self._clock_watch.note(log_record.values)
        self._sequencer.set_next_record(self._executor.next_position)
        if log_record.table is ordo_codecs.CONFIGURATION_EVENT and self._has_members:
            self._membership.on_record(position, log_record.values)
        self._rules.on_record(log_record)
        is_new_term = log_record.table is codecs.NEW_LEADERSHIP_TERM_EVENT
        if is_new_term and position > self._terms_known_to:
            term = log_record.values
            lead = Lead(term.leader_member_id, term.log_session_id)
            self._core.on_new_term(term.leadership_term_id, term.term_base_log_position, lead)
            self._carry_out(self._clock.now())

    def on_appended(self, append_position: int, now_ns: int) -> None:
        """Note that the log grew during an election."""
        self._core.on_appended(append_position, now_ns)
        self._carry_out(now_ns)

    def on_commit(self, commit_position: int, now_ns: int) -> None:
        """Execute the records that are committed now."""
        self._execute(commit_position)

    def _execute(self, commit_position: int) -> None:
        self._executor.execute(commit_position)
        self._sequencer.set_next_record(self._executor.next_position)

    # -- what others ask -------------------------------------------------------------------------------------------

    @property
    def executed_position(self) -> int:
        """The log position up to which this member has executed everything."""
        return self._executor.position

    def is_ready_to_end(self, log_position: int) -> bool:
        """Return whether everything up to the position is executed, and no snapshot is under way."""
        is_executed = self._executor.has_executed(log_position, self._sequencer.commit_position)
        return is_executed and not self._snapshots.is_under_way

    def truncate(self, position: int) -> None:
        """Forget the records beyond `position`, where the log was cut."""
        self._terms_known_to = min(self._terms_known_to, position)
        self._executor.truncate(position)
        self._rules.truncate(position)
        self._sequencer.set_next_record(self._executor.next_position)

    def pause(self) -> None:
        """Execute nothing after the newest executed record until `go_on`: a snapshot is taken of the state there."""
        self._executor.pause()
        self._counters.set_state(ModuleState.SNAPSHOT)

    def go_on(self) -> None:
        """Resume execution, if it was paused."""
        if self._executor.is_paused:
            self._counters.set_state(ModuleState.ACTIVE)
            self._executor.resume()
            self._execute(self._sequencer.commit_position)
