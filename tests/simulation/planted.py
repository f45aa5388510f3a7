"""Bugs that the simulator must find. None of them is an option of the product: they are put in from here.

Each is a function that takes a `patch(owner, name, value)`, e.g. the `setattr` of pytest's monkeypatch. `plants.py`
finds what is here and in the files `planted_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ordo.archive.control.live_replays import LiveReplays
from ordo.archive.scrub import Scrubber
from ordo.cluster.client.acknowledgements import Acknowledgements
from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.container import service_container
from ordo.cluster.container.execution import ServiceExecution
from ordo.cluster.container.record_orders import RECORD_CALLBACKS
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.streams.queries import ContainerQueries
from ordo.cluster.container.versions import VersionSwitch
from ordo.cluster.module import consensus_module
from ordo.cluster.module.log.cluster_control import ClusterControl
from ordo.cluster.module.log.disk_space_watch import RoomWatch
from ordo.cluster.module.log.log_executor import LogExecutor
from ordo.cluster.module.log.log_keeper import LogKeeper
from ordo.cluster.module.members.membership import Membership
from ordo.cluster.module.sessions import session_requests
from ordo.cluster.module.sessions.service_messages import PendingServiceMessages
from ordo.cluster.module.sessions.timers import TimerService
from ordo.cluster.module.snapshots import log_repair
from ordo.cluster.module.snapshots.catchup_refusals import CatchupRefusals
from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
from ordo.cluster.module.snapshots.log_repair import LogRepair
from ordo.cluster.module.snapshots.retention import Retention
from ordo.cluster.module.snapshots.snapshot_reports import Agreement, HeldSnapshot, SnapshotReports
from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.cluster.module.state.recovery import Recovery
from ordo.cluster.module.state.state_store import Skip, SnapshotEntry, StateStore
from ordo.cluster.module.versions.skips import Skips
from ordo.cluster.module.versions.state_doubt import StateDoubt
from ordo.cluster.node import node
from ordo.cluster.node.archive_service import CommittedLogBounds
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.consensus import core, dispatch
from ordo.consensus.core import ConsensusCore
from ordo.consensus.handlers import election, following, leading, membership, transfer, trust
from ordo.consensus.handlers.verification import Comparison, Verdict
from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state import context, quorum
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.context import Context
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import NewLeadershipTerm, ReadHeartbeatAck
from ordo.consensus.state.states import ELECTING_STATES
from ordo.follow.recordings.live_stream import LiveStream
from ordo.follow.recordings.log_source import LogSource
from ordo.service_api.requests import RequestLimits, RequestTable
from ordo.service_api.service import MessageRun
from ordo.service_api.timers import ServiceTimers
from ordo.transport.driver.conducting.images import Images
from tests.simulation import world
from tests.simulation.network import Faults
from tests.simulation.own_code import VERSIONS
from tests.simulation.planted_services import apply_versions_late
from tests.simulation.service import RunService, digest_of
from tests.simulation.timeline import HastySequencer

Patch = Callable[[Any, str, Any], None]

RECORDING_POSITION_TYPE_ID = 100
BEGIN_PASS = Scrubber._begin_pass
ADD_SNAPSHOT = SnapshotShelf.add


def vote_is_not_durable(patch: Patch) -> None:
    """Raft §5: a member answers before its vote is on disk."""
    patch(StateStore, "put_candidate_term", lambda *_: None)


def two_votes_in_a_term(patch: Patch) -> None:
    """Raft §5.2: whoever asks gets the vote."""

    def on_request_vote(ctx: Context, message: Any) -> None:
        if message.candidate_term_id == ctx.candidate_term_id:
            ctx.voted_for = message.candidate_member_id
        original(ctx, message)

    original = election.on_request_vote
    patch(election, "on_request_vote", on_request_vote)


def older_logs_are_voted_for(patch: Patch) -> None:
    """Raft §5.4.1: a candidate's log is not looked at."""
    patch(election, "compare_log", lambda *_: 0)
    patch(quorum, "compare_log", lambda *_: 0)


