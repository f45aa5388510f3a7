"""Carries out what consensus asks for: messages are sent, the log is led, joined, left and cut, terms are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ordo.consensus.state import commands
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import OrdoError, StorageError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.committed_log import CommittedLog
    from ordo.cluster.module.leader_duties import LeaderDuties
    from ordo.cluster.module.log.ingress_gate import IngressGate
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.member_parts import Foundation
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.members.outgoing_messages import OutgoingMessages
    from ordo.cluster.module.members.standings import Standings

RENEWAL_PATIENCE_NS = 30_000_000_000
"""How long a member that lacks data waits for the snapshot behind which its log begins anew."""


class ConsensusCommands:
    """Carries out one member's commands, in their order."""

    def __init__(
        self,
        base: Foundation,
        outgoing: OutgoingMessages,
        membership: Membership,
        standings: Standings,
        rules: LogRules,
        committed: CommittedLog,
        gate: IngressGate,
        duties: LeaderDuties,
    ) -> None:
        self._member = base.member
        self._core = base.core
        self._sequencer = base.sequencer
        self._counters = base.counters
        self._log = base.log
        self._store = base.seams.store
        self._commit_note = base.seams.committed
        self._events = base.seams.events
        self._outgoing = outgoing
        self._membership = membership
        self._standings = standings
        self._rules = rules
        self._committed = committed
        self._renewal_deadline_ns = 0
        self._gate = gate
        self._duties = duties

    def carry_out(self, now_ns: int) -> None:
        """Carry out the core's commands in order until none is left."""
        while pending := self._core.take_commands():
            for command in pending:
                self._carry_out_one(command, now_ns)

    def _carry_out_one(self, command: commands.Command, now_ns: int) -> None:
        match command:
            case commands.Commit(position):
                self._sequencer.commit_to(position, now_ns)
            case commands.Send(member_id, message):
                self._outgoing.send(member_id, message)
            case commands.Broadcast(message):
                self._outgoing.broadcast(message)
            case commands.Introduce(member_id, introduced_id):
                self._outgoing.introduce(member_id, introduced_id)
            case commands.PersistCandidateTerm(candidate_term_id, log_position):
                self._store.put_candidate_term(candidate_term_id, log_position, self._member.cluster_time_ms)
            case commands.PersistTerm(leadership_term_id, base_position, lead):
                self._store.put_term(leadership_term_id, base_position, lead)
            case commands.PersistDistrust():
                self._persist_distrust(command)
            case commands.PrepareLog(leadership_term_id, base_position):
                self._prepare_log(leadership_term_id, base_position, now_ns)
            case commands.JoinLog():
                self._member.leadership_term_id = command.leadership_term_id
                self._log.join(command)
                self._gate.update()
            case commands.LeaveLog():
                self._leave_log(now_ns)
            case commands.TruncateLog(position):
                self._truncate_log(position, now_ns)
            case commands.ChangeRole(role):
                self._counters.role.set(int(role))
            case commands.Transition():
                self._on_transition(command)
            case _:
                assert_never(command)

    def _persist_distrust(self, command: commands.PersistDistrust) -> None:
        distrust, commit_position = self._standings.on_distrust(command.distrust), self._sequencer.commit_position
        # A kill in between leaves a member that lacks data by its store: never a whole one with too low a note.
        self._commit_note.release(distrust, commit_position)
        self._store.put_distrust(distrust)
        self._commit_note.hold(distrust)
        self._counters.distrust.set(int(distrust))
        self._events("cluster.trust", member_id=self._member.member_id, distrust=distrust.name or "NONE")

    def _on_transition(self, transition: commands.Transition) -> None:
        leadership_term_id, new_state = self._core.leadership_term_id, transition.new_state
        self._events(
            "cluster.election",
            member_id=self._member.member_id,
            state=new_state.name,
            previous=transition.old_state.name,
            reason=transition.reason,
            leadership_term_id=leadership_term_id,
        )
        self._sequencer.set_steady(new_state is ElectionState.CLOSED)
        self._counters.on_election_state(int(new_state), leadership_term_id)

    # -- the log ---------------------------------------------------------------------------------------------------

    def _prepare_log(self, leadership_term_id: int, base_position: int, now_ns: int) -> None:
        member, log = self._member, self._log
        member.leadership_term_id = leadership_term_id
        try:
            app_version = self._rules.versions.of_first_record()
            session_id = log.lead(leadership_term_id, base_position, self._membership.others, now_ns)
            unit = self._rules.time.begin_term()
            end = log.append_first_record(leadership_term_id, base_position, member.cluster_time, unit, app_version)
        except StorageError:
            raise
        except OrdoError as error:
            member.record_error(f"cannot lead term {leadership_term_id}: {error.message}")
            self._core.on_log_lost(error.message, False, now_ns)
            return
        self._counters.leader_term.set(leadership_term_id)
        self._core.on_log_ready(session_id, end, now_ns)

    def _truncate_log(self, position: int, now_ns: int) -> None:
        self._log.truncate(position)
        self._committed.truncate(position)
        self._core.on_truncated(position, now_ns)
        self._membership.apply()

    def _leave_log(self, now_ns: int) -> None:
        self._sequencer.open_ingress(False)
        self._counters.leader_term.set(NULL_VALUE)
        if self._member.is_leader:
            self._duties.lose_leadership()
        self._log.leave()
        self._core.on_appended(self._sequencer.append_position, now_ns)

    def _renews(self, now_ns: int) -> bool:
        """Begin the log anew after a snapshot at its end, as the leader's was; return False where none comes in time.

        `ordo cluster renew-log` refuses a member that lacks data. This one gets it from its leader in any case, and is
        about to take the snapshot that all members took where they ended.
        """
        self._renewal_deadline_ns = self._renewal_deadline_ns or now_ns + RENEWAL_PATIENCE_NS
        position = self._sequencer.append_position
        if not any(one.is_valid and one.log_position == position for one in self._store.load().snapshots):
            return now_ns < self._renewal_deadline_ns
        self._store.rebase(position)
        self._member.start_again(
            f"the leader's log was begun anew with other lengths: this member, which lacks data, begins its own anew "
            f"at {position}, too"
        )
        return True

    def advance_join(self, now_ns: int) -> None:
        """Advance this follower on its way into the leader's log."""
        lost = self._log.take_loss(now_ns)
        if lost is not None:
            self._core.on_log_lost(*lost, now_ns)
            self.carry_out(now_ns)
            return
        if self._log.meets_renewed_log and Distrust.LOG in self._core.distrust and self._renews(now_ns):
            return
        joined_position = self._log.advance_join(now_ns, self._outgoing.send)
        if joined_position is not None:
            self._core.on_joined(joined_position, now_ns)
            self.carry_out(now_ns)
