"""The service container: runs one service over the committed log (cluster-service-api.md, docs/ARCHITECTURE.md).

    AWAITING   the node's counters are not there yet
    RUNNING    the snapshot is loaded, the service started; records are executed up to the commit position
    FAILED     the service raised, or the log cannot be executed; nothing more is executed
    TERMINATED the termination position was reached and acknowledged

It reads the log from the archive's segment files, so it holds up nothing in the node however long a callback takes.
`python -m ordo.cluster.container.main --help` runs it as a process of its own; inline it is one more agent of the node.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from ordo.cluster.container.cluster import ContainerCluster
from ordo.cluster.container.record_orders import RECORD_CALLBACKS, RecordOrders
from ordo.cluster.container.snapshots import ContainerSnapshots
from ordo.cluster.container.streams.control import ContainerControl
from ordo.cluster.container.streams.egress import EgressPublications
from ordo.cluster.container.streams.feeds import HOLD_FEEDS, ContainerFeeds
from ordo.cluster.container.streams.loop import ContainerLoop, ContainerSession
from ordo.cluster.container.streams.outbox import SESSION_BYTES_MAX_DEFAULT, TOTAL_BYTES_MAX_DEFAULT, EgressBuffers
from ordo.cluster.container.streams.queries import ContainerQueries
from ordo.cluster.container.tables.consumers import ContainerConsumers
from ordo.cluster.container.tables.message_numbers import MessageNumbers
from ordo.cluster.container.versions import HOLD_VERSION, ServiceVersions, VersionSwitch
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import concerns
from ordo.cluster.wire.codecs import ClusterAction
from ordo.cluster.wire.counters.component_errors import ComponentErrors
from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.cluster.wire.counters.mark_file import ComponentType, container_mark_file_name
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.cluster.wire.streams import TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, service_stream
from ordo.runtime.errors import Category, ClusterError, OrdoError, PayloadError, ServiceError, SnapshotError
from ordo.runtime.native.memory import FileMemoryProvider, MemoryProvider
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE
from ordo.runtime.reporting.failures import traceback_of
from ordo.runtime.reporting.logging import tell
from ordo.runtime.sbe import bind
from ordo.service_api import snapshot as service_snapshot
from ordo.service_api.service import CloseReason, NewLeadershipTermEvent, Role, Service, TimeUnit
from ordo.service_api.state_hash import hash_state, implements_state_hash
from ordo.service_api.timers import ServiceTimers
from ordo.transport.streams.publication import MAX_MESSAGE_LENGTH

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordingReader
    from ordo.cluster.wire import records
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.native.counters import Counter
    from ordo.runtime.sbe import Message
    from ordo.transport.client.client import TransportClient

HOLD_CONTROL = 1
"""Something waits for the control stream."""
HOLD_EGRESS = 2
"""Egress publications are being added."""
EGRESS_TIMEOUT_NS = 1_000_000_000
APP_VERSION_DEFAULT = 1
QUERIES_MAX_DEFAULT = 4096
NODE_COUNTERS = (
    CounterType.RECOVERY_STATE,
    CounterType.LOG_RECORDING,
    CounterType.COMMIT_POSITION,
    CounterType.LEADER_TERM,
    CounterType.SERVICE_POSITION,
)
"""What the consensus module allocates before a service can start; the last is the container's to write."""
_RECOVERY_KEY = struct.Struct("<qqqii")

QUICK_TICK_NS = 1_000_000

OpenRecording = Callable[[int, int | None], "RecordingReader"]
"""A reader of a recording id from a position, or from its start (None)."""


class ContainerState(Enum):
    AWAITING = auto()
    RUNNING = auto()
    FAILED = auto()
    TERMINATED = auto()


def open_recording_in(storage: Any, archive_dir: str) -> OpenRecording:
    """Read the segment files of another process's archive."""
    from ordo.archive.segments.reader import RecordingReader

    return lambda recording_id, position: RecordingReader.open(storage, archive_dir, recording_id, position)