def positions_before_terms(patch: Patch) -> None:
    """Raft §5.4.1: the longer log is the newer one, of whatever term its end is."""

    def compare_log(term_a: int, position_a: int, term_b: int, position_b: int) -> int:
        return quorum_compare_log(position_a, term_a, position_b, term_b)

    quorum_compare_log = quorum.compare_log
    patch(election, "compare_log", compare_log)
    patch(quorum, "compare_log", compare_log)


def a_minority_elects(patch: Patch) -> None:
    """Raft §5.2: a candidate leads with its own vote when its ballot is over."""
    patch(election, "is_quorum_leader", lambda *_: True)


def lower_terms_are_followed(patch: Patch) -> None:
    """Raft §5.1: a member follows a leader whose term is below the one it is bound to."""
    original = following.on_new_leadership_term

    def on_new_leadership_term(ctx: Context, message: Any) -> None:
        if ctx.log_term_id <= message.leadership_term_id < ctx.candidate_term_id and ctx.state in ELECTING_STATES:
            ctx.candidate_term_id = message.leadership_term_id
        original(ctx, message)

    patch(dispatch, "HANDLERS", {**dispatch.HANDLERS, NewLeadershipTerm: (on_new_leadership_term, "leader_member_id")})


def commit_on_a_minority(patch: Patch) -> None:
    """Raft §5.3: the leader alone is enough for a commit."""
    original: type[Any] = vars(context)["Progress"]

    class Alone(original):  # type: ignore[misc]
        def configure(self, voter_ids: Iterable[int], learner_ids: Iterable[int]) -> None:
            others = {*voter_ids, *learner_ids} - {self.member_id}
            super().configure((self.member_id,), others)

    patch(context, "Progress", Alone)


def old_terms_are_committed_by_count(patch: Patch) -> None:
    """Raft §5.4.2, figure 8: entries of earlier terms are committed before one of the leader's own is."""
    original = leading.on_log_ready

    def on_log_ready(ctx: Context, log_session_id: int, first_record_end: int) -> None:
        original(ctx, log_session_id, first_record_end)
        ctx.progress.first_record_end = 0

    patch(leading, "on_log_ready", on_log_ready)


def truncation_is_forgotten(patch: Patch) -> None:
    """Raft §5.3: a member joins with entries that its leader does not have."""
    patch(following, "compare_with_leader", lambda *_: Comparison(Verdict.PREFIX))


def records_tell_of_more_than_is_committed(patch: Patch) -> None:
    """Raft §5.3: a record takes along the end of its leader's log in place of the commit position."""
    patch(consensus_module, "Sequencer", HastySequencer)


def execution_runs_ahead_of_commit(patch: Patch) -> None:
    """Raft §5.3: the service executes what is recorded, not what is committed."""
    original = ServiceContainer.tick

    def tick(self: Any, now_ns: int) -> int:
        recordings = [counter.counter_id for counter in self._client.counters if _is_log(self, counter)]
        if self._recovery is not None and recordings:
            self._recovery.positions[0] = self._client.counters.counter(recordings[-1])
        return int(original(self, now_ns))

    patch(ServiceContainer, "tick", tick)


def _is_log(container: Any, counter: Any) -> bool:
    recording_id = int.from_bytes(counter.key[0:8], "little", signed=True)
    is_position = counter.type_id == RECORDING_POSITION_TYPE_ID
    recovery = container._recovery
    return bool(is_position and recovery is not None and recording_id == recovery.log_recording.value)


def acknowledgement_before_sync(patch: Patch) -> None:
    """Raft §5: a member reports what is in its page cache only."""
    original: Callable[..., Any] = vars(node)["Archive"]

    def archive(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, "sync": "none"})

    patch(node, "Archive", archive)


