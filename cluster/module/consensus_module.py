"""The consensus module: one member's part in the cluster.

This is the Python half. What happens once a message is in `ordo.sequencer.sequencer`; what consensus decides is in
`consensus`; this module carries decisions out: it moves the log, executes what is committed, and speaks with clients
and the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from ordo.cluster.module.ingress_intake import IngressIntake
from ordo.cluster.module.log.cluster_control import ClusterControl
from ordo.cluster.module.log.disk_space_watch import RoomWatch
from ordo.cluster.module.log.join_watch import JoinWatch
from ordo.cluster.module.log.log_executor import LogExecutor, LogRecord
from ordo.cluster.module.log.log_keeper import LogKeeper
from ordo.cluster.module.member_intake import MemberIntake
from ordo.cluster.module.member_parts import (
    Foundation,
    ModuleSeams,
    Orders,
    list_member_handlers,
    list_report_handlers,
    make_exchange,
    make_held_states,
    make_rules,
)
from ordo.cluster.module.members.member_proofs import MemberProofs
from ordo.cluster.module.members.membership import Membership
from ordo.cluster.module.members.outgoing_messages import OutgoingMessages
from ordo.cluster.module.members.standings import Standings
from ordo.cluster.module.members.trust_watch import TrustWatch
from ordo.cluster.module.operators.backup_description import BackupDescription
from ordo.cluster.module.operators.backup_queries import BackupQueries
from ordo.cluster.module.operators.member_report import Details
from ordo.cluster.module.operators.operators import MemberAnswers, Operators
from ordo.cluster.module.operators.self_report import SelfLook
from ordo.cluster.module.operators.tool_questions import ToolQuestions
from ordo.cluster.module.periodic_work import PeriodicWork
from ordo.cluster.module.services.service_reports import ServiceReports
from ordo.cluster.module.services.service_watch import ServiceWatch
from ordo.cluster.module.services.services import Services
from ordo.cluster.module.sessions.group_queries import GroupQueries
from ordo.cluster.module.sessions.queries import FIRST_ROUND_ID_BITS, Queries, QueryLink
from ordo.cluster.module.sessions.query_gate import QueryGate
from ordo.cluster.module.sessions.session_admission import SessionAdmission
from ordo.cluster.module.sessions.session_control import SessionControl
from ordo.cluster.module.sessions.session_requests import SessionBounds, SessionRequests
from ordo.cluster.module.sessions.sessions import OpenSessions
from ordo.cluster.module.snapshot_work import SnapshotWork
from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.cluster.module.state.counters import ModuleCounters
from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, SnapshotPoint, capture
from ordo.cluster.module.state.peers import Contacts
from ordo.cluster.module.state.random_source import UniformDraws
from ordo.cluster.module.state.recovery import Recovery
from ordo.cluster.module.state.termination import Termination
from ordo.cluster.module.state.transfer import LeadershipTransfer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.cluster.wire.members import Member, ingress_endpoints
from ordo.cluster.wire.sessions.ingress_notice import encode_failure
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID, INGRESS_STREAM_ID
from ordo.consensus.core import ConsensusCore
from ordo.consensus.state import commands, messages
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import CorruptFrameError, OrdoError, StorageError, StorageMissingError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.security.authentication import AcceptAll, Authenticator
from ordo.sequencer.hosts import LogHost
from ordo.sequencer.leader_ingress import LeaderIngress
from ordo.sequencer.sequencer import Sequencer

if TYPE_CHECKING:
    from ordo.archive.protocol.own_codecs import ToldIdentity
    from ordo.cluster.module.state.config import ModuleConfig
    from ordo.cluster.wire import records
    from ordo.runtime.sbe import Message

SESSION_ID_MAX = 2**62
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


class ConsensusModule(LogHost):
    """One member. `NodeCycle` calls the sequencer once a duty cycle and `slow_tick` every 10 to 50 ms."""

    starts_again = False
    """Together with `has_ended`: the node is to be built anew from its folders, at once."""

    def __init__(
        self, config: ModuleConfig, members: tuple[Member, ...], seams: ModuleSeams, authenticator: Authenticator | None
    ) -> None:
        self.config = config
        self.member_id = config.member_id
        self.heartbeat_timeout_ns = config.leader_heartbeat_timeout_ns
        self.leadership_term_id = NULL_VALUE
        self.has_ended = False
        self._seams = seams
        self._serving_term = NULL_VALUE
        self._recovery = recovery = Recovery(
            seams.archive,
            seams.store,
            config,
            is_single=len(members) == 1,
            lost_state=seams.lost_state,
            known_position=seams.committed.known_position,
        )
        self._terms_known_to = recovery.append_position
        self.counters = ModuleCounters(seams.client, config, recovery)
        draws = UniformDraws(seams.random.stream("election"))
        self.core = ConsensusCore(config.consensus(members), recovery.durable_state(), draws)
        self.sequencer = self._make_sequencer()
        core, sequencer, counters, client = self.core, self.sequencer, self.counters, seams.client
        self.transfer = LeadershipTransfer(self, core, sequencer, counters)
        self.termination = Termination(self, core, counters, config.service_count)
        self.control = ClusterControl(self, core, sequencer, counters, self.transfer, self.termination)
        self._lets_everybody_in = authenticator is None
        self._build_replicated_state(authenticator or AcceptAll())
        self.contacts = Contacts(client, sequencer, members, self.member_id, self.record_error, config.bind_host)
        self.log = self._make_log()
        self.membership = Membership(self, core, sequencer, self.log, self.transfer, self.contacts, members)
        self.outgoing = OutgoingMessages(self, sequencer, self.log, self.membership, self.contacts, seams.clock)
        self.queries = self._make_queries()
        self._make_parts()
        self.executor = LogExecutor(self._handlers(), self._recovery.log_position)
        self.snapshots = self._make_snapshots()
        self.trust = TrustWatch(core, self.record_error)
        self.clock_watch = ClockWatch(self, core, sequencer, seams.clock, counters.clock_ahead, self._recovery)
        self.room = self._make_room_watch()
        self.periodic = self._make_periodic_work()
        self.service_watch = ServiceWatch(self, config, core, sequencer, counters.service_position)
        self._make_operators(authenticator)
        self._attach_sequencer()

    def _make_room_watch(self) -> RoomWatch:
        config, seams = self.config, self._seams
        return RoomWatch(
            self,
            self,
            config.archive,
            seams.archive,
            self.log,
            self.core,
            self.sequencer,
            self.sessions,
            self.counters,
            self.exchange.orders.order_early,
        )

    def _make_periodic_work(self) -> PeriodicWork:
        join = JoinWatch(self.core, self.sequencer, self.contacts, self.record_error)
        return PeriodicWork(
            (
                self.membership.work,
                self.trust.work,
                join.work,
                lambda now_ns: self.clock_watch.work(),
                *self._snapshot_work.works,
                self.room.work,
                lambda now_ns: self.sessions.take_counters(),
                lambda now_ns: self.sessions.release_unwanted(),
            )
        )

    def _make_sequencer(self) -> Sequencer:
        counters, interval_ns = self.counters, self.config.leader_heartbeat_interval_ns
        first, *others = counters.container_park_flags
        made = Sequencer(self.core.progress, self.member_id, counters.commit_position, first, interval_ns)
        for flag in others:
            made.add_container_flag(flag)
        return made

    def _make_snapshots(self) -> SnapshotTaker:
        return SnapshotTaker(
            self._seams.client,
            self._seams.archive,
            self.held.shelf,
            self,
            self.core,
            self.sequencer,
            self.counters,
            self._seams.clock,
            self.config.cluster_id,
            self.config.service_count,
        )

    def _make_intake(self) -> MemberIntake:
        numbers = self._seams.random.secret("member proofs")
        proofs = MemberProofs(self.member_id, self.contacts, numbers, self.on_invalid_request, self.standings)
        return MemberIntake(
            self,
            self.core,
            self.contacts,
            proofs,
            self.log,
            self.queries,
            list_member_handlers(
                self._base,
                self.held,
                self.rules,
                self.exchange,
                self.standings,
                self._snapshot_work.every_second.hasten,
                self.announce,
            ),
            self.clock_watch,
            self.room,
        )

    def _attach_sequencer(self) -> None:
        """Give the Sequencer those that take what is rare."""
        asks_allowed = self.config.admin_requests_allowed
        control = SessionControl(
            self,
            self.sessions,
            self.requests,
            ask_snapshot=self.control.ask_snapshot if asks_allowed else None,
            on_rejected=self.on_invalid_request,
        )
        self._ingress = IngressIntake(
            self, self.core, self.sequencer, control, self.queries, self.operators, self._seams.clock
        )
        admission = SessionAdmission(self.sessions, self.requests.identities)
        self.members_intake = self._make_intake()
        self.sequencer.attach(self, self._ingress, admission, self.members_intake, self.services)

    def _make_operators(self, authenticator: Authenticator | None) -> None:
        client, counters, seams = self._seams.client, self.counters, self._seams
        found = SelfLook(
            self.member_id,
            self.core,
            counters,
            self.sequencer,
            self.sessions,
            self.held.shelf,
            self.rules.skips,
            client.counters,
            seams.look,
        )
        rules, shelf = self.rules, self.held.shelf
        details = Details(
            self.core, self.log, self.sequencer, self.sessions, rules.levels, rules.hashes, shelf, seams.errors
        )
        questions = ToolQuestions(self, self.core, self.membership, rules.skips, rules.versions, seams.clock)
        self._answers = MemberAnswers(found.look, found.list_skipped, details.describe, questions.answer)
        ids = seams.random.secret("operators")
        draw_id = lambda: ids.randint(1, SESSION_ID_MAX)  # noqa: E731
        self.operators: Operators = Operators(
            self, self._answers, client, counters.control_toggle, authenticator, draw_id
        )
        described = BackupDescription(
            self.member_id,
            self.core,
            self.log,
            shelf,
            self.exchange.agreement,
            self.membership,
            counters.commit_position,
        )
        backup_ids = seams.random.secret("backups")
        self.describe_backup = described.describe
        self.backups = BackupQueries(self, client, authenticator, lambda: backup_ids.randint(1, SESSION_ID_MAX))

    def _make_log(self) -> LogKeeper:
        seams = self._seams
        return LogKeeper(
            self.config,
            self.contacts,
            seams.archive,
            seams.client,
            seams.store,
            self.sequencer,
            self.counters,
            self._on_log_failure,
            self._on_log_gone,
        )

    def _make_parts(self) -> None:
        """Build what sees to the rules of the log, and to snapshots."""
        seams = self._seams
        self._base = base = Foundation(
            self.config, seams, self.core, self.sequencer, self.counters, self.contacts, self.log
        )
        orders = Orders(self.control.ask_snapshot, self.services.order, self._answer_tool)
        self.held = make_held_states(self, base, orders)
        self.rules = make_rules(self, self, base, self.held, orders)
        self.exchange = make_exchange(self, self, base, self.held, self.rules.versions.lacks, orders)
        self.standings = Standings(
            self,
            self.core,
            self.contacts,
            seams.store,
            self.rules.identity,
            self.member_id,
            seams.claim,
            seams.notes,
            seams.folder,
        )
        self._snapshot_work = SnapshotWork(
            base, self.held, self.rules, self.exchange, self.standings, lambda: self.cluster_time
        )

    def _make_service_reports(self) -> ServiceReports:
        return ServiceReports(
            self._seams.clock,
            self.config.service_count,
            self.snapshots,
            self.termination,
            list_report_handlers(self.rules, self.exchange, self._on_service_failure),
            answer_question=self._answers.answer_question,
            on_ready=self.exchange.retention.note_service_ready,
            on_state_kept=self.held.doubt.on_state_kept,
        )

    def _on_service_failure(self, service_id: int, failure: records.ServiceFailure, now_ns: int) -> None:
        """Tell clients, as their leader, why they get no more answers; then have the versions and skips see to it."""
        if self.is_leader and not failure.is_held:  # first: the member may end with its service
            text = encode_failure(failure.log_position, failure.error.decode("ascii", "replace"))
            for session in list(self.sessions):
                self.sessions.notify_now(self, session, text)
        self.rules.versions.on_service_failure(failure)
        self.rules.skips.on_service_failure(service_id, failure, now_ns)

    def _make_queries(self) -> Queries:
        seams, config = self._seams, self.config
        gate = QueryGate(self, self.sessions, self._lets_everybody_in, self.sequencer.prove_ingress)
        return Queries(
            self.core,
            QueryLink(seams.client, self.counters.container_park_flags[0], config.cluster_id),
            GroupQueries(self, self.sessions, self.counters.commit_position),
            send=self.outgoing.send,
            broadcast=self.outgoing.broadcast,
            find_refusal=gate.find_refusal,
            first_round_id=seams.random.stream("queries").getrandbits(FIRST_ROUND_ID_BITS),
            interval_ns=config.leader_heartbeat_interval_ns,
            queries_max=config.queries_max,
        )

    def _build_replicated_state(self, authenticator: Authenticator) -> None:
        """Build the state that is a function of the committed log, from the newest snapshot, and its executor."""
        config, client, recovery = self.config, self._seams.client, self._recovery
        session_timeout = config.session_timeout_ns // 1_000_000
        session_ids = self._seams.random.secret("session ids")
        speaks_for = getattr(authenticator, "speaks_for", lambda principal, key_name: True)
        sequencer, rights_of = self.sequencer, authenticator.rights_of
        self.sessions = OpenSessions(
            client, sequencer.sessions, session_timeout, rights_of, speaks_for, sequencer.prove_ingress
        )
        self.requests = SessionRequests(
            client,
            self.sessions,
            authenticator,
            session_timeout=session_timeout,
            bounds=SessionBounds.configured(config),
            message_bytes_max=lambda: self.log.message_bytes_max,
            on_rejected=self.on_invalid_request,
            draw_session_id=lambda: session_ids.randint(1, SESSION_ID_MAX),
            cluster_id=config.cluster_id,
            identities_per_principal=config.identities_per_principal_max,
            told_identity=self.told_identity,
        )
        self.services = Services(self, self.sessions, config.service_count)
        self._leader_ingress = LeaderIngress(
            client,
            config,
            on_available_image=self.sequencer.add_ingress_image,
            on_unavailable_image=lambda image: self._ingress.image_gone(image),
            on_error=self.record_error,
        )
        recovery.restore(self.sessions, self.services.timers, self.services.messages)

    # -- life ------------------------------------------------------------------------------------------------------

    def on_start(self, now_ns: int) -> None:
        client = self._seams.client
        bound = self.contacts.bound
        client.add_subscription(
            f"aeron:udp?endpoint={bound.consensus}|alias=consensus",
            CONSENSUS_STREAM_ID,
            on_available_image=self.sequencer.add_consensus_image,
            on_unavailable_image=self.sequencer.remove_consensus_image,
        )
        self._recovery.introduce_members(self.contacts)
        self.contacts.connect(now_ns)
        client.add_subscription(
            f"aeron:udp?endpoint={bound.ingress}|{self.config.receive_options}|rejoin=false|alias=ingress",
            INGRESS_STREAM_ID,
            on_available_image=self.sequencer.add_ingress_image,
            on_unavailable_image=lambda image: self._ingress.image_gone(image),
        )
        self.services.open(client, self.sequencer, self.config.cluster_id, self._make_service_reports())
        self.rules.start(self._recovery)
        self.log.open(self._recovery, self.announce)
        self.membership.tell_difference()
        self.held.shelf.clear_snapshots()
        self.exchange.repair.start()
        snapshot = self._recovery.snapshot
        self.rules.go_on_from(snapshot.log_position if snapshot else 0, self._recovery.contents)
        if snapshot is not None:
            self.exchange.orders.note(snapshot.log_position, snapshot.timestamp)
        self.counters.set_state(ModuleState.ACTIVE)
        self._report_trust()
        self.core.start(now_ns)
        self.carry_out(now_ns)

    def _report_trust(self) -> None:
        for finding in self._recovery.findings:
            self.record_error(finding)
            self._seams.events("cluster.repair", member_id=self.member_id, finding=finding)
        self.counters.distrust.set(int(self.core.distrust))

    def end(self) -> None:
        """End the node: a leader hands over first; a second call ends it at once."""
        if self.transfer.is_stopping:
            self.has_ended = True
        self.transfer.stop()

    def on_close(self) -> None:
        """Leave the log cleanly: a leader's followers see the end of the stream and elect at once."""
        self.exchange.close()
        self.log.leave()
        self.counters.set_state(ModuleState.CLOSED)

    def terminate_service(self, log_position: int) -> bool:
        return self.services.terminate(log_position)

    # -- Leadership, for sessions and requests ---------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """True while this member serves as leader: its term is established and executed."""
        return self._serving_term != NULL_VALUE

    @property
    def ingress_endpoints(self) -> str:
        return ingress_endpoints(self.membership.voters)

    @property
    def cluster_time(self) -> int:
        """Epoch time in milliseconds as the cluster has it; never earlier than any record of this member's log."""
        return self.clock_watch.now_ms()

    def append(self, record: bytes) -> bool:
        """Append a record as the serving leader. Returns False while nothing is sequenced."""
        is_held = self.transfer.is_under_way or self.control.is_suspended or self.room.is_out or self._ends
        return self.is_leader and not is_held and self.sequencer.append(record) > 0

    def wants_quick_ticks(self) -> bool:
        """Return whether a candidacy, a snapshot, a transfer or a request is under way."""
        has_work = (
            (self.core.state not in WAITING_STATES or self.snapshots.wants_quick_ticks)
            or (self.exchange.fetch.is_under_way or self.transfer.is_under_way or self.transfer.is_stopping)
            or (len(self.requests) > 0 or self.operators.has_work or self.backups.has_work)
        )
        self.periodic.is_busy = has_work or self.core.state is not ElectionState.CLOSED
        return has_work

    @property
    def has_timers(self) -> bool:
        return len(self.services.timers) > 0

    # -- from the Sequencer ----------------------------------------------------------------------------------------

    def told_identity(self) -> ToldIdentity | None:
        """Return what readers and clients are told of whose log this member has."""
        return self.rules.identity.told(self.executor.position)

    def on_stranger(self, source_identity: str, message: bytes) -> None:
        self.backups.on_message(message, source_identity, self.cluster_time)

    def on_invalid_request(self, detail: str) -> None:
        self.counters.invalid_requests.increment()
        self.record_error(detail)

    def on_record(self, position: int, record: bytes) -> None:
        """Note a record other than a session message that became durable in this member's log."""
        log_record = self.executor.add(position, record)
        self.clock_watch.note(log_record.values)
        self.sequencer.set_next_record(self.executor.next_position)
        if log_record.table is ordo_codecs.CONFIGURATION_EVENT:
            self.membership.on_record(position, log_record.values)
        self.rules.on_record(log_record)
        is_new_term = log_record.table is codecs.NEW_LEADERSHIP_TERM_EVENT
        if is_new_term and position > self._terms_known_to:
            self.core.on_new_term(log_record.values.leadership_term_id, log_record.values.term_base_log_position)
            self.carry_out(self._seams.clock.now())

    def on_appended(self, append_position: int, now_ns: int) -> None:
        """Note that the log grew during an election."""
        self.core.on_appended(append_position, now_ns)
        self.carry_out(now_ns)

    def on_commit(self, commit_position: int, now_ns: int) -> None:
        self.execute(commit_position)

    def execute(self, commit_position: int) -> None:
        self.executor.execute(commit_position)
        self.sequencer.set_next_record(self.executor.next_position)

    def _answer_tool(self, answer: bytes | None) -> None:
        """Send an answer to whoever asked: an operator, or a tool on this machine."""
        if answer is not None and not self.operators.take_answer(answer):
            self.services.answer(answer)

    # -- the committed log -----------------------------------------------------------------------------------------

    def _handlers(self) -> dict[Message, Any]:
        return {
            codecs.SESSION_OPEN_EVENT: self._execute_open,
            codecs.SESSION_CLOSE_EVENT: self._execute_close,
            codecs.SESSION_MESSAGE_HEADER: self._execute_service_message,
            codecs.TIMER_EVENT: lambda record: self.services.timers.execute(record.values.correlation_id),
            codecs.CLUSTER_ACTION_REQUEST: self.control.execute,
            codecs.NEW_LEADERSHIP_TERM_EVENT: self._execute_new_term,
            ordo_codecs.CONFIGURATION_EVENT: self._execute_configuration,
            **self.rules.handlers,
        }

    def _execute_open(self, record: LogRecord) -> None:
        session = self.sessions.execute_open(record.values, record.position)
        if self.is_leader:
            self.requests.on_opened(session, self, self.cluster_time)
            self.room.tell(session)

    def _execute_configuration(self, record: LogRecord) -> None:
        self._answer_tool(self.membership.execute(record.position))

    def _execute_close(self, record: LogRecord) -> None:
        self.sessions.execute_close(record.values.cluster_session_id)

    def _execute_service_message(self, record: LogRecord) -> None:
        self.services.messages.execute(record.values.cluster_session_id)

    def update_ingress(self) -> None:
        """Open the ingress while a leader is known, and close it while the cluster is suspended, ends or hands over."""
        has_leader = self.core.leader_member_id != NULL_VALUE
        is_held = self.control.is_suspended or self.transfer.is_under_way or self._ends
        self.sequencer.open_ingress(has_leader and not is_held)

    @property
    def _ends(self) -> bool:
        """Whether this leader has told all members where to end: no message comes behind that position."""
        return self.is_leader and self.termination.is_under_way

    def _execute_new_term(self, record: LogRecord) -> None:
        self.rules.identity.execute(record)
        if record.values.leadership_term_id == self.core.leadership_term_id == self.sequencer.leading_term_id:
            self._serve(record.values.leadership_term_id)

    def touch_sessions(self) -> None:
        """Restart the timeout of every session."""
        self.sessions.touch(self.cluster_time)

    # -- snapshots -------------------------------------------------------------------------------------------------

    @property
    def executed_position(self) -> int:
        return self.executor.position

    def begin_snapshot(self, record: LogRecord) -> None:
        """Begin a snapshot of the state after the ClusterActionRequest that was just executed."""
        values = record.values
        self.exchange.orders.note(record.position, values.timestamp)
        app_version = self.rules.version_at(record.position)
        point = SnapshotPoint(record.position, values.leadership_term_id, app_version)
        self.snapshots.begin(point, values.timestamp)

    def capture_snapshot(self, point: SnapshotPoint) -> ModuleSnapshot:
        configuration = self.membership.at(point.log_position)
        rules = self.rules.at(point.log_position)
        timers, messages = self.services.timers, self.services.messages
        return capture(point, self.sessions, timers, messages, configuration, self.core.terms, *rules)

    def is_ready_to_end(self, log_position: int) -> bool:
        """Everything up to the position is executed, and no snapshot is under way."""
        is_executed = self.executor.has_executed(log_position, self.sequencer.commit_position)
        return is_executed and not self.snapshots.is_under_way

    def pause_execution(self) -> None:
        self.executor.pause()
        self.counters.set_state(ModuleState.SNAPSHOT)

    def go_on(self) -> None:
        """Resume execution, if it was paused."""
        if self.executor.is_paused:
            self.counters.set_state(ModuleState.ACTIVE)
            self.executor.resume()
            self.execute(self.sequencer.commit_position)

    def snapshot_done(self, log_position: int) -> None:
        """Note that the snapshot at this position was taken or has failed."""
        self.control.snapshot_done(log_position)

    # -- leading ---------------------------------------------------------------------------------------------------

    def _serve(self, leadership_term_id: int) -> None:
        """Become the serving leader: the first record of this member's own term is committed and executed."""
        self._serving_term = self.leadership_term_id = leadership_term_id
        self.sessions.lead(self, self.cluster_time)
        self._leader_ingress.lead()
        self.room.lead()
        self.control.lead()
        self.update_ingress()

    def _lose_leadership(self) -> None:
        self.control.lose_leadership()
        self.transfer.lose_leadership()
        self._answer_tool(self.membership.lose_leadership())
        self.requests.lose_leadership(self)
        self._serving_term = NULL_VALUE
        self._leader_ingress.lose_leadership()
        self.sessions.lose_leadership()
        self.services.lose_leadership()

    # -- the slow tick ---------------------------------------------------------------------------------------------

    def slow_tick(self, now_ns: int) -> None:
        """Run the work of every 10 to 50 ms: timeouts, timers, requests, joins, control."""
        if self.sequencer.append_position != self.core.append_position:
            self.on_appended(self.sequencer.append_position, now_ns)
        self.core.tick(now_ns)
        self.carry_out(now_ns)
        is_whole = Distrust.LOG not in self.core.distrust
        self._seams.committed.raise_to(self.sequencer.commit_position if is_whole else 0, now_ns)
        self.periodic.work(self.sequencer.append_position, now_ns)
        self.advance_join(now_ns)
        self.snapshots.work()
        self.termination.work(now_ns)
        self.transfer.work(now_ns)
        self.carry_out(now_ns)
        self.services.work()
        self.service_watch.work(now_ns)
        self._leader_ingress.work(now_ns)
        # One that was told to end asks nobody for a replay, which would wait for it in vain.
        self.log.is_held = self.exchange.fetch.is_under_way or self.room.is_out or self.transfer.is_stopping
        self.queries.work(now_ns)
        cluster_time = self.cluster_time
        self.operators.work(cluster_time)
        self.backups.work(cluster_time)
        leader_id = self.core.leader_member_id
        if not self.control.is_suspended:
            self.counters.client_timeouts.increment(self.requests.work(self, leader_id, cluster_time))
            if self.is_leader:
                self.counters.client_timeouts.increment(self.sessions.work(self, cluster_time))
                self.services.fire_timers()
                self.services.append_messages()
        if self.is_leader:
            self.sessions.send(self, self.sequencer.commit_position)
            self.control.poll(now_ns)

    def advance_join(self, now_ns: int) -> None:
        """Advance this follower on its way into the leader's log."""
        lost = self.log.take_loss(now_ns)
        if lost is not None:
            self.core.on_log_lost(*lost, now_ns)
            self.carry_out(now_ns)
            return
        joined_position = self.log.advance_join(now_ns, self.send)
        if joined_position is not None:
            self.core.on_joined(joined_position, now_ns)
            self.carry_out(now_ns)

    def announce(self, event: str, text: str) -> None:
        """Write one line to the log of the process."""
        self._seams.events(event, member_id=self.member_id, text=text)

    def _on_log_failure(self, error: Exception) -> None:
        """Give up the leadership when the log cannot be sent to a member, so that another one gives it out."""
        # The damage may be below what a start reads. This member still votes: what it has promised is at the end.
        if isinstance(error, CorruptFrameError | StorageMissingError):
            self._seams.store.put_check_log(True)
            remedy = "start it again while others run, it repairs that"
        elif isinstance(error, StorageError):
            remedy = "see to its disk"
        else:
            self.record_error(str(error))
            return
        self.record_error(f"{error.message}: this member hands over; {remedy}")
        self.transfer.begin(None, self._seams.clock.now())

    def _on_log_gone(self, member_id: int, position: int, start_position: int) -> None:
        now_ns = self._seams.clock.now()
        self.exchange.refusals.refuse(member_id, position, start_position, self.leadership_term_id, now_ns)

    def start_again(self, reason: str) -> None:
        """End the node, so that it is built anew from its folders."""
        self.announce("cluster.restart", reason)
        self.starts_again = self.has_ended = True

    def record_error(self, message: str) -> None:
        self.counters.errors.increment()
        self._seams.errors.record_text(message)

    # -- what consensus asks for -----------------------------------------------------------------------------------

    def carry_out(self, now_ns: int) -> None:
        """Carry out the core's commands in order until none is left."""
        while pending := self.core.take_commands():
            for command in pending:
                self._carry_out_one(command, now_ns)

    def _carry_out_one(self, command: commands.Command, now_ns: int) -> None:
        store = self._seams.store
        match command:
            case commands.Commit(position):
                self.sequencer.commit_to(position, now_ns)
            case commands.Send(member_id, message):
                self.send(member_id, message)
            case commands.Broadcast(message):
                self.outgoing.broadcast(message)
            case commands.Introduce(member_id, introduced_id):
                self.outgoing.introduce(member_id, introduced_id)
            case commands.PersistCandidateTerm(candidate_term_id, log_position):
                store.put_candidate_term(candidate_term_id, log_position, self.cluster_time)
            case commands.PersistTerm(leadership_term_id, base_position):
                store.put_term(leadership_term_id, base_position)
            case commands.PersistDistrust(distrust):
                store.put_distrust(distrust := self.standings.on_distrust(distrust))
                self._seams.committed.on_distrust(distrust, self.sequencer.commit_position)
                self.counters.distrust.set(int(distrust))
                self._seams.events("cluster.trust", member_id=self.member_id, distrust=distrust.name or "NONE")
            case commands.PrepareLog(leadership_term_id, base_position):
                self._prepare_log(leadership_term_id, base_position, now_ns)
            case commands.JoinLog():
                self.leadership_term_id = command.leadership_term_id
                self.log.join(command)
                self.update_ingress()
            case commands.LeaveLog():
                self._leave_log(now_ns)
            case commands.TruncateLog(position):
                self.log.truncate(position)
                self._terms_known_to = min(self._terms_known_to, position)
                self.executor.truncate(position)
                self.rules.truncate(position)
                self.sequencer.set_next_record(self.executor.next_position)
                self.core.on_truncated(position, now_ns)
                self.membership.apply()
            case commands.ChangeRole(role):
                self.counters.role.set(int(role))
            case commands.Transition():
                self._on_transition(command)
            case _:
                assert_never(command)

    def _on_transition(self, transition: commands.Transition) -> None:
        leadership_term_id, new_state = self.core.leadership_term_id, transition.new_state
        self._seams.events(
            "cluster.election",
            member_id=self.member_id,
            state=new_state.name,
            previous=transition.old_state.name,
            reason=transition.reason,
            leadership_term_id=leadership_term_id,
        )
        self.sequencer.set_steady(new_state is ElectionState.CLOSED)
        self.counters.on_election_state(int(new_state), leadership_term_id)

    def _prepare_log(self, leadership_term_id: int, base_position: int, now_ns: int) -> None:
        self.leadership_term_id = leadership_term_id
        try:
            app_version = self.rules.versions.of_first_record()
            session_id = self.log.lead(leadership_term_id, base_position, self.membership.others, now_ns)
            end = self.log.append_first_record(leadership_term_id, base_position, self.cluster_time, app_version)
        except StorageError:
            raise
        except OrdoError as error:
            self.record_error(f"cannot lead term {leadership_term_id}: {error.message}")
            self.core.on_log_lost(error.message, False, now_ns)
            return
        self.counters.leader_term.set(leadership_term_id)
        self.core.on_log_ready(session_id, end, now_ns)

    def _leave_log(self, now_ns: int) -> None:
        self.sequencer.open_ingress(False)
        self.counters.leader_term.set(NULL_VALUE)
        if self.is_leader:
            self._lose_leadership()
        self.log.leave()
        self.core.on_appended(self.sequencer.append_position, now_ns)

    def send(self, member_id: int, message: messages.Message) -> None:
        """Send a message of consensus to one member."""
        self.outgoing.send(member_id, message)
