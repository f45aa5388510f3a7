"""The service container: runs one service over the committed log (cluster-service-api.md, docs/ARCHITECTURE.md).

    AWAITING   the node's counters are not there yet
    RUNNING    the snapshot is loaded, the service started; records are executed up to the commit position
    FAILED     the service raised, or the log cannot be executed; nothing more is executed
    TERMINATED the termination position was reached and acknowledged

It reads the log from the archive's segment files, so it holds up nothing in the node however long a callback takes.
`python -m ordo.cluster.container.main --help` runs it as a process of its own; inline it is one more agent of the node.

The native loop (streams/loop.pyx) owns position, sessions, and what holds the next record back. Its parts own the rest:

    recovery         where the node has it start         log_sessions     sessions, as the log opens and closes them
    execution        calls of the service, failures      own_state        what precedes the service's part of a snapshot
    role             leading, and publications for it    module_requests  acks, orders and the end, for the module
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ordo.cluster.container.cluster import ContainerCluster
from ordo.cluster.container.execution import ContainerState, ServiceExecution
from ordo.cluster.container.log_sessions import LogSessions
from ordo.cluster.container.module_requests import ModuleRequests
from ordo.cluster.container.own_state import OwnState
from ordo.cluster.container.record_orders import RecordOrders
from ordo.cluster.container.recovery import Recovery, find_recovery
from ordo.cluster.container.role import HOLD_EGRESS, ContainerRole
from ordo.cluster.container.snapshots import ContainerSnapshots
from ordo.cluster.container.streams.control import ContainerControl
from ordo.cluster.container.streams.feeds import HOLD_FEEDS, ContainerFeeds
from ordo.cluster.container.streams.loop import ContainerLoop, ContainerSession
from ordo.cluster.container.streams.outbox import SESSION_BYTES_MAX_DEFAULT, TOTAL_BYTES_MAX_DEFAULT, EgressBuffers
from ordo.cluster.container.streams.queries import ContainerQueries
from ordo.cluster.container.tables.consumers import ContainerConsumers
from ordo.cluster.container.tables.message_numbers import MessageNumbers
from ordo.cluster.container.versions import ServiceVersions, VersionSwitch
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import find_time_unit
from ordo.cluster.wire.counters.component_errors import ComponentErrors
from ordo.cluster.wire.counters.mark_file import ComponentType, container_mark_file_name
from ordo.cluster.wire.log_index.entries import SPACING_BYTES
from ordo.cluster.wire.log_index.index_counters import IndexCounters
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.cluster.wire.streams import TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, service_stream
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import Storage
from ordo.runtime.native.memory import FileMemoryProvider, MemoryProvider
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import bind
from ordo.service_api import snapshot as service_snapshot
from ordo.service_api.service import NewLeadershipTermEvent, Service, TimeUnit
from ordo.service_api.state_hash import hash_state, implements_state_hash
from ordo.transport.streams.publication import MAX_MESSAGE_LENGTH

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordingReader
    from ordo.cluster.wire import records
    from ordo.cluster.wire.log_index.writer import IndexWriter
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.sbe import Message
    from ordo.transport.client.client import TransportClient

APP_VERSION_DEFAULT = 1
QUERIES_MAX_DEFAULT = 4096
QUICK_TICK_NS = 1_000_000

OpenRecording = Callable[[int, int | None], "RecordingReader"]
"""A reader of a recording id from a position, or from its start (None)."""


def open_recording_in(storage: Storage, archive_dir: str) -> OpenRecording:
    """Read the segment files of another process's archive."""
    from ordo.archive.segments.reader import RecordingReader

    return lambda recording_id, position: RecordingReader.open(storage, archive_dir, recording_id, position)


@dataclass(frozen=True)
class ContainerIdentity:
    """Which service of which member a container runs. `cluster_dir` gets its mark file with the error log."""

    cluster_dir: str
    member_id: int
    service_id: int = 0
    cluster_id: int = 0

    def open_errors(self, service: Service, clock: Clock, memory: MemoryProvider) -> ComponentErrors:
        """Make the mark file, and return the errors that it keeps."""
        cluster_id, service_id = self.cluster_id, self.service_id
        return ComponentErrors(
            memory,
            f"{self.cluster_dir}/{container_mark_file_name(service_id)}",
            clock,
            component_type=ComponentType.CONTAINER,
            service_stream_id=service_stream(TO_SERVICE_STREAM_ID, cluster_id, service_id),
            consensus_module_stream_id=service_stream(TO_MODULE_STREAM_ID, cluster_id, service_id),
            member_id=self.member_id,
            service_id=service_id,
            cluster_id=cluster_id,
            service_name=type(service).__qualname__,
        )