def session_ids_start_again(patch: Patch) -> None:
    """A new leader numbers sessions by those it admitted itself, and does not look which ids the log has given."""

    def take_session_id(self: Any) -> int:
        self.taken = getattr(self, "taken", 0) + 1
        return int(self.taken)

    patch(session_requests.SessionRequests, "_take_session_id", take_session_id)


def execution_goes_on_during_a_snapshot(patch: Patch) -> None:
    """The module's part of a snapshot is taken at a later position than the service's."""
    patch(LogExecutor, "pause", lambda self: None)


def snapshots_forget_timers(patch: Patch) -> None:
    """Timers do not survive a restart."""
    patch(ServiceTimers, "snapshot", lambda self: [])


def late_events_fire_timers(patch: Patch) -> None:
    """An event that is under way when its timer is cancelled or scheduled anew reaches the service all the same."""
    original = ServiceTimers.fire

    def fire(self: ServiceTimers, correlation_id: int, timestamp: int) -> bool:
        original(self, correlation_id, timestamp)
        return True

    patch(ServiceTimers, "fire", fire)


def events_count_for_later_timers(patch: Patch) -> None:
    """An event takes away, in the module, whatever timer has its id by then."""
    original = TimerService.execute

    def execute(self: TimerService, correlation_id: int) -> None:
        original(self, correlation_id)
        self.cancel(correlation_id)

    patch(TimerService, "execute", execute)


def service_messages_are_logged_twice(patch: Patch) -> None:
    """A leader appends what an earlier one has appended already."""
    original = PendingServiceMessages.enqueue

    def enqueue(self: Any, payload: bytes) -> None:
        self.log_session_id = min(self.log_session_id, self.next_session_id - 1)
        original(self, payload)

    patch(PendingServiceMessages, "enqueue", enqueue)


def leader_answers_without_a_round(patch: Patch) -> None:
    """Dissertation §6.4: a leader takes it for granted that it still leads."""
    patch(core.ConsensusCore, "is_quorum", lambda *_: True)


def any_round_confirms_a_read(patch: Patch) -> None:
    """Dissertation §6.4: what members said in an earlier round of a leader counts for the one under way."""
    original = ReadIndex.on_message

    def on_message(self: Any, message: Any, now_ns: int) -> None:
        if isinstance(message, ReadHeartbeatAck):
            message = message._replace(round_id=self._round_id)
        original(self, message, now_ns)

    patch(ReadIndex, "on_message", on_message)


def follower_answers_before_its_service_is_there(patch: Patch) -> None:
    """Dissertation §6.4: the read index is known, and the service has not executed up to it."""
    original = ContainerQueries._push

    def push(self: Any, query: Any) -> None:
        query.read_position = 0
        original(self, query)

    patch(ContainerQueries, "_push", push)


def successors_are_taken_at_the_leaders_word(patch: Patch) -> None:
    """Dissertation §3.10: any member is asked to stand, whatever it has of the log, and gets the votes it asks for.

    Both are needed. Whoever stands too early alone finds no quorum whose logs are not newer than its own (§5.4.1), and
    the votes alone do no harm while only members with the whole log are asked to stand.
    """
    begin_transfer = transfer.begin_transfer

    def begin(ctx: Context, target_id: int | None, end_position: int) -> bool:
        is_begun = begin_transfer(ctx, target_id, end_position)
        ctx.transfer_position = 0
        return is_begun

    def voting(on_request_vote: Callable[[Context, Any], None]) -> Callable[[Context, Any], None]:
        def vote(ctx: Context, message: Any) -> None:
            on_request_vote(ctx, message._replace(log_leadership_term_id=2**62) if message.is_transfer else message)

        return vote

    patch(transfer, "begin_transfer", begin)
    patch(transfer, "on_request_vote", voting(transfer.on_request_vote))
    patch(election, "on_request_vote", voting(election.on_request_vote))


