"""The consensus module: one member's part in the cluster, put together, started, driven and closed.

This is the Python half. What happens once a message is in `ordo.sequencer.sequencer`; what consensus decides is in
`consensus`, and carried out by `consensus_commands`; what is durable and committed goes through `committed_log`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ordo.cluster.module.client_parts import make_client_parts, make_queries
from ordo.cluster.module.committed_log import CommittedLog
from ordo.cluster.module.consensus_commands import ConsensusCommands
from ordo.cluster.module.control_parts import make_control_parts
from ordo.cluster.module.ingress_intake import IngressIntake
from ordo.cluster.module.leader_duties import LeaderDuties
from ordo.cluster.module.log.ingress_gate import IngressGate
from ordo.cluster.module.log.log_keeper import LogKeeper
from ordo.cluster.module.member_intake import IntakeCalls, MemberIntake, MessageReceivers
from ordo.cluster.module.member_parts import (
    Foundation,
    ModuleSeams,
    list_member_handlers,
    list_report_handlers,
    make_exchange,
    make_held_states,
    make_rules,
    make_standings,
)
from ordo.cluster.module.members.member_proofs import MemberProofs
from ordo.cluster.module.members.membership import Membership
from ordo.cluster.module.members.outgoing_messages import OutgoingMessages
from ordo.cluster.module.operator_parts import OperatorParts, make_operator_parts
from ordo.cluster.module.periodic_work import make_watches
from ordo.cluster.module.record_handlers import RecordHandlers, SnapshotStart
from ordo.cluster.module.services.service_reports import ServiceReports
from ordo.cluster.module.sessions.session_admission import SessionAdmission
from ordo.cluster.module.sessions.session_control import SessionControl
from ordo.cluster.module.snapshot_work import SnapshotWork
from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.cluster.module.state.counters import ModuleCounters
from ordo.cluster.module.state.host import ArchiveAccess, Replication
from ordo.cluster.module.state.module_snapshot import SnapshotLayout
from ordo.cluster.module.state.own_member import Notices, OwnMember
from ordo.cluster.module.state.peers import Contacts
from ordo.cluster.module.state.random_source import UniformDraws
from ordo.cluster.module.state.recovery import Recovery
from ordo.cluster.module.state_capture import StateCapture
from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID, INGRESS_STREAM_ID
from ordo.consensus.core import ConsensusCore
from ordo.consensus.standby import StandbyCore
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import CorruptFrameError, StorageError, StorageMissingError
from ordo.runtime.native.cluster_time import time_ms
from ordo.sequencer.quotas import Quotas
from ordo.sequencer.sequencer import Sequencer

if TYPE_CHECKING:
    from ordo.archive.protocol.own_codecs import ToldIdentity
    from ordo.cluster.module.members.standings import Standings
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.cluster.wire.members import Member
    from ordo.runtime.security.authentication import Authenticator
    from ordo.transport.streams.image import Image

WAITING_STATES = frozenset(
    {
        ElectionState.CLOSED,
        ElectionState.CANVASS,
        ElectionState.FOLLOWER_BALLOT,
        ElectionState.FOLLOWER_CATCHUP_AWAIT,
        ElectionState.FOLLOWER_CATCHUP,
    }
)
"""In which nothing is to be done until a message or an image comes, or a time that 10 ms do not matter to."""


@dataclass(frozen=True)
class Intakes:
    """What takes from the Sequencer the messages that are not sequenced: of clients, and of other members."""

    ingress: IngressIntake
    members: MemberIntake


def _recover(config: ModuleSettings, seams: ModuleSeams, *, is_single: bool) -> Recovery:
    return Recovery(
        seams.archive,
        seams.store,
        config,
        is_single=is_single,
        lost_state=seams.lost_state,
        known_position=seams.committed.known_position,
    )


class ConsensusModule:
    """One member. `NodeCycle` calls the sequencer once a duty cycle and `slow_tick` every 10 to 50 ms."""

    def __init__(
        self,
        config: ModuleSettings,
        members: tuple[Member, ...],
        seams: ModuleSeams,
        authenticator: Authenticator | None,
    ) -> None:
        self._recovery = recovery = _recover(config, seams, is_single=len(members) == 1)
        self.counters = ModuleCounters(seams.client, config, recovery)
        draws = UniformDraws(seams.random.stream("election"))
        make_core = StandbyCore if config.is_standby else ConsensusCore
        self.core = make_core(config.consensus(members), recovery.durable_state(), draws)
        self.sequencer = self._make_sequencer(config, seams)
        gate = IngressGate(self.core, self.sequencer)
        self.base = base = self._make_base(config, members, seams, gate)
        self.member, self.log = member, log = base.member, base.log
        self.clients = make_client_parts(
            base, authenticator, self.told_identity, self._on_image_gone, lambda: self.rules.identity.told_beginning()
        )
        services = self.clients.services
        recovery.restore(self.clients.sessions, services.timers, services.messages)
        self.committed = CommittedLog(base, recovery)
        self.controls = make_control_parts(
            base, gate, self.clients, self.committed, self._newest_level, lambda: self.queries.end()
        )
        self.membership = Membership(
            member, self.core, self.sequencer, log, base.contacts, members, self._newest_level, self._answer_tool
        )
        outgoing = OutgoingMessages(self.member, self.sequencer, self.log, self.membership, base.contacts, seams.clock)
        self.queries = make_queries(base, self.clients.sessions, outgoing, lets_everybody_in=authenticator is None)
        orders = self.controls.make_orders(services.order, self._answer_tool)
        self.held = make_held_states(base, orders)
        self.rules = make_rules(base, self.held, orders)
        self.exchange = make_exchange(base, self.held, self.rules, orders)
        standings = make_standings(base, self.rules, lambda: self.committed.executed_position)
        snapshot_work = SnapshotWork(
            base, self.held, self.rules, self.exchange, standings, lambda: self.member.cluster_time_ms
        )
        self.snapshots = self._make_snapshots()
        self.watches = make_watches(
            base,
            self.membership,
            self.clients,
            snapshot_work.works,
            order_early_snapshot=self.exchange.orders.order_early,
            carry_out=lambda now_ns: self.commands.carry_out(now_ns),
        )
        self.operators = self._make_operators(authenticator)
        self.commands = self._attach_log(standings, outgoing)
        self.intakes = self._attach_sequencer(standings, outgoing, snapshot_work)

    def _make_sequencer(self, config: ModuleSettings, seams: ModuleSeams) -> Sequencer:
        counters, interval_ns = self.counters, config.leader_heartbeat_interval_ns
        first, *others = counters.container_park_flags
        made = Sequencer(self.core.progress, config.member_id, counters.commit_position, first, interval_ns)
        for flag in others:
            made.add_container_flag(flag)
        seams.committed.hold(self.core.distrust)
        made.note_commits(seams.committed.slots)
        made.bound_ingress(Quotas(config.quotas.burst_ns, config.service_backlog_bytes, counters.service_positions))
        return made

    def _make_base(
        self, config: ModuleSettings, members: tuple[Member, ...], seams: ModuleSeams, gate: IngressGate
    ) -> Foundation:
        core, sequencer, counters, client = self.core, self.sequencer, self.counters, seams.client
        notices = Notices(config.member_id, counters, seams.errors, seams.events)
        contacts = Contacts(client, sequencer, members, config.member_id, notices.record_error, config.bind_host)
        clock_watch = ClockWatch(
            notices, core, sequencer, seams.clock, counters.clock_ahead, self._recovery, config.cluster_time_unit
        )
        replication = Replication(core, sequencer, contacts)
        member = OwnMember(config, notices, clock_watch, replication, gate)
        log = LogKeeper(
            config,
            contacts,
            ArchiveAccess(seams.archive, client),
            seams.store,
            sequencer,
            counters,
            self._on_log_failure,
            self._on_log_gone,
        )
        return Foundation(config, seams, member, core, sequencer, counters, contacts, log)

    def _make_snapshots(self) -> SnapshotTaker:
        base = self.base
        return SnapshotTaker(
            base.access,
            self.held.shelf,
            StateCapture(
                self.core,
                self.committed,
                self.clients,
                self.membership,
                self.rules,
                self.controls.control,
                self.exchange.copies,
            ),
            self.member,
            base.replication,
            self.counters,
            base.seams.clock,
            SnapshotLayout(base.config.cluster_id, base.config.service_count),
        )

    def _make_operators(self, authenticator: Authenticator | None) -> OperatorParts:
        agreement, shelf = self.exchange.agreement, self.held.shelf
        return make_operator_parts(
            self.base, authenticator, self.clients.sessions, shelf, agreement, self.rules, self.membership
        )

    def _attach_log(self, standings: Standings, outgoing: OutgoingMessages) -> ConsensusCommands:
        """Give the log and the gate of the ingress the parts that they call, which are built on them."""
        clients, controls, rules, room = self.clients, self.controls, self.rules, self.watches.room
        duties = LeaderDuties(
            self.member, self.core, self.sequencer, clients, controls, self.membership, room, self._answer_tool
        )
        start = SnapshotStart(self.exchange.orders, rules, self.snapshots, is_standby=self.base.config.is_standby)
        handlers = RecordHandlers(
            self.member, clients, controls.control, start, room, rules, duties, self._on_configuration
        )
        made = ConsensusCommands(
            self.base, outgoing, self.membership, standings, rules, self.committed, controls.gate, duties
        )
        self.committed.attach(handlers.handlers, self.membership, rules, self.snapshots, made.carry_out)
        controls.gate.attach(self.member, controls.transfer, controls.termination, controls.control, room)
        return made

    def _attach_sequencer(
        self, standings: Standings, outgoing: OutgoingMessages, snapshot_work: SnapshotWork
    ) -> Intakes:
        """Give the Sequencer the parts that handle rare messages and records."""
        base, member, clients, operators = self.base, self.member, self.clients, self.operators
        asks_allowed = base.config.admin_requests_allowed
        control = SessionControl(
            member,
            clients.sessions,
            clients.requests,
            ask_snapshot=self.controls.control.ask_snapshot if asks_allowed else None,
            on_rejected=member.on_invalid_request,
        )
        ingress = IngressIntake(
            member,
            self.core,
            self.sequencer,
            control,
            self.queries,
            operators.operators,
            base.seams.clock,
            operators.on_stranger,
        )
        numbers = base.seams.random.secret("member proofs")
        intake = MemberIntake(
            member,
            self.core,
            base.contacts,
            MemberProofs(member.member_id, base.contacts, numbers, member.on_invalid_request, standings),
            MessageReceivers(self.log, self.queries, self.watches.room, member.clock_watch),
            list_member_handlers(
                base, self.held, self.rules, self.exchange, standings, snapshot_work.every_second.hasten
            ),
            IntakeCalls(self.commands.carry_out, outgoing.send, operators.on_stranger),
        )
        admission = SessionAdmission(clients.sessions, clients.requests.identities, clients.quotas)
        self.sequencer.attach(self.committed, ingress, admission, intake, clients.services)
        return Intakes(ingress, intake)

    # -- life ------------------------------------------------------------------------------------------------------

    def on_start(self, now_ns: int) -> None:
        """Open the member's streams, and begin with the first election."""
        base, recovery = self.base, self._recovery
        client, contacts, bound = base.seams.client, base.contacts, base.contacts.bound
        client.add_subscription(
            f"aeron:udp?endpoint={bound.consensus}|alias=consensus",
            CONSENSUS_STREAM_ID,
            on_available_image=self.sequencer.add_consensus_image,
            on_unavailable_image=self.sequencer.remove_consensus_image,
        )
        if base.config.is_standby:
            self.sequencer.answer_backups()
        else:
            recovery.introduce_members(contacts)
        contacts.connect(now_ns)
        client.add_subscription(
            f"aeron:udp?endpoint={bound.ingress}|{base.config.ingress_options}|rejoin=false|alias=ingress",
            INGRESS_STREAM_ID,
            on_available_image=partial(self.sequencer.add_ingress_image, is_timed=base.config.arrival_time),
            on_unavailable_image=self._on_image_gone,
        )
        self.clients.services.open(client, self.sequencer, base.config.cluster_id, self._make_service_reports())
        self.rules.start(recovery)
        self.log.open(recovery, self.member.announce)
        self.membership.tell_difference()
        self.held.shelf.clear_snapshots()
        self.exchange.repair.start()
        snapshot = recovery.snapshot
        self.rules.go_on_from(snapshot.log_position if snapshot else 0, recovery.contents)
        if snapshot is not None:
            self.exchange.orders.note(snapshot.log_position, time_ms(snapshot.timestamp))
        self.counters.set_state(ModuleState.ACTIVE)
        self._report_trust()
        self.core.start(now_ns)
        self.commands.carry_out(now_ns)

    def _make_service_reports(self) -> ServiceReports:
        return ServiceReports(
            self.base.seams.clock,
            self.base.config.service_count,
            self.snapshots,
            self.controls.termination,
            list_report_handlers(self.member, self.clients.notices, self.clients.services, self.rules, self.exchange),
            answer_question=self.operators.answers.answer_question,
            on_ready=self.exchange.retention.note_service_ready,
            on_state_kept=self.held.doubt.on_state_kept,
        )

    def _report_trust(self) -> None:
        for finding in self._recovery.findings:
            self.member.record_error(finding)
            self.base.seams.events("cluster.repair", member_id=self.member.member_id, finding=finding)
        self.counters.distrust.set(int(self.core.distrust))

    def end(self) -> None:
        """End the node: a leader hands over first; a second call ends it at once."""
        if self.controls.transfer.is_stopping:
            self.member.has_ended = True
        self.controls.transfer.stop()

    def on_close(self) -> None:
        """Leave the log cleanly: a leader's followers see the end of the stream and elect at once."""
        self.exchange.close()
        self.log.leave()
        self.counters.set_state(ModuleState.CLOSED)

    def told_identity(self) -> ToldIdentity | None:
        """Return the identity of this member's log, as readers and clients are told it."""
        return self.rules.identity.told(self.committed.executed_position)

    def past_identity(self, position: int) -> bytes:
        """Return whose log this member's was where a record of it ends; empty if it does not know, or ends before."""
        if position > self.core.append_position:
            return b""
        return self.rules.identity.find_past(position, self.core.terms)

    # -- what parts tell each other --------------------------------------------------------------------------------

    def _on_image_gone(self, image: Image) -> None:
        self.intakes.ingress.image_gone(image)

    def _newest_level(self) -> int:
        return self.rules.levels.newest

    def _on_configuration(self, position: int) -> None:
        self._answer_tool(self.membership.execute(position))

    def _answer_tool(self, answer: bytes | None) -> None:
        """Send an answer to the operator, or the tool on this machine, that asked."""
        if answer is not None and not self.operators.operators.take_answer(answer):
            self.clients.services.answer(answer)

    def _on_log_failure(self, error: Exception) -> None:
        """Give up the leadership when the log cannot be sent to a member, so that another one gives it out."""
        # The damage may be below what a start reads. This member still votes: what it has promised is at the end.
        seams = self.base.seams
        if isinstance(error, CorruptFrameError | StorageMissingError):
            seams.store.put_check_log(True)
            remedy = "start it again while others run, it repairs that"
        elif isinstance(error, StorageError):
            remedy = "see to its disk"
        else:
            self.member.record_error(str(error))
            return
        self.member.record_error(f"{error.message}: this member hands over; {remedy}")
        self.controls.transfer.begin(None, seams.clock.now())

    def _on_log_gone(self, member_id: int, position: int, start_position: int) -> None:
        now_ns, term_id = self.base.seams.clock.now(), self.member.leadership_term_id
        self.exchange.refusals.refuse(member_id, position, start_position, term_id, now_ns)

    # -- the slow tick ---------------------------------------------------------------------------------------------

    def wants_quick_ticks(self) -> bool:
        """Return whether a candidacy, a snapshot, a transfer or a request is under way."""
        has_work = (
            (self.core.state not in WAITING_STATES or self.snapshots.wants_quick_ticks)
            or (self.exchange.fetch.is_under_way or self.controls.hands_over)
            or (self.clients.requests.is_any_under_way or self.operators.has_work)
        )
        self.watches.periodic.is_busy = has_work or self.core.state is not ElectionState.CLOSED
        return has_work

    def fire_timers(self) -> None:
        """Append an event for each timer that is due, as the serving leader; set the alarm for the next one."""
        services = self.clients.services
        if self.member.is_leader and not self.controls.control.is_suspended:
            services.fire_timers()
        else:
            services.set_alarm(None)

    @property
    def has_timers(self) -> bool:
        """Whether a timer of a service may become due."""
        return len(self.clients.services.timers) > 0

    def slow_tick(self, now_ns: int) -> None:
        """Run the work of every 10 to 50 ms: timeouts, timers, requests, joins, control."""
        core, commands, controls = self.core, self.commands, self.controls
        if self.sequencer.append_position != core.append_position:
            self.committed.on_appended(self.sequencer.append_position, now_ns)
        core.tick(now_ns)
        commands.carry_out(now_ns)
        self.watches.periodic.work(self.sequencer.append_position, now_ns)
        commands.advance_join(now_ns)
        self.snapshots.work()
        controls.termination.work(now_ns)
        controls.transfer.work(now_ns)
        commands.carry_out(now_ns)
        self.clients.services.work()
        self.watches.service.work(now_ns)
        self.clients.leader_ingress.work(now_ns)
        # One that was told to end asks nobody for a replay, which would wait for it in vain.
        is_held_up = self.exchange.fetch.is_under_way or self.watches.room.is_out
        self.log.is_held = is_held_up or controls.transfer.is_stopping
        self.queries.work(now_ns)
        self.operators.work(self.member.cluster_time_ms)
        self._work_sessions(self.member.cluster_time, now_ns)

    def _work_sessions(self, cluster_time: int, now_ns: int) -> None:
        member, clients, control = self.member, self.clients, self.controls.control
        timeouts = self.counters.client_timeouts
        if not control.is_suspended:
            timeouts.increment(clients.requests.work(member, self.core.leader_member_id, cluster_time))
            if member.is_leader:
                timeouts.increment(clients.sessions.work(member, cluster_time))
                self.fire_timers()
                clients.services.append_messages()
        if member.is_leader:
            clients.sessions.send(member, self.sequencer.commit_position)
            control.poll(now_ns)
