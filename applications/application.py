"""One instance of an application: follows the committed log, runs a service over it, and writes its outputs back.

Instances of one group run side by side and all write; the cluster takes the first copy of each output. Nothing of this
needs to know the others: what is done follows from the log (docs/APPLICATIONS.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ordo.applications.app_executor import AppExecutor
from ordo.applications.app_mode import AppMode as AppMode
from ordo.applications.app_queries import AppQueries
from ordo.applications.app_versions import AppVersions
from ordo.applications.canary import CanaryExecutor, Difference, SilentRequests
from ordo.applications.checkpoints import Checkpoints
from ordo.applications.difference_reports import DifferenceReports
from ordo.applications.elected_outputs import ElectedRequests
from ordo.applications.group_snapshots import GroupSnapshot
from ordo.applications.instance_reports import InstanceReports, InstanceState
from ordo.applications.outputs import (
    GROUP_INCARNATION,
    GroupRequests,
    OutputClient,
    RefusedOutput,
    group_identity,
)
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.connection.endpoints import archive_endpoint, check_list
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.levels import describe_want_of_output_ids
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.sessions.instance_codec import INSTANCE_BYTES_MAX
from ordo.consumers.names import check_group
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.follower import LogFollower
from ordo.runtime.errors import (
    ArchiveError,
    ClusterTimeoutError,
    ConfigurationError,
    OrdoError,
    SessionClosedError,
    SessionRejectedError,
)
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.kinds import check_kinds, check_seconds
from ordo.service_api.service import Service
from ordo.transport.client.client_transport import ClientTransport

REQUESTS: dict[AppMode, type[GroupRequests]] = {
    AppMode.ACTIVE_ACTIVE: GroupRequests,
    AppMode.ACTIVE_PASSIVE: ElectedRequests,
    AppMode.CANARY: SilentRequests,
}
FRAGMENTS_PER_CYCLE = 256
CHORES_INTERVAL_NS = 1_000_000
"""So long at most what an instance does beside executing the log waits while there is log to execute."""
SESSION_PAUSE_NS = SECOND_NS // 2
OUTPUTS_WAITING_MAX = 8192
"""So many outputs may wait to be executed before the instance reads no further."""
_TRANSIENT = (ClusterTimeoutError, SessionClosedError, SessionRejectedError)


@dataclass(frozen=True, kw_only=True)
class ApplicationSettings:
    """The endpoints of the cluster, and the folder of this instance. Raises ConfigurationError."""

    group: str
    endpoints: Sequence[str]
    """Every member's `host:port`, its first port."""
    folder: str
    """The folder of this instance alone."""
    archives: Sequence[ArchiveClientSettings] = ()
    """Where the log is read; by default the members' last ports, at this host's addresses, with the client's
    credentials."""
    client: ClientSettings = field(default_factory=ClientSettings)
    silence_s: float = 2.0
    """After so long without an entry the other members are asked whether they have more."""
    checkpoint_interval_s: float = 10.0
    mode: AppMode = AppMode.ACTIVE_ACTIVE
    """The same for all instances of the group, but for canaries."""
    instance: str = ""
    """What `ordo apps` calls this instance."""
    app_version: int = 1
    """The version of the service's code, if it has one version only."""
    report_interval_s: float = 2.0
    """How often the instance says how far it is, where that has changed."""

    def __post_init__(self) -> None:
        check_list("endpoints", self.endpoints)
        check_kinds(self)
        check_group(self.group)
        if len(self.instance.encode()) > INSTANCE_BYTES_MAX:
            raise ConfigurationError(f"instance={self.instance!r}: must be up to {INSTANCE_BYTES_MAX} bytes long")
        if not self.endpoints:
            raise ConfigurationError("endpoints: name the members of the cluster as host:port")
        check_seconds(self, "silence_s", "checkpoint_interval_s", "report_interval_s")

    def archive_settings(self) -> list[ArchiveClientSettings]:
        """Where the log is read."""
        return list(self.archives) or [
            ArchiveClientSettings.at(archive_endpoint(one), name="application", credentials=self.client.credentials)
            for one in self.endpoints
        ]