def damaged_datagrams_arrive(patch: Patch) -> None:
    """Not the product's fault: without checksums on the network, damage reaches the log and must be seen."""

    def faults(*arguments: Any, **options: Any) -> Faults:
        return Faults(*arguments, **{**options, "checksums": False})

    patch(world, "Faults", faults)


def distrusted_members_vote(patch: Patch) -> None:
    """A member that lost a part of its log votes with the rest."""
    original = Context.__dict__["may_vote"].fget

    def may_vote(self: Context) -> bool:
        distrust, self.distrust = self.distrust, Distrust.NONE
        try:
            return bool(original(self))
        finally:
            self.distrust = distrust

    patch(Context, "may_vote", property(may_vote))


def distrust_is_not_durable(patch: Patch) -> None:
    """A member forgets at its next start that it lost something."""
    patch(StateStore, "put_distrust", lambda self, distrust: None)


def forgotten_votes_are_given_again(patch: Patch) -> None:
    """A member with an empty folder votes once its log is there, without asking who may have had its vote."""

    def regain_vote(ctx: Context) -> None:
        if Distrust.VOTE in ctx.distrust:
            trust.set_distrust(ctx, Distrust.NONE)

    patch(trust, "regain_vote", regain_vote)


def learners_are_counted(patch: Patch) -> None:
    """Raft §4.2.1: what a learner acknowledges counts like a voter's."""
    original: type[Any] = vars(context)["Progress"]

    class Everybody(original):  # type: ignore[misc]
        def configure(self, voter_ids: Iterable[int], learner_ids: Iterable[int]) -> None:
            super().configure((*voter_ids, *learner_ids), ())

    patch(context, "Progress", Everybody)


def configurations_are_forgotten_by_a_restart(patch: Patch) -> None:
    """Raft §4.1: a member goes by what its log says only as long as it lives."""
    original = ConsensusCore.on_configuration

    def on_configuration(self: ConsensusCore, position: int, configuration: Configuration) -> None:
        if self._is_started:
            original(self, position, configuration)

    patch(ConsensusCore, "on_configuration", on_configuration)
    recover = Recovery.durable_state
    patch(Recovery, "durable_state", lambda self: replace(recover(self), configuration=None))


def two_changes_at_once(patch: Patch) -> None:
    """Raft §4.1: a change is appended before the one before it is committed."""
    original = Membership.on_request

    def on_request(self: Membership, request: Any, now_ns: int) -> bytes | None:
        self._request, self._is_in_flight = None, False
        return original(self, request, now_ns)

    patch(Membership, "on_request", on_request)
    patch(membership, "_find_bad_moment", lambda _: "")


def a_restart_commits_its_whole_log(patch: Patch) -> None:
    """Raft §5.3: what a member finds on its disk is replayed to the end, committed or not."""
    original = LogKeeper.open

    def open_log(self: Any, recovery: Any, announce: Any) -> None:
        original(self, recovery, announce)
        self._sequencer.commit_to(recovery.append_position, 0)

    patch(LogKeeper, "open", open_log)


def orders_outlive_their_leader(patch: Patch) -> None:
    """cluster-consensus.md §19: a leader that was replaced stays suspended, although that was never committed."""

    def lose_leadership(self: Any) -> None:
        self._counters.control_toggle.set(ControlToggle.INACTIVE)

    patch(ClusterControl, "lose_leadership", lose_leadership)


def a_new_leader_takes_orders_while_suspended(patch: Patch) -> None:
    """cluster-consensus.md §19: the only order to a suspended cluster is to go on; another one would bar the way."""

    def lead(self: Any) -> None:
        self._counters.control_toggle.set(ControlToggle.NEUTRAL)

    patch(ClusterControl, "lead", lead)