class ServiceContainer(ContainerLoop):
    """One service of one node.

    `client` is a transport client of the node's driver; whoever owns it runs it. `open_recording` reads the node's
    archive: `Archive.follower` on the archive's own thread, `open_recording_in` in any other. `cluster_dir` gets the
    mark file with the error log, through `memory`. `do_work` raises ServiceError when the service raised; the container
    is FAILED then and executes nothing more.
    """

    _started = False
    _now_ns = 0
    _egress_deadline_ns = 0
    _record_bytes_max = 0
    _record = b""
    """The record that is executed, where it is no message."""
    _continuation: Callable[[], None] | None = None
    _termination: tuple[int, bool] | None = None
    _log_recording: Counter | None = None

    def __init__(
        self,
        service: Service | ServiceVersions,
        *,
        cluster_dir: str,
        client: TransportClient,
        clock: Clock,
        open_recording: OpenRecording,
        member_id: int,
        service_id: int = 0,
        memory: MemoryProvider | None = None,
        app_version: int = APP_VERSION_DEFAULT,
        queries_max: int = QUERIES_MAX_DEFAULT,
        egress_buffer_bytes: int = SESSION_BYTES_MAX_DEFAULT,
        egress_buffer_total_bytes: int = TOTAL_BYTES_MAX_DEFAULT,
        cluster_id: int = 0,
    ) -> None:
        versions = ServiceVersions.of(service, app_version)
        super().__init__(versions.make(versions.lowest))
        self.set_egress(EgressBuffers(self.encode_gap, egress_buffer_bytes, egress_buffer_total_bytes))
        self.feeds = ContainerFeeds(self, client, cluster_id)
        self.cluster = ContainerCluster(self, member_id)
        self.records = RecordOrders(self)
        self.snapshots = ContainerSnapshots(self, client, cluster_id)
        self.numbers, self.consumers = MessageNumbers(), ContainerConsumers(self)
        self.versions = VersionSwitch(self, versions, service_id)
        self.state = ContainerState.AWAITING
        self.answers = service_id == 0
        self.member_id = member_id
        self.service_id = service_id
        self._client = client
        self._clock = clock
        self._open_recording = open_recording
        self._queries_max = queries_max
        self._cluster_id = cluster_id
        self._errors = self._open_errors(cluster_dir, memory or FileMemoryProvider())
        self._egress = EgressPublications(client, self.record_error)
        self._requested_acks: list[int] = []
        self._positions: list[Counter] = []
        self._handlers = self._record_handlers()

    @property
    def errors(self) -> ComponentErrors:
        """The component's errors, as its mark file keeps them."""
        return self._errors

    def _open_errors(self, cluster_dir: str, memory: MemoryProvider) -> ComponentErrors:
        cluster_id, service_id = self._cluster_id, self.service_id
        return ComponentErrors(
            memory,
            f"{cluster_dir}/{container_mark_file_name(service_id)}",
            self._clock,
            component_type=ComponentType.CONTAINER,
            service_stream_id=service_stream(TO_SERVICE_STREAM_ID, cluster_id, service_id),
            consensus_module_stream_id=service_stream(TO_MODULE_STREAM_ID, cluster_id, service_id),
            member_id=self.member_id,
            service_id=service_id,
            cluster_id=cluster_id,
            service_name=type(self.service).__qualname__,
        )

    def _record_handlers(self) -> dict[Message, Callable[[Any, int], None]]:
        """Return the handler of each kind of log record that is no message; other kinds are not for the service."""
        return dict(
            (
                bind(codecs.SESSION_OPEN_EVENT, self._on_session_open),
                bind(codecs.SESSION_CLOSE_EVENT, self._on_session_close),
                bind(ordo_codecs.OPEN_IDENTITY, self._on_open_identity),
                bind(ordo_codecs.MESSAGE_MARK, self._on_message_mark),
                bind(
                    ordo_codecs.CONSUMER_COMMAND,
                    lambda values, position: self.consumers.on_command(self._record, position),
                ),
                bind(ordo_codecs.APP_REPORT, lambda values, position: self.consumers.on_report(self._record)),
                bind(
                    ordo_codecs.APP_DIFFERENCE,
                    lambda values, position: self.consumers.on_difference(self._record, position),
                ),
                bind(codecs.TIMER_EVENT, self._on_timer),
                bind(codecs.CLUSTER_ACTION_REQUEST, self._on_action),
                bind(codecs.NEW_LEADERSHIP_TERM_EVENT, self._on_new_term),
                bind(ordo_codecs.VERSION_EVENT, self._on_version),
                bind(ordo_codecs.STATE_HASH_EVENT, self._on_state_hash),
                bind(ordo_codecs.LEVEL_EVENT, self._on_level),
            )
        )

    # Agent

    @property
    def role_name(self) -> str:
        return f"service-container-{self.service_id}"

    control: ContainerControl
    queries: ContainerQueries

    def on_start(self) -> None:
        self._started = True
        self.control = ContainerControl(self._client, self.service_id, self, self._cluster_id)
        self.queries = ContainerQueries(self, self._client, self._queries_max, self._cluster_id, self.service_id)

    def on_close(self) -> None:
        """End the service (`on_terminate`) and give back what the container has in the driver. Idempotent."""
        self._terminate()
        self._egress.disconnect_all()
        self.snapshots.close()
        self.feeds.close()
        if self._started:
            self.control.close()
            self.queries.close()
        self._errors.close()

    @property
    def park_timeout_ns(self) -> int:
        """The time that a thread with only this agent may sleep when there was no work; -1: without limit."""
        waits = self.hold or self.state is ContainerState.AWAITING or self.queries.has_unsent or self.egress.keeps
        waits = waits or self.snapshots.is_under_way
        return QUICK_TICK_NS if waits else -1

    def tick(self, now_ns: int) -> int:
        self._now_ns = now_ns
        self._errors.work(now_ns)
        work_count = self.control.flush() + self.control.poll()
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
        if not self.follows or self._egress.pending or self.queries.awaits_session or self.snapshots.is_under_way:
            return True
        return self._termination is not None or bool(self._requested_acks)

    def _run(self, now_ns: int) -> int:
        work_count = 0
        was_held = self.hold
        if self.hold & HOLD_CONTROL and not self.control.blocked:
            self.hold &= ~HOLD_CONTROL
        if self.hold & HOLD_FEEDS:
            work_count += self.feeds.flush()
        if self.hold & HOLD_EGRESS:
            work_count += self._await_egress(now_ns)
        elif self._egress.pending:
            work_count += self._egress.poll()
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
            self._answer_requests()
        return work_count

    def wake_driver(self) -> None:
        self._client.wake_driver()

    def idle(self) -> None:
        """Run the transport while a callback waits; not in a copy of the service, to which it does not belong."""
        if self.snapshots.is_copy:
            return
        self._now_ns = self._clock.now()
        self._client.wake_driver()
        self._client.do_work(self._now_ns)

    # Recovery

    def _recover(self) -> int:
        """Start the service once the node has said where: 1 when it did."""
        counters = self._client.counters
        ids = [find_counter(counters, kind, self._cluster_id, self.service_id) for kind in NODE_COUNTERS]
        if min(ids) < 0:
            return 0
        recovery = counters.describe(ids[0])
        assert recovery is not None
        key = recovery.key
        self._log_recording = counters.counter(ids[1])
        self._positions = [counters.counter(counter_id) for counter_id in ids[2:]]
        leadership_term_id, log_position, timestamp, _, service_count = _RECOVERY_KEY.unpack_from(key)
        recording_id = None
        if leadership_term_id >= 0 and service_count > self.service_id:
            (recording_id,) = struct.unpack_from("<q", key, _RECOVERY_KEY.size + 8 * self.service_id)
            self.set_log_state(log_position, timestamp, leadership_term_id)
        self.versions.announce()
        if not self._start(recording_id):
            return 1
        self.state = ContainerState.RUNNING
        self.executes = True
        self.records.start(counters, self._cluster_id)
        self._follow_log()
        return 1

    def _start(self, snapshot_recording_id: int | None) -> bool:
        """Start from a snapshot. Return False where there is no code of the snapshot's version."""
        reader = None
        try:
            if snapshot_recording_id is not None:
                recording = self._open_recording(snapshot_recording_id, None)
                messages = container_snapshot.payloads(recording.messages())
                state = container_snapshot.decode(messages)
                if not self.versions.choose(state.app_version):
                    return False
                self._load(state)
                reader = service_snapshot.SnapshotReader(messages)
            self.invoke("on_start", False, self.cluster, reader)
        except Exception:
            self.control.send_ack(self.log_position, self.time, NULL_VALUE)
            raise
        self.consumers.begin()
        self.control.send_ack(self.log_position, self.time, self._client.client_id)
        return True

    def _load(self, snapshot: ServiceSnapshot) -> None:
        if snapshot.log_position != self.log_position:
            raise SnapshotError(
                f"snapshot at position {snapshot.log_position}, the node recovers from {self.log_position}"
            )
        self.cluster.time_unit = snapshot.time_unit
        self.cluster.timers = ServiceTimers(snapshot.timers)
        self.requests.restore(snapshot.requests)
        self.requests.ids.restore(snapshot.request_ids, snapshot.takes_ids)
        for session in snapshot.sessions:
            self.add_session(
                session.cluster_session_id,
                session.response_stream_id,
                session.response_channel,
                session.encoded_principal,
            )
        self.numbers.restore(snapshot.numbers, self.sessions)
        self.consumers.table.restore(snapshot.consumers)
        self.consumers.instances.restore(snapshot.instances)
        self.consumers.differences.restore(snapshot.differences)
        self.feeds.restore(snapshot.feeds)

    def _follow_log(self) -> int:
        """Open the log once the node records it: 1 when it did."""
        assert self._log_recording is not None
        recording_id = self._log_recording.value
        if recording_id < 0:
            return 0
        log = self._open_recording(recording_id, self.log_position)
        self._record_bytes_max = min(log.term_length // 8, MAX_MESSAGE_LENGTH)
        self.follow(log, *self._positions)
        return 1

    # Queries

    def on_queries(self) -> int:
        return self.queries.poll()

    def answer_queries(self) -> int:
        """Answer queries between two records, since the state within a callback belongs to no position."""
        return 0 if self.hold & HOLD_EGRESS else self.queries.answer()

    # Records

    def flush_feeds(self) -> None:
        self.feeds.flush()

    def on_record(self, record: bytes, position: int) -> None:
        found = ordo_codecs.decode_any(record)
        if found is None:
            raise ClusterError(f"log: unknown record at {position=} length_bytes={len(record)} head={record[:8].hex()}")
        table, values = found
        handler = self._handlers.get(table)
        if handler is not None:
            self._record = record
            self.set_log_state(position, values.timestamp, self.leadership_term_id)
            handler(values, position)

    def _on_session_open(self, event: records.SessionOpenEvent, position: int) -> None:
        session = self.add_session(
            event.cluster_session_id, event.response_stream_id, event.response_channel, event.encoded_principal
        )
        sessions = [session] if self.is_leading else []
        self._connect(sessions, partial(self.invoke, "on_session_open", True, session, event.timestamp))

    def _on_session_close(self, event: records.SessionCloseEvent, position: int) -> None:
        session = self.remove_session(event.cluster_session_id)
        if session is None:
            self.on_unknown_session(event.cluster_session_id)
            return
        self.numbers.close(session)
        self.consumers.close(session.id, position)
        self._egress.disconnect(session)
        self.invoke("on_session_close", True, session, event.timestamp, CloseReason(event.close_reason))

    def _on_open_identity(self, event: records.OpenIdentity, position: int) -> None:
        session = self.sessions.get(event.cluster_session_id)
        if session is None:
            return
        status, identity = self.requests.open(
            ordo_codecs.join_identity(event),
            session.encoded_principal,
            event.incarnation,
            event.known_position,
            position,
            event.timestamp,
        )
        answer = ordo_codecs.IDENTITY_OPENED.encode(
            leadership_term_id=self.leadership_term_id,
            cluster_session_id=session.id,
            timestamp=event.timestamp,
            incarnation=event.incarnation,
            open_position=identity.open_position if identity is not None else NULL_POSITION,
            number=identity.number if identity is not None else 0,
            confirmed=identity.confirmed if identity is not None else 0,
            status=status,
            length_bytes_max=self._record_bytes_max,
            takes_ids=self.requests.ids.is_in_force,
        )
        session.send_event(answer)  # where it is lost, the client asks again

    def _on_level(self, event: records.LevelEvent, position: int) -> None:
        if event.level >= REQUEST_ID_LEVEL:
            self.requests.ids.is_in_force = True

    def _on_message_mark(self, mark: records.MessageMark, position: int) -> None:
        session = self.sessions.get(mark.cluster_session_id)
        if session is not None and mark.number > 0:
            answer = ordo_codecs.MESSAGES_MARKED.encode(
                leadership_term_id=self.leadership_term_id,
                cluster_session_id=session.id,
                timestamp=mark.timestamp,
                log_position=position,
                **self.numbers.mark(session, mark),
            )
            session.send_event(answer)  # where it is lost, the client marks again

    def on_rejected(self, session: ContainerSession | None, text: str) -> None:
        if session is not None and self.is_leading:
            session.send_event(self._error_event(session.id, f"rejected at position {self.log_position}: {text}"))

    def _error_event(self, session_id: int, text: str) -> bytes:
        return codecs.SESSION_EVENT.encode(
            cluster_session_id=session_id,
            correlation_id=NULL_VALUE,
            leadership_term_id=self.leadership_term_id,
            leader_member_id=self.member_id,
            code=codecs.EventCode.ERROR,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            detail=text.encode("ascii", "replace").decode(),
        )

    def _on_timer(self, event: records.TimerEvent, position: int) -> None:
        if self.cluster.fire_timer(event.correlation_id, event.timestamp):
            self.invoke("on_timer_event", True, event.correlation_id, event.timestamp)

    def _on_version(self, event: records.VersionEvent, position: int) -> None:
        is_left_out = self.marks is not None and position in self.marks
        if concerns(event, self.service_id) and not is_left_out:
            self.versions.change(event.app_version)

    def _on_state_hash(self, event: records.StateHashEvent, position: int) -> None:
        is_left_out = self.marks is not None and position in self.marks
        if implements_state_hash(type(self.service)) and not is_left_out:
            self.attempt("state_hash", lambda: self._send_state_hash(position))

    def _send_state_hash(self, position: int) -> None:
        digest = digest_of([hash_state(self.service)])
        self.control.send(
            ordo_codecs.STATE_HASH.encode(log_position=position, service_id=self.service_id, digest=digest)
        )
        self.on_control_sent()

    def _on_new_term(self, event: records.NewLeadershipTermEvent, position: int) -> None:
        if event.term_base_log_position == 0 and not self.versions.begin_log(event.app_version):
            return
        time_unit = TimeUnit(event.time_unit)
        if self.cluster.time_unit not in (None, time_unit):
            raise ClusterError(f"log: time unit {time_unit.name} at {position=}, was {self.cluster.time_unit}")
        self.cluster.time_unit = time_unit
        self.set_log_state(position, event.timestamp, event.leadership_term_id)
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
        then = partial(self.invoke, "on_new_leadership_term", True, term)
        if self.leads_now != self.is_leading:
            self._change_role(self.leads_now, then)
        else:
            then()

    def _on_action(self, event: records.ClusterActionRequest, position: int) -> None:
        if event.action == ClusterAction.SNAPSHOT and event.flags in (0, -(2**31)):
            self.snapshots.take(position, self._now_ns)

    # Role and egress

    def on_leading(self, is_leading: bool) -> None:
        self._change_role(is_leading, lambda: None)

    def _change_role(self, is_leading: bool, then: Callable[[], None]) -> None:
        self.set_leading(is_leading)
        sessions = list(self.sessions.values())
        if is_leading:
            for session in sessions:
                session.is_closing = False
        else:
            self._egress.disconnect_all()
        role = Role.LEADER if is_leading else Role.FOLLOWER

        def announce() -> None:
            self.invoke("on_role_change", False, role)
            then()

        self._connect(sessions if is_leading else [], announce)

    def _connect(self, sessions: list[ContainerSession], then: Callable[[], None]) -> None:
        """Run `then` once the sessions have their publications; at once when none is missing."""
        self._egress.connect(sessions)
        if not self._egress.pending:
            then()
            return
        self.hold |= HOLD_EGRESS
        self._continuation = then
        # The callbacks of this duty cycle may have taken longer than the timeout: look at the clock again.
        self._egress_deadline_ns = self._clock.now() + EGRESS_TIMEOUT_NS
        self._client.wake_driver()
        self.ask_for_tick()

    def _await_egress(self, now_ns: int) -> int:
        self._client.do_work(now_ns)
        work_count = self._egress.poll()
        if self._egress.pending and now_ns < self._egress_deadline_ns:
            return work_count
        self.hold &= ~HOLD_EGRESS
        then, self._continuation = self._continuation, None
        assert then is not None
        then()
        return work_count + 1

    # Slow clients

    def on_slow_sessions(self, session_ids: list[int]) -> None:
        text = f"too slow: it left more than {self.egress.session_bytes_max} bytes untaken (egress_buffer)"
        for session_id in session_ids:
            session = self.sessions.get(session_id)
            if session is not None and self.is_leading:
                self._egress.disconnect(session)
                self.control.send(ordo_codecs.DISCONNECT_SESSION.encode(cluster_session_id=session_id, detail=text))
        self.on_control_sent()

    def encode_gap(self, session_id: int, count: int) -> bytes:
        return self._error_event(session_id, f"too slow: {count} messages are left out here (egress_buffer)")

    def close_client_session(self, session_id: int) -> None:
        self.cluster.close_client_session(session_id)

    def on_control_sent(self) -> None:
        self.note_written()
        if self.control.blocked:
            self.hold |= HOLD_CONTROL
            self.ask_for_tick()

    # Snapshots

    def describe_state(self, log_position: int) -> ServiceSnapshot:
        """Return the container's own state, which precedes the service's in a snapshot."""
        return ServiceSnapshot(
            log_position,
            self.leadership_term_id,
            self.cluster.time_unit or TimeUnit.MILLIS,
            self.versions.in_force,
            tuple(self.cluster.client_sessions),
            tuple(self.cluster.timers.snapshot()),
            tuple(self.requests.snapshot()),
            tuple(self.numbers.snapshot(self.sessions)),
            tuple(self.consumers.table.snapshot()),
            tuple(self.feeds.snapshot()),
            tuple(self.consumers.instances.snapshot()),
            tuple(self.consumers.differences.snapshot()),
            tuple(self.requests.ids.snapshot()),
            self.requests.ids.is_in_force,
        )

    def begin_callback(self, callback: str) -> None:
        """Note that the service is about to be called; some callbacks may not call the cluster."""
        self.callback, self.may_call = callback, False

    def note_error(self, error: Exception, where: str) -> None:
        self._errors.record(error, where)

    def note_failure(self, error: Exception, where: str, payload: bytes | None = None) -> None:
        """Keep what the service raised, and put it into the log, where its author looks.

        `payload`: the beginning of that of the message.
        """
        self._errors.record(error, where if payload is None else f"{where}, payload {payload!r}")
        shown = {} if payload is None else {"payload": repr(payload)}
        told = traceback_of(error)
        tell("error", "service.failed", member_id=self.member_id, text=where, **shown, traceback=told)

    # What the consensus module asks for

    def on_termination_position(self, log_position: int, ack_required: bool) -> None:
        if self.hold & HOLD_VERSION and ack_required:
            self.control.send_ack(log_position, self.time)  # it will never come there, and must not be waited for
        else:
            self._termination = log_position, ack_required

    def on_record_order(self, log_position: int, order: int, text: bytes) -> None:
        self.records.on_order(log_position, order, text)

    def on_request_ack(self, log_position: int) -> None:
        self._requested_acks.append(log_position)

    def _answer_requests(self) -> None:
        reached = max(self.log_position, self.executed_position)  # the last records need not be for the service
        for requested in [position for position in self._requested_acks if position <= reached]:
            self._requested_acks.remove(requested)
            self.control.send_ack(requested, self.time)
            self.on_control_sent()
        if self._termination is None or reached < self._termination[0]:
            return
        self._terminate()
        if self._termination[1]:
            self.control.send_ack(reached, self.time)
            self.on_control_sent()
        self._termination = None

    def _terminate(self) -> None:
        if self.state is not ContainerState.RUNNING:
            return
        self.state = ContainerState.TERMINATED
        self.executes = False
        try:
            self.service.on_terminate(self.cluster)
        except Exception as error:
            self.record_error(error)

    @property
    def terminated(self) -> bool:
        """True when the service has ended in order and everything it had to say is sent."""
        return self.state is ContainerState.TERMINATED and not self.control.blocked

    # Errors

    def invoke(self, callback: str, may_call: bool, *arguments: Any) -> None:
        """Call the service, unless the record is left out.

        What it raises becomes a ServiceError, which ends the container or, where the callback is that of a record, has
        it stand still.
        """
        if may_call and self.marks is not None and self.log_position in self.marks:
            return
        self.may_call = may_call
        self.attempt(callback, lambda: getattr(self.service, callback)(*arguments))

    def attempt(self, callback: str, action: Callable[[], object]) -> bool:
        """Run something of the service's, under the name of a callback. Return False when it raised."""
        self.callback = callback
        try:
            action()
        except Exception as error:
            self.on_failure(error, self.log_position)
            return False
        finally:
            self.may_call = False
        return True

    def on_failure(self, error: Exception, position: int) -> bool:
        self.executes = False
        self.feeds.drop(position)
        if self.state is ContainerState.FAILED:
            raise error
        self.state = ContainerState.FAILED
        if isinstance(error, OrdoError) and not isinstance(error, ServiceError | PayloadError):
            self.record_error(error)
            raise error
        where = f"service {type(self.service).__name__} raised in {self.callback} at position {position}"
        self.note_failure(error, where, self.failed_payload)
        failure = ServiceError(f"{where}: {type(error).__name__}: {error}", category=Category.FATAL)
        if self.callback not in RECORD_CALLBACKS or not self.records.is_supported:
            raise failure from error
        failure.__cause__ = error
        self.records.on_failure(failure, position, type(error).__qualname__)
        return True

    def stand_still(self) -> None:
        """Stop executing, since the state differs from the other members'.

        The node runs on without its service until a restart.
        """
        self.executes = False
        self.state = ContainerState.FAILED

    def keep_state(self) -> None:
        """Record the state at which the service stands still, as evidence, unless it has executed half a record."""
        is_whole = self.state is ContainerState.RUNNING
        self.stand_still()
        self.snapshots.keep_state(self.log_position, self._now_ns, is_whole=is_whole)

    def waits_before(self, position: int) -> bool:
        return self.records.waits_before(position)

    def on_unknown_session(self, session_id: int) -> None:
        self.record_error(ClusterError(f"log: record of a session that is not open: session_id={session_id}"))

    def record_error(self, error: Exception) -> None:
        self._errors.record(error, type(error).__name__)