@dataclass(frozen=True)
class ContainerLimits:
    """How much a container keeps for clients: queries at a time, and bytes that one or all of them left untaken."""

    queries_max: int = QUERIES_MAX_DEFAULT
    egress_buffer_bytes: int = SESSION_BYTES_MAX_DEFAULT
    egress_buffer_total_bytes: int = TOTAL_BYTES_MAX_DEFAULT


class ServiceContainer(ContainerLoop):
    """One service of one node.

    `client` is a transport client of the node's driver; its owner runs it. `open_recording` reads the node's
    archive: `Archive.follower` on the archive's own thread, `open_recording_in` in any other. `memory` has the mark
    file. `do_work` raises ServiceError when the service raised; the container is FAILED then and executes nothing more.
    """

    queries: ContainerQueries
    index: IndexWriter | None = None
    """Writes the index of the log; None: nobody does."""
    _recovery: Recovery | None = None

    def __init__(
        self,
        service: Service | ServiceVersions,
        identity: ContainerIdentity,
        *,
        client: TransportClient,
        clock: Clock,
        open_recording: OpenRecording,
        memory: MemoryProvider | None = None,
        app_version: int = APP_VERSION_DEFAULT,
        limits: ContainerLimits | None = None,
    ) -> None:
        code = ServiceVersions.of(service, app_version)
        super().__init__(code.make(code.lowest))
        self.identity = identity
        self.answers = identity.service_id == 0
        self._limits = limits or ContainerLimits()
        self._client = client
        self._clock = clock
        self._open_recording = open_recording
        bytes_max = self._limits.egress_buffer_bytes, self._limits.egress_buffer_total_bytes
        self.set_egress(EgressBuffers(self.encode_gap, *bytes_max))
        self.control = ContainerControl(self, identity.service_id)
        self.feeds = ContainerFeeds(self, self.control, client, identity.cluster_id)
        self.execution = ServiceExecution(
            self,
            ContainerCluster(self, self.control, self.feeds, identity.member_id, self._idle),
            self.feeds,
            RecordOrders(self, self.control),
            identity.open_errors(self.service, clock, memory or FileMemoryProvider()),
        )
        self.versions = VersionSwitch(self, self.control, self.execution, code, identity.service_id)
        self.consumers = ContainerConsumers(self, self.control)
        self._role = ContainerRole(self, self.control, self.execution, client, clock)
        numbers = MessageNumbers()
        self._log_sessions = LogSessions(self, self.execution, self._role, numbers, self.consumers)
        self._state = OwnState(self, self.cluster, self.versions, numbers, self.consumers, self.feeds)
        self.snapshots = ContainerSnapshots(
            self, self.control, self.execution, self._state, self.feeds, client, clock, identity.cluster_id
        )
        self._module_requests = ModuleRequests(self, self.control, self.execution, self.snapshots)
        self._handlers = self._record_handlers()

    def _record_handlers(self) -> dict[Message, Callable[[Any, int], None]]:
        """Return the handler of each kind of log record that is no message; other kinds are not for the service."""
        sessions = self._log_sessions
        return dict(
            (
                bind(codecs.SESSION_OPEN_EVENT, sessions.on_open),
                bind(codecs.SESSION_CLOSE_EVENT, sessions.on_close),
                bind(ordo_codecs.OPEN_IDENTITY, sessions.on_identity),
                bind(ordo_codecs.MESSAGE_MARK, sessions.on_mark),
                bind(ordo_codecs.LEVEL_EVENT, sessions.on_level),
                bind(codecs.TIMER_EVENT, self._on_timer),
                bind(codecs.CLUSTER_ACTION_REQUEST, self._on_action),
                bind(codecs.NEW_LEADERSHIP_TERM_EVENT, self._on_new_term),
                bind(ordo_codecs.VERSION_EVENT, self._on_version),
                bind(ordo_codecs.STATE_HASH_EVENT, self._on_state_hash),
            )
        )

    @property
    def cluster(self) -> ContainerCluster:
        """The cluster that the service sees."""
        return self.execution.cluster

    @property
    def state(self) -> ContainerState:
        return self.execution.state

    @property
    def errors(self) -> ComponentErrors:
        """The component's errors, as its mark file keeps them."""
        return self.execution.errors

    # Agent

    @property
    def role_name(self) -> str:
        return f"service-container-{self.identity.service_id}"

    def on_start(self) -> None:
        identity = self.identity
        self.control.open(self._client, identity.cluster_id)
        self.queries = ContainerQueries(
            self,
            self._client,
            self._limits.queries_max,
            member_id=identity.member_id,
            cluster_id=identity.cluster_id,
            service_id=identity.service_id,
            on_error=self.execution.record_error,
        )

    def on_close(self) -> None:
        """End the service (`on_terminate`) and release the container's resources in the driver. Idempotent."""
        self.execution.terminate()
        self._role.close()
        self.snapshots.close()
        self.feeds.close()
        if self.control.is_open:
            self.control.close()
            self.queries.close()
        if self.index is not None:
            self.index.close()
        self.errors.close()

    @property
    def park_timeout_ns(self) -> int:
        """The time that a thread with only this agent may sleep when there was no work; -1: without limit."""
        waits = self.hold or self.state is ContainerState.AWAITING or self.queries.has_unsent or self.egress.keeps
        waits = waits or self.snapshots.is_under_way
        return QUICK_TICK_NS if waits else -1

    def tick(self, now_ns: int) -> int:
        self.errors.work(now_ns)
        work_count = self.control.flush() + self.control.poll(self._module_requests)
        if self.state is ContainerState.AWAITING:
            work_count += self._recover()
        elif self.state is ContainerState.RUNNING:
            work_count += self._run(now_ns)
        elif self.state is ContainerState.FAILED:
            work_count += self.snapshots.work(now_ns)
        if self.hold or self.queries.has_unsent:
            self.ask_for_tick()
        elif self._awaits_something:
            self.tick_by(now_ns + QUICK_TICK_NS)
        return work_count

    @property
    def _awaits_something(self) -> bool:
        """Whether it waits for the node, the log, a session's publication or record, or a position."""
        if not self.follows or self._role.is_pending or self.queries.awaits_session or self.snapshots.is_under_way:
            return True
        return self._module_requests.is_waiting

    def _run(self, now_ns: int) -> int:
        was_held = self.hold
        self.control.release()
        work_count = self.feeds.flush() if self.hold & HOLD_FEEDS else 0
        work_count += self._role.work(now_ns)
        work_count += self.snapshots.work(now_ns)
        work_count += self.queries.work(now_ns)
        self.consumers.work(now_ns)
        if not self.follows:
            work_count += self._follow_log()
        if self.has_published:
            work_count += self.feeds.flush()
        if not self.hold:
            if was_held:
                self.publish_position()
            self._module_requests.answer()
        return work_count

    def wake_driver(self) -> None:
        self._client.wake_driver()

    def _idle(self) -> None:
        """Run the transport while a callback waits; not in a copy of the service, to which it does not belong."""
        if not self.snapshots.is_copy:
            self._client.wake_driver()
            self._client.do_work(self._clock.now())

    # Recovery

    def _recover(self) -> int:
        """Start the service once the node has said where; return 1 if it started."""
        recovery = find_recovery(self._client.counters, self.identity.cluster_id, self.identity.service_id)
        if recovery is None:
            return 0
        self._recovery = recovery
        recording_id = None
        if recovery.snapshot is not None:
            log_position, timestamp, leadership_term_id, recording_id = recovery.snapshot
            self.set_log_state(log_position, timestamp, leadership_term_id)
        self.versions.announce()
        if not self._start(recording_id):
            return 1
        self.execution.begin()
        self.execution.orders.start(self._client.counters, self.identity.cluster_id)
        self._follow_log()
        return 1

    def _start(self, snapshot_recording_id: int | None) -> bool:
        """Start from a snapshot. Return False if there is no code of the snapshot's version."""
        reader = None
        try:
            if snapshot_recording_id is not None:
                recording = self._open_recording(snapshot_recording_id, None)
                messages = container_snapshot.payloads(recording.messages())
                snapshot = container_snapshot.decode(messages)
                if not self.versions.choose(snapshot.app_version):
                    return False
                self._state.load(snapshot)
                reader = service_snapshot.SnapshotReader(messages)
            self.execution.invoke("on_start", False, self.cluster, reader)
            if snapshot_recording_id is not None:
                self._state.check_hash(snapshot.state_hash)
        except Exception:
            self.control.send_ack(self.log_position, self.time, NULL_VALUE)
            raise
        self.consumers.begin()
        self.control.send_ack(self.log_position, self.time, self._client.client_id)
        return True

    def _follow_log(self) -> int:
        """Open the log once the node records it: 1 when it did."""
        assert self._recovery is not None
        recording_id = self._recovery.log_recording.value
        if recording_id < 0:
            return 0
        log = self._open_recording(recording_id, self.log_position)
        self._log_sessions.length_bytes_max = min(log.term_length // 8, MAX_MESSAGE_LENGTH)
        self.follow(log, *self._recovery.positions)
        if self.index is not None:
            shown = IndexCounters(self._client.counters, self.identity.cluster_id)
            self.index.begin(recording_id, self.log_position, partial(self._open_recording, recording_id), shown)
            self.set_index(self.index, SPACING_BYTES, shown.sequence)
        return 1

    # Records

    def on_record(self, record: bytes, position: int) -> None:
        found = ordo_codecs.decode_any(record)
        if found is None:
            raise ClusterError(f"log: unknown record at {position=} length_bytes={len(record)} head={record[:8].hex()}")
        table, values = found
        handler = self._handlers.get(table)
        if handler is None and table not in self.consumers.handlers:
            return
        self.set_log_state(position, values.timestamp, self.leadership_term_id)
        if handler is not None:
            handler(values, position)
        else:
            self.consumers.handlers[table](record, position)

    def waits_before(self, position: int) -> bool:
        return self.execution.orders.waits_before(position)

    def flush_feeds(self) -> None:
        self.feeds.flush()

    def on_failure(self, error: Exception, position: int) -> bool:
        return self.execution.on_failure(error, position)

    def _on_timer(self, event: records.TimerEvent, position: int) -> None:
        if self.cluster.fire_timer(event.correlation_id, event.timestamp):
            self.execution.invoke("on_timer_event", True, event.correlation_id, event.timestamp)

    def _on_version(self, event: records.VersionEvent, position: int) -> None:
        self.versions.on_event(event, position)

    def _on_state_hash(self, event: records.StateHashEvent, position: int) -> None:
        if implements_state_hash(type(self.service)) and not self.execution.leaves_out(position):
            self.execution.attempt("state_hash", lambda: self._send_state_hash(position))

    def _send_state_hash(self, position: int) -> None:
        self.control.send_state_hash(position, digest_of([hash_state(self.service)]))

    def _on_new_term(self, event: records.NewLeadershipTermEvent, position: int) -> None:
        if event.term_base_log_position == 0 and not self.versions.begin_log(event.app_version):
            return
        time_unit = find_time_unit(event.time_unit)
        if time_unit is None:
            raise ClusterError(f"log: time_unit={event.time_unit} at {position=} is none")
        self.set_log_state(position, event.timestamp, event.leadership_term_id)
        if time_unit < (self.cluster.time_unit or TimeUnit.MILLIS):
            raise ClusterError(f"log: time unit {time_unit.name} at {position=}, was {self.cluster.time_unit}")
        former = self.cluster.take_time_unit(time_unit)
        if former is not None:
            self.execution.invoke("on_time_unit", True, former, time_unit)
            if self.execution.state is ContainerState.FAILED:
                return
        term = NewLeadershipTermEvent(
            event.leadership_term_id,
            event.log_position,
            event.timestamp,
            event.term_base_log_position,
            event.leader_member_id,
            event.log_session_id,
            time_unit,
            event.app_version,
        )
        then = partial(self.execution.invoke, "on_new_leadership_term", True, term)
        if self.leads_now != self.is_leading:
            self._role.change(self.leads_now, then)
        else:
            then()

    def _on_action(self, event: records.ClusterActionRequest, position: int) -> None:
        if codecs.is_snapshot_order(event.action, event.flags):
            self.sequence.pass_snapshot()
            self.note_place_next()
            self._take_snapshot(position)
        elif self._is_standby and codecs.is_snapshot_order(event.action, event.flags, is_standby=True):
            # members take none here, so nothing of the state may change
            self.snapshots.take(position, is_hashed=event.flags == codecs.FOR_MEMBERS)
        elif codecs.is_copy_order(event.action, event.flags):
            self.snapshots.describe(position)

    @property
    def _is_standby(self) -> bool:
        return self._recovery is not None and self._recovery.is_standby

    def _take_snapshot(self, position: int) -> None:
        self.snapshots.take(position)

    # Sessions and queries, for the native half

    def on_leading(self, is_leading: bool) -> None:
        self._role.change(is_leading)

    def on_unknown_session(self, session_id: int) -> None:
        self._log_sessions.on_unknown(session_id)

    def on_rejected(self, session: ContainerSession | None, text: str) -> None:
        if session is not None:
            self._role.reject(session, text)

    def on_slow_sessions(self, session_ids: list[int]) -> None:
        self._role.give_up(session_ids)

    def encode_gap(self, session_id: int, count: int) -> bytes:
        text = f"too slow: {count} messages are left out here (egress_buffer)"
        return self._role.encode_error(session_id, text)

    def close_client_session(self, session_id: int) -> None:
        self.cluster.close_client_session(session_id)

    def on_queries(self) -> int:
        return self.queries.poll()

    def answer_queries(self) -> int:
        """Answer queries between two records, since the state within a callback belongs to no position."""
        return 0 if self.hold & HOLD_EGRESS else self.queries.answer()

    @property
    def terminated(self) -> bool:
        """True when the service has ended properly and all its messages are sent."""
        return self.state is ContainerState.TERMINATED and not self.control.blocked