def log_goes_before_a_quorum_has_the_snapshot(patch: Patch) -> None:
    """Raft §7: a member deletes the log below its own newest snapshot, whoever else has one."""
    original = Retention.find_log_bound

    def find_log_bound(self: Retention, agreed_position: int, needed_position: int | None, *rest: int) -> int:
        return original(self, self._shelf.newest_position, None, *rest)

    patch(Retention, "find_log_bound", find_log_bound)


def a_start_forgets_who_waits(patch: Patch) -> None:
    """A member that starts again deletes log before it has heard who lacks it."""
    patch(SnapshotReports, "is_complete", lambda *_: True)


def snapshots_of_a_minority_are_given_away(patch: Patch) -> None:
    """Raft §7: a leader sends members for its own newest snapshot, which perhaps nobody else holds alike."""
    original = CatchupRefusals.refuse

    def refuse(self: CatchupRefusals, *arguments: int) -> None:
        digests = self._shelf.digests()
        agreement, newest = self._agreement._agreement, max(digests, default=-1)
        self._agreement._agreement = Agreement(HeldSnapshot(newest, digests.get(newest, b"")))
        original(self, *arguments)
        self._agreement._agreement = agreement

    patch(CatchupRefusals, "refuse", refuse)


def a_fetched_snapshot_keeps_the_old_log(patch: Patch) -> None:
    """Raft §7: a member that takes over a snapshot goes on as if its own log reached up to there."""

    def install(self: StateStore, entry: Any, digest: bytes, terms: list[tuple[int, int]]) -> None:
        self.put_snapshot(entry, digest)
        for term_id, base_position in terms:
            self.put_term(term_id, base_position)

    patch(StateStore, "install", install)


def what_is_mended_is_not_written(patch: Patch) -> None:
    """The scrubber finds damage, the log of another member is fetched, and all is taken for well."""
    patch(LogRepair, "_copy", lambda *_: None)


def a_damaged_snapshot_stays_the_one_that_is_served(patch: Patch) -> None:
    """The fetched copy of a snapshot that has rotted is thrown away, and all is taken for well."""

    def add(self: SnapshotShelf, entry: SnapshotEntry, digest: bytes) -> None:
        former = self._entries.get(entry.log_position, entry)
        ADD_SNAPSHOT(self, former._replace(is_valid=True), digest)

    patch(SnapshotShelf, "add", add)


def damage_behind_damage_is_not_looked_for(patch: Patch) -> None:
    """After the first damaged place of a segment the rest of it is not read again."""
    patch(Scrubber, "look_again", lambda *_: None)
    patch(Scrubber, "_begin_pass", lambda self, now_ns: self.pass_count == 0 and BEGIN_PASS(self, now_ns))


def places_that_cannot_be_read_are_left(patch: Patch) -> None:
    """The scrubber tells of a page that the device does not give back, and nobody fetches it."""
    patch(log_repair, "is_unreadable", lambda error: False)


def one_member_leaves_a_record_out_alone(patch: Patch) -> None:
    """A member whose service failed goes on without the record, whatever the others do with it."""
    original = Skips.on_service_failure

    def on_service_failure(self: Skips, service_id: int, values: Any, now_ns: int) -> None:
        original(self, service_id, values, now_ns)
        if self._own_id == 1:
            self._learn(Skip(values.log_position, values.log_position, 0, values.text))

    patch(Skips, "on_service_failure", on_service_failure)


def half_done_state_is_kept(patch: Patch) -> None:
    """A container goes on behind the record that its service raised at."""
    original = ServiceExecution.on_failure

    def on_failure(self: ServiceExecution, error: Exception, position: int) -> bool:
        is_record = self._loop.callback in RECORD_CALLBACKS
        return is_record or original(self, error, position)

    patch(ServiceExecution, "on_failure", on_failure)


def skips_count_before_they_are_committed(patch: Patch) -> None:
    """A leader that is replaced has left out a record that the others have not."""
    original = Skips.on_record

    def on_record(self: Skips, position: int, values: Any) -> None:
        original(self, position, values)
        self._learn(self._appended.pop())

    patch(Skips, "on_record", on_record)