class Application:
    """An instance. `work` once a duty cycle; it never waits, and reads no clock but that of its transport.

    It belongs to the process that made it: elsewhere `work` raises ForkedError, and `close` does nothing.
    """

    outputs_refused = 0
    """Outputs that the service in the cluster answered with Reject, or whose id was used for another payload, as this
    instance was told since it started. They count as executed, since they are not sent again."""

    def __init__(
        self,
        make_service: Callable[[], Service] | Mapping[int, Callable[[], Service]],
        settings: ApplicationSettings,
        *,
        transport: ClientTransport,
        storage: Storage,
        on_entry: Callable[[LogEntry], object] | None = None,
        on_difference: Callable[[Difference], object] | None = None,
        on_query_error: Callable[[Exception], object] = lambda error: None,
        find_snapshot: Callable[[], GroupSnapshot | None] | None = None,
        on_refused: Callable[[RefusedOutput], None] | None = None,
    ) -> None:
        """`make_service`: of the settings' version, or for each version of the code that this instance has.

        `on_entry` hears of each entry after it was executed, `on_difference` of what a canary would have written
        otherwise, `on_query_error` of what `on_query` raised, which fails the query alone. `find_snapshot` gives what
        an instance without a checkpoint begins with (ordo.applications.group_snapshots). `on_refused` hears of outputs
        that the service in the cluster refused. The transport stays the caller's.

        Raises StorageError, SnapshotError, ConfigurationError, and what the service raises.
        """
        self._settings = settings
        self._transport = transport
        self._on_entry = on_entry
        self._on_difference = on_difference
        self._on_refused = on_refused
        code = make_service if isinstance(make_service, Mapping) else {settings.app_version: make_service}
        versions, interval_ns = AppVersions(code), round(settings.report_interval_s * SECOND_NS)
        is_canary = settings.mode is AppMode.CANARY
        self._reports = InstanceReports(settings.group, settings.instance, versions, interval_ns, is_canary=is_canary)
        self.differences = DifferenceReports(settings.group, settings.instance, versions.lowest, interval_ns)
        """What this instance, where it is a canary, has found and told."""
        self._checkpoints = Checkpoints(storage, settings.folder)
        try:
            state, cluster = self._load_state(find_snapshot)
            self.executor = self._make_executor(versions, state)
            self._follower = self._follow(cluster)
        except BaseException:
            self._checkpoints.close()
            raise
        self._queries = AppQueries(settings.group, lambda payload: self.executor.query(payload, on_query_error))
        self._session: OutputClient | None = None
        self._incarnation = GROUP_INCARNATION
        if settings.mode is AppMode.ACTIVE_PASSIVE:
            self._incarnation = 1 + transport.random.stream("applications").getrandbits(62)
        self._has_caught_up = False
        """The last cycle has executed all that had come of the log."""
        self._session_due_ns = self._chores_due_ns = 0
        self._saved = (self.position, self.origin)
        self._checkpoint_due_ns = transport.clock.now() + round(settings.checkpoint_interval_s * SECOND_NS)
        self._now_ns = self._heard_ns = transport.clock.now()
        self._is_closed = False
        self.trouble = ""
        """Why the last session was lost."""

    def _load_state(
        self, find_snapshot: Callable[[], GroupSnapshot | None] | None
    ) -> tuple[list[bytes] | None, KnownCluster]:
        """Return the state that this instance continues from, and the identity of its cluster if known.

        Its checkpoint, or a snapshot of its group; None for an empty state.
        """
        settings, checkpoint = self._settings, self._checkpoints.load()
        if checkpoint is not None:
            kept = f"the checkpoint in {settings.folder}"
            return self.differences.restore(checkpoint), _known_cluster(self._checkpoints.origin, kept, "folder")
        snapshot = None if find_snapshot is None else find_snapshot()
        if snapshot is None:
            return None, KnownCluster()
        return snapshot.messages, _known_cluster(
            snapshot.origin, f"the snapshot of group {settings.group}", "archive for snapshots"
        )

    def _follow(self, cluster: KnownCluster) -> LogFollower:
        """Follow the log from where the state is."""
        settings, position = self._settings, self.executor.position
        cluster.position = position
        archives, client = settings.archive_settings(), self._transport.client
        return LogFollower(client, archives, position, settings.silence_s, goes_live=True, cluster=cluster)

    def _make_executor(self, versions: AppVersions, snapshot: list[bytes] | None) -> AppExecutor:
        group = self._settings.group
        if self._settings.mode is AppMode.CANARY:
            return CanaryExecutor(versions, group, snapshot, on_difference=self._note_difference)
        return AppExecutor(versions, group, snapshot)

    def _note_difference(self, one: Difference) -> None:
        self.differences.note(one)
        if self._on_difference is not None:
            self._on_difference(one)

    # State

    @property
    def position(self) -> int:
        """After the last record that was executed, in bytes."""
        return self.executor.position

    @property
    def origin(self) -> Origin | None:
        """The identity of the cluster whose log this instance executes; None while its members have not told it."""
        return self._follower.cluster.origin

    @property
    def outputs_executed(self) -> int:
        """Outputs of the group that the cluster has executed, as far as this instance knows."""
        outputs = self._outputs
        executed = self.executor.outputs_accepted
        if outputs is not None and self._counts_alike(outputs):
            executed = max(executed, self.executor.outputs_before_identity + outputs.executed)
        return executed

    @property
    def outputs_waiting(self) -> int:
        """Outputs that this instance has made, and the cluster has not executed yet."""
        return max(0, self.executor.cluster.outputs_made - self.outputs_executed)

    @property
    def held(self) -> str:
        """The reason why outputs wait for a newer release of the cluster's members; empty if none wait."""
        outputs, executor = self._outputs, self.executor
        if outputs is None or self._takes_output_ids or not self._counts_alike(outputs):
            return ""
        output = executor.cluster.get_pending(executor.outputs_before_identity + outputs.next_number)
        return describe_want_of_output_ids() if output is not None and output.id_digest else ""

    @property
    def is_active(self) -> bool:
        """Whether this instance writes its outputs, by the log as far as it has read it."""
        identity = self.executor.identity
        if self._settings.mode is AppMode.ACTIVE_PASSIVE:
            return identity is not None and identity.incarnation == self._incarnation
        return self._settings.mode is AppMode.ACTIVE_ACTIVE

    @property
    def session_id(self) -> int:
        """The id of the session that carries outputs and reports; -1 while there is none."""
        return self._session.session_id if self._session is not None else -1

    @property
    def reported(self) -> InstanceState | None:
        """The last report of this instance to the cluster; None if there was none in this session and term."""
        return self._reports.reported

    def _state(self) -> InstanceState:
        executor = self.executor
        return InstanceState(
            self.position,
            executor.cluster.outputs_made,
            self.outputs_executed,
            self.is_active,
            executor.app_version,
            self.outputs_refused,
            self._takes_output_ids,
        )

    @property
    def _takes_output_ids(self) -> bool:
        """Whether the log may have outputs with ids, and exact counts of refused ones, by the cluster or by the log."""
        outputs = self._outputs
        return self.executor.takes_output_ids or (outputs is not None and outputs.takes_output_ids)

    @property
    def _outputs(self) -> GroupRequests | None:
        return self._session.outputs if self._session is not None else None

    # Duty cycle

    def work(self) -> int:
        """Run one duty cycle and return the number of things done.

        Raises what the service raised, and OrdoError when the instance cannot go on: its position is deleted
        everywhere, its outputs differ from those in the log, or the members are of another cluster than its checkpoint.
        """
        with self._transport.use:
            self._demand_open()
            now_ns = self._now_ns = self._transport.drive()
            count = self._work_log(now_ns)
            if count and now_ns < self._chores_due_ns:
                return count
            self._chores_due_ns = now_ns + CHORES_INTERVAL_NS
            return count + self._do_chores(now_ns)

    def _demand_open(self) -> None:
        self._transport.use.check()
        if self._is_closed:
            raise SessionClosedError(f"group {self._settings.group}: this instance is closed; make another one")

    def _work_log(self, now_ns: int) -> int:
        """Execute new entries of the log, and send the outputs at once, because clients wait for them."""
        if self.outputs_waiting >= OUTPUTS_WAITING_MAX and self._may_send:
            return 0
        count = self._follower.poll(self._execute, FRAGMENTS_PER_CYCLE)
        self._has_caught_up = count < FRAGMENTS_PER_CYCLE
        if count:
            self._attend_election()
            if self._push_outputs() and self._session is not None:
                self._session.send_outputs(now_ns)
        return count

    def _do_chores(self, now_ns: int) -> int:
        """Do the work that is not urgent: sessions, nodes, timers, reports, queries, checkpoints."""
        count = self._work_session(now_ns)
        count += self._follower.work(now_ns)
        self._follower.check_allowed()
        if self._follower.oldest_position is not None:
            raise ArchiveError(
                f"group {self._settings.group}: position={self.position} of the log was deleted everywhere; the oldest "
                f"that is left is position={self._follower.oldest_position}: copy the folder of another instance, or "
                "begin with an empty one and a snapshot of the group (--archive)",
                code=ErrorCode.INVALID_POSITION,
            )
        self._attend_election()
        self._push_outputs()
        self._attend_timers(now_ns)
        if self._session is not None:
            self._reports.work(self._session, self._state(), self._follower.position or self.position, now_ns)
            self.differences.work(self._session, now_ns)
            count += self._answer_queries(self._session, now_ns)
        if now_ns >= self._checkpoint_due_ns:
            self.save_checkpoint()
        return count

    def _answer_queries(self, session: OutputClient, now_ns: int) -> int:
        """Answer queries of the group; a canary answers none, since its state is not the group's."""
        if self._settings.mode is AppMode.CANARY:
            return 0
        read_to = max(self.position, self._follower.position or 0)
        return self._queries.work(session, read_to, now_ns, is_up_to_date=self._has_caught_up)

    def _execute(self, entry: LogEntry) -> None:
        if entry.kind is EntryKind.DIFFERENCE:
            self.differences.confirm(entry)
            return
        self.executor.execute(entry)
        self._heard_ns = self._now_ns
        if self._on_entry is not None:
            self._on_entry(entry)

    def _work_session(self, now_ns: int) -> int:
        """Keep a session open; the outputs need none of them in particular."""
        if self._session is None:
            if now_ns < self._session_due_ns:
                return 0
            self._session = self._open_session()
        try:
            count = self._session.poll()
        except _TRANSIENT as error:
            self._lose_session(error, now_ns)
            return 1
        self._take_refused(self._session.outputs)
        failure = self._session.outputs.failure
        if failure is not None:
            raise failure
        return count

    def _take_refused(self, outputs: GroupRequests) -> None:
        """Count refused outputs, and call `on_refused` for each."""
        while outputs.refused:
            one = outputs.refused.popleft()
            self.outputs_refused += 1
            if self._on_refused is not None:
                self._on_refused(one)

    def _open_session(self) -> OutputClient:
        settings = self._settings
        session = OutputClient(
            list(settings.endpoints),
            settings=_with_identity(settings.client, settings.group),
            transport=self._transport,
            make_requests=REQUESTS[settings.mode],
            incarnation=self._incarnation,
        )
        session.known_cluster = self._follower.cluster
        return session

    def _lose_session(self, error: OrdoError, now_ns: int) -> None:
        self.trouble = error.message
        assert self._session is not None
        self._session.close()
        self._session = None
        self._session_due_ns = now_ns + SESSION_PAUSE_NS

    # Outputs

    def _attend_election(self) -> None:
        outputs, executor = self._outputs, self.executor
        if isinstance(outputs, ElectedRequests):
            outputs.attend_election(
                executor.identity,
                is_writer_there=executor.is_writer_there,
                is_up_to_date=self._has_caught_up and self.session_id in executor.cluster.sessions,
            )

    def _counts_alike(self, outputs: GroupRequests) -> bool:
        """Return whether the cluster's count of outputs is known, and from which output it counts."""
        identity = self.executor.identity
        return identity is not None and identity.open_position == outputs.open_position

    @property
    def _may_send(self) -> bool:
        return self._outputs is not None and self._counts_alike(self._outputs)

    def _push_outputs(self) -> int:
        """Pass outputs to the session to be sent; return their number."""
        outputs, executor = self._outputs, self.executor
        if outputs is None or not self._counts_alike(outputs):
            return 0
        identity = executor.identity
        assert identity is not None
        before = executor.outputs_before_identity
        outputs.note_executed(identity.confirmed)
        count = 0
        takes_ids = self._takes_output_ids
        while outputs.has_room and (output := executor.cluster.get_pending(before + outputs.next_number)) is not None:
            if output.id_digest and not takes_ids:
                break
            outputs.push(output)
            count += 1
        return count

    def _attend_timers(self, now_ns: int) -> None:
        """Ask for a record when a timer is due and the log is silent, since timers fire only at records."""
        timer, cluster = self.executor.next_timer(), self.executor.cluster
        if timer is None or cluster.time_unit is None or self._outputs is None:
            return
        if now_ns - self._heard_ns >= (timer[0] - cluster.time) * cluster.time_unit.length_ns:
            self._outputs.ask_time(now_ns)

    # Checkpoints

    def save_checkpoint(self) -> None:
        """Make the present state durable. Raises StorageError, and what the service raises."""
        self._transport.use.check()
        self._checkpoint_due_ns = self._transport.clock.now() + round(self._settings.checkpoint_interval_s * SECOND_NS)
        now = (self.position, self.origin)
        if now != self._saved:
            self._checkpoints.save(chain(self.differences.snapshot(), self.executor.take_snapshot()), now[1])
            self._saved = now

    def close(self, *, save: bool = True) -> None:
        """End the instance, by default with a checkpoint.

        Idempotent. Any thread may call it, and the handler of a signal: a call that is under way ends first. In a
        process that was forked from the instance's it does nothing.
        """
        if not self._is_closed and not self._transport.use.is_forked:
            self._is_closed = True
            self._transport.use.end(lambda: self._end(save=save))

    def _end(self, *, save: bool) -> None:
        follower, session = self._follower, self._session
        self._session = None
        try:
            if save:
                self.save_checkpoint()
        finally:
            follower.close()
            if session is not None:
                session.close()
            self._checkpoints.close()


def _known_cluster(origin: Origin | None, kept: str, place: str) -> KnownCluster:
    """Return the cluster that stored data belongs to, if it says so.

    `place` names where to store data of another one.
    """
    whose = "" if origin is None else kept
    return KnownCluster(origin, whose, f"give the endpoints of that cluster, or another {place}")


def _with_identity(settings: ClientSettings, group: str) -> ClientSettings:
    return replace(settings, identity=group_identity(group), client_name=settings.client_name or f"app {group}"[:64])