def one_failure_is_enough(patch: Patch) -> None:
    """The leader leaves out whatever any service failed at, though others have executed it."""
    original = Skips._decide

    def decide(self: Skips, now_ns: int) -> None:
        for report in self._reports.values():
            if report.failure.wants_skip and not self._is_under_way(report.failure.log_position):
                self._append(report.failure)
        original(self, now_ns)

    patch(Skips, "_decide", decide)


def skips_are_forgotten_by_a_restart(patch: Patch) -> None:
    """What was left out is executed after the next start: nobody has put it into the store or into a snapshot."""
    patch(StateStore, "put_skip", lambda self, skip: None)
    patch(Skips, "below", lambda self, log_position: [])


def snapshots_forget_requests(patch: Patch) -> None:
    """Raft §6.3: what was executed for whom is not part of the snapshot."""
    original = container_snapshot.encode
    patch(container_snapshot, "encode", lambda snapshot: original(snapshot._replace(requests=())))


def snapshots_forget_answers(patch: Patch) -> None:
    """Raft §6.3: a request that is repeated across a snapshot is executed again."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        snapshot = original(messages)
        states = [state._replace(number=state.confirmed, answers=[]) for state in snapshot.requests]
        return snapshot._replace(requests=tuple(states))

    patch(container_snapshot, "decode", decode)


def snapshots_forget_how_many_messages_came(patch: Patch) -> None:
    """A member that starts from a snapshot counts the messages of a session from the session's beginning."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        snapshot = original(messages)
        return snapshot._replace(numbers=tuple(row._replace(next_number=row.first_number) for row in snapshot.numbers))

    patch(container_snapshot, "decode", decode)


def a_new_term_begins_without_a_mark(patch: Patch) -> None:
    """What was lost with a leader is not told apart from what follows."""
    original = Acknowledgements.begin

    def begin(self: Acknowledgements, publication: Any, now_ns: int) -> bool:
        return self._session.session_id == self._session_id or original(self, publication, now_ns)

    patch(Acknowledgements, "begin", begin)


def identities_expire_too_early(patch: Patch) -> None:
    """An identity is forgotten while its client lives."""
    original = ServiceContainer.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.set_requests(RequestTable(RequestLimits(idle_timeout=300)))

    patch(ServiceContainer, "__init__", init)


def requests_are_sent_before_they_are_in_the_journal(patch: Patch) -> None:
    """A client that starts again gives a number a second time, to another request."""
    patch(Journal, "sync", lambda self: None)


def a_closed_client_confirms_what_it_has_not_seen(patch: Patch) -> None:
    """What was under way when a client was closed is gone from its journal."""
    original = ClientRequests.close

    def close(self: Any, error: Any) -> None:
        if self._journal is not None and self._failure is None:
            self._journal.confirm(self._number)
        original(self, error)

    patch(ClientRequests, "close", close)


def different_members_are_told_and_trusted(patch: Patch) -> None:
    """A member whose state is not that of the others goes on with it."""
    patch(StateDoubt, "work", lambda *_: None)


def a_different_state_is_taken_up_again(patch: Patch) -> None:
    """The others' state is here, and the member starts again from its own."""
    patch(StateStore, "replace_snapshots", lambda *_: None)


def members_in_doubt_serve(patch: Patch) -> None:
    """A member whose state is not that of the others leads like any other."""
    patch(Context, "is_in_doubt", property(lambda self: False))


def outputs_are_executed_again_after_a_snapshot(patch: Patch) -> None:
    """A member that was restored takes the second copy of an application's output for the first."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        snapshot = original(messages)
        states = [state._replace(number=state.confirmed, answers=[]) for state in snapshot.requests]
        return snapshot._replace(requests=tuple(states))

    left = {name: getattr(container_snapshot, name) for name in ("encode", "payloads")}
    patch(service_container, "container_snapshot", SimpleNamespace(decode=decode, **left))


def readers_are_given_what_is_not_committed(patch: Patch) -> None:
    """A node's archive replays its log to strangers as far as it is recorded."""
    patch(CommittedLogBounds, "limit", lambda self, recording_id: None)


def a_change_of_nodes_leaves_a_gap(patch: Patch) -> None:
    """Whoever reads the log goes on, at the next node, at the end of what that node has."""
    original = LogSource.begin

    def begin(self: LogSource, position: int, length_bytes: int | None = None) -> None:
        original(self, max(position, self.end_position) if position > 0 else position, length_bytes)

    patch(LogSource, "begin", begin)


def readers_join_the_shared_stream_with_a_gap(patch: Patch) -> None:
    """Whoever reads the log gives up its replay when it asks for the stream of all, not when it has reached that."""
    original = LogSource.poll

    def poll(self: LogSource, handler: Callable[[int, bytes], object], limit: int) -> int:
        is_joining = self._live is not None and not self._live.is_live
        return 0 if is_joining else original(self, handler, limit)

    patch(LogSource, "poll", poll)
    patch(LiveStream, "_has_reached", lambda *_: True)


def the_shared_stream_has_what_is_not_committed(patch: Patch) -> None:
    """A node's archive sends its readers the log as far as it is recorded, once they have caught up."""
    original = LiveReplays.start

    def start(self: LiveReplays, session: Any, request: Any, channel: str, limit: Any) -> None:
        original(self, session, request, channel, None)

    patch(LiveReplays, "start", start)


def the_state_shows_how_many_messages_came_at_a_time(patch: Patch) -> None:
    """A service counts its calls, and members do not get the same messages in one call."""
    original = RunService.on_session_messages

    def on_session_messages(self: RunService, messages: MessageRun) -> None:
        original(self, messages)
        self.state.digest = digest_of(self.state.digest.encode())

    patch(RunService, "on_session_messages", on_session_messages)


def cluster_time_follows_the_wall_clock(patch: Patch) -> None:
    """A step of the leader's wall clock is a step of cluster time."""

    def work(self: ClockWatch) -> None:
        self.clock.adopt(self.clock.now() + self.clock.wall_clock_ahead_ms * 1_000_000 // self.clock.unit_ns)

    patch(ClockWatch, "work", work)


def successors_go_by_their_own_clocks(patch: Patch) -> None:
    """A member does not take the time over from its leader, and is the next."""
    patch(ClockWatch, "on_message", lambda *_: None)


def one_member_applies_versions_late(patch: Patch) -> None:
    """Its containers execute the first records behind a VersionEvent with the code of before."""
    apply_versions_late(patch, lambda container: container.identity.member_id == 1)


def one_member_executes_all_with_its_newest_code(patch: Patch) -> None:
    """A member that starts from the beginning of the log takes the newest code that it has, as a newcomer's did."""
    original = VersionSwitch.choose

    def choose(self: Any, app_version: int) -> bool:
        return original(self, max(VERSIONS) if self._host.member_id == 1 else app_version)

    patch(VersionSwitch, "choose", choose)


def versions_are_forgotten_by_a_restart(patch: Patch) -> None:
    """A member that starts from a snapshot takes the version that a new log begins with."""
    original = VersionSwitch.choose
    patch(VersionSwitch, "choose", lambda self, app_version: original(self, min(VERSIONS)))


def nobody_looks_at_the_room(patch: Patch) -> None:
    """Members write to their disks until these are full."""
    patch(RoomWatch, "_look", lambda self: None)


def a_full_disk_is_full_for_ever(patch: Patch) -> None:
    """A leader does not notice that there is room again."""
    patch(RoomWatch, "_open", lambda self: None)


def images_whose_files_come_late_are_forgotten(patch: Patch) -> None:
    """A driver builds only images whose logs are there at once."""
    patch(Images, "has_logs", property(lambda images: False))
