"""One instance of an application as a function of the log: entries in, outputs and state out, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ordo.applications.app_cluster import AppCluster, AppSession
from ordo.applications.app_versions import AppVersions
from ordo.applications.outputs import NULL_SESSION_ID, Output, group_identity
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.cluster.wire.codecs import find_time_unit
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.cluster.wire.sessions.query_call import ask_service
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.follow.entries import EntryKind, LogEntry, is_snapshot
from ordo.runtime.errors import ClusterError, Reject, ServiceError, SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import BYTES, Message
from ordo.service_api.native import Header, MessageSequence
from ordo.service_api.requests import Identity, OpenStatus, RequestTable
from ordo.service_api.service import CloseReason, NewLeadershipTermEvent, Service, TimeUnit
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.timers import ServiceTimers

SCHEMA_ID = 902
"""The schema of the data that only an instance writes and reads: its checkpoint."""
SCHEMA_VERSION = 5
MESSAGE_BYTES_MAX = 8 << 20
NO_NUMBERS = -2
"""In a checkpoint, in place of the last number: messages have none before the log has the level of such numbers."""
APP_STATE = Message(
    "AppState",
    1,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[
        ("time", "i64"),
        ("outputs_made", "i64"),
        ("outputs_accepted", "i64"),
        ("outputs_before_identity", "i64"),
        ("pending_count", "i32"),
        ("writer_session_id", "i64", 2),
        ("is_canary", "i32", 3),
        ("app_version", "i32", 4),
        ("former_version", "i32", 4),
    ],
    data=[("group", BYTES)],
)
PENDING_OUTPUT = Message(
    "PendingOutput",
    2,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[("number", "i64"), ("input_position", "i64"), ("target_session_id", "i64"), ("output_index", "i32")],
    data=[("payload", BYTES), ("id_digest", BYTES, 5)],
)


class AppExecutor:
    """Executes the log for one service: each request and each output of a group once, at its first copy in the log.

    The rule is that of the members (`service_api.requests`), without what the length of answers decided in logs below
    protocol level 3. The outputs of the instance's own group come back as messages without a session, and must be those
    that it has made itself.
    """

    IS_CANARY = False
    """Its outputs need not be those of the group, so what it keeps is of no use to an instance that writes."""

    def __init__(self, service: Service | AppVersions, group: str, snapshot: Iterable[bytes] | None = None) -> None:
        """`snapshot`: what `take_snapshot` gave. Raises SnapshotError."""
        self._versions = AppVersions.of(service)
        self.app_version = self._versions.lowest
        """The version of the code that executes the log."""
        self._former_version = NO_VERSION
        self.group = group
        self.identity_name = group_identity(group)
        self.cluster = AppCluster()
        self.identity: Identity | None = None
        """The group's, as the log has it up to here."""
        self.outputs_accepted = 0
        """Outputs of the group that stand in the log up to here."""
        self.outputs_before_identity = 0
        """The number of outputs before the identity was opened, at which its numbers begin."""
        self.writer_session_id = NULL_SESSION_ID
        """The session that opened the identity last."""
        self.outputs_repeated = 0
        """Outputs of the group that were not executed, because something was executed for their ids before."""
        self.takes_output_ids = False
        """The log has come to the protocol level of outputs with ids since this instance began to read it."""
        self.refused = 0
        self._number = 0
        """The number of the message that was executed last."""
        self._requests = RequestTable()
        self._header = Header()
        self._sequence = MessageSequence()
        self._knows_sequence = True
        """Whether the checkpoint that it goes on from has the number of the last message; else all have 0."""
        messages = iter(snapshot) if snapshot is not None else None
        if messages is not None:
            self._restore(messages)
        self.service = self._versions.make(self.app_version)
        self.service.on_start(self.cluster, SnapshotReader(messages) if messages is not None else None)

    @property
    def position(self) -> int:
        """After the last record that was executed."""
        return self.cluster.log_position

    @property
    def is_writer_there(self) -> bool:
        """Whether the session that opened the identity last is open, as the log has it up to here."""
        return self.identity is not None and self.writer_session_id in self.cluster.sessions

    # Entries

    def execute(self, entry: LogEntry) -> None:
        """Execute the next entry of the log.

        Exceptions of the service propagate; the instance cannot continue after one.
        """
        cluster = self.cluster
        if entry.kind is EntryKind.APP_VERSION and entry.values.group != self.group:
            return
        cluster.begin_record(entry.position, entry.timestamp, entry.leadership_term_id)
        kind = entry.kind
        if kind is EntryKind.NEW_TERM:
            self._take_time_unit(entry)
        self._fire_timers(entry.timestamp)
        if kind is EntryKind.MESSAGE:
            self._on_message(entry)
        elif kind in (EntryKind.REQUEST, EntryKind.OUTPUT):
            self._on_request(entry)
        elif kind is EntryKind.IDENTITY:
            self._on_identity(entry)
        elif kind is EntryKind.SESSION_OPEN:
            self._on_session_open(entry)
        elif kind is EntryKind.SESSION_CLOSE:
            self._on_session_close(entry)
        elif kind is EntryKind.NEW_TERM:
            self._on_new_term(entry)
        elif kind is EntryKind.APP_VERSION and entry.session_id in cluster.sessions:
            self._on_app_version(entry)
        elif kind is EntryKind.LEVEL:
            self._on_level(entry)
        elif kind is EntryKind.CLUSTER_ACTION and is_snapshot(entry):
            self._sequence.pass_snapshot()
            self._knows_sequence = self._knows_sequence or not self._sequence.is_kept

    def _on_level(self, entry: LogEntry) -> None:
        self.takes_output_ids = self.takes_output_ids or entry.values.level >= OUTPUT_ID_LEVEL
        if entry.values.level >= SEQUENCE_LEVEL:
            self._sequence.keep(entry.position)

    def _on_message(self, entry: LogEntry) -> None:
        """Messages that the service inside the cluster sent to itself are none of an application's."""
        session = self.cluster.sessions.get(entry.session_id)
        if session is not None or entry.session_id < 0:
            self._number = self._sequence.next()
        if session is not None:
            self._deliver(session, entry)

    def _on_request(self, entry: LogEntry) -> None:
        values, session = entry.values, self.cluster.sessions.get(entry.session_id)
        if session is None:
            return
        number_before = self.identity.number if self.identity is not None else 0
        identity = self._requests.judge(
            values.open_position,
            session.encoded_principal,
            values.number,
            values.confirmed,
            entry.timestamp,
            ordo_codecs.request_digest(values),
            entry.payload,
        )
        if identity is not None:
            self._requests.note(identity, entry.position, ordo_codecs.AnswerStatus.OK, b"")
            self._number = self._sequence.next()
        self._forget_confirmed()
        if identity is not None and identity is self.identity:
            self._on_own_output(entry, is_executed=True)
        elif identity is None and self.identity is not None and self.identity.number > number_before:
            self.outputs_repeated += 1
            self._on_own_output(entry, is_executed=False)
        elif identity is not None:
            session.identity = identity.identity
            self._deliver(session, entry)
            session.identity = None

    def _on_own_output(self, entry: LogEntry, *, is_executed: bool) -> None:
        """Take the first copy of an output of this group, whichever instance wrote it.

        One that is not executed, for its id was used before, has its place among the outputs, and is not delivered.
        """
        values = entry.values
        is_output = entry.kind is EntryKind.OUTPUT
        self.outputs_accepted += 1
        found = Output(
            self.outputs_accepted,
            values.input_position if is_output else 0,
            values.output_index if is_output else 0,
            values.target_session_id if is_output else NULL_SESSION_ID,
            entry.payload,
            entry.request_id,
        )
        self._take_output(found)
        if is_executed and found.target_session_id == NULL_SESSION_ID:
            self._deliver(None, entry)

    def _take_output(self, found: Output) -> None:
        """All instances must have made the same."""
        made = self.cluster.get_pending(found.number)
        if made != found:
            mine = made.describe() if made is not None else "none"
            raise ServiceError(
                f"group {self.group}: output {found.number} in the log at position={self.position} is "
                f"{found.describe()}, "
                f"this instance made {mine}{_describe_rest(made, found)}: the "
                "service is not deterministic, or the instances run different code"
            )

    def _forget_confirmed(self) -> None:
        """Forget outputs once the log shows that an instance knows that they are executed."""
        pending = self.cluster.pending
        confirmed = self.outputs_before_identity + (self.identity.confirmed if self.identity is not None else 0)
        while pending and pending[0].number <= confirmed:
            pending.popleft()

    def _on_identity(self, entry: LogEntry) -> None:
        values, session = entry.values, self.cluster.sessions.get(entry.session_id)
        if session is None:
            return
        name = ordo_codecs.join_identity(values)
        status, identity = self._requests.open(
            name,
            session.encoded_principal,
            values.incarnation,
            values.known_position,
            entry.position,
            entry.timestamp,
        )
        if name != self.identity_name:
            return
        if identity is not None:
            self.writer_session_id = session.id
        elif status is OpenStatus.EXPIRED:
            self.identity = None
        if identity is None or identity is self.identity:
            return
        self.identity = identity
        self.outputs_before_identity = self.outputs_accepted
        self._forget_confirmed()

    def _on_session_open(self, entry: LogEntry) -> None:
        values = entry.values
        session = self.cluster.add_session(
            entry.session_id, values.response_stream_id, values.response_channel, values.encoded_principal
        )
        self._call("on_session_open", session, entry.timestamp)

    def _on_session_close(self, entry: LogEntry) -> None:
        session = self.cluster.sessions.pop(entry.session_id, None)
        if session is not None:
            self._call("on_session_close", session, entry.timestamp, CloseReason(entry.values.close_reason))

    def _take_time_unit(self, entry: LogEntry) -> None:
        """Go on in the unit of the log's time that the first record of a term names, before timers are fired in it."""
        unit = find_time_unit(entry.values.time_unit)
        if unit is None:
            raise ClusterError(f"log: time_unit={entry.values.time_unit} at position={entry.position} is none")
        former, self.cluster.time_unit = self.cluster.time_unit, unit
        if former not in (None, unit):
            self.cluster.timers.rescale(former, unit)
            self._call("on_time_unit", former, unit)

    def _on_new_term(self, entry: LogEntry) -> None:
        values = entry.values
        event = NewLeadershipTermEvent(
            values.leadership_term_id,
            values.log_position,
            values.timestamp,
            values.term_base_log_position,
            values.leader_member_id,
            values.log_session_id,
            self.cluster.time_unit or TimeUnit.MILLIS,
            values.app_version,
        )
        self._call("on_new_leadership_term", event)

    def _on_app_version(self, entry: LogEntry) -> None:
        """Move the state from the old code to the new one, as through a checkpoint.

        An order that was sent again finds another version in force than it wants to end, and changes nothing.
        """
        former, wanted = entry.values.former_version, entry.values.app_version
        if former != self.app_version:
            if self._former_version == NO_VERSION:
                self._versions.demand(former, f"up to position={self.position}")
            return
        self._versions.demand(wanted, f"from position={self.position} on")
        messages: list[bytes] = []
        self._write_state(messages)
        self.service = self._versions.make(wanted)
        self.app_version, self._former_version = wanted, former
        self.cluster.begin_call("on_start", may_call=False)
        self.service.on_start(self.cluster, SnapshotReader(messages))

    def _fire_timers(self, timestamp: int) -> None:
        """Fire the due timers in order of deadline, then correlation id, including those that one of them schedules."""
        while (due := self.next_timer()) is not None and due[0] <= timestamp:
            self.cluster.timers.cancel(due[1])
            self._call("on_timer_event", due[1], timestamp)

    def next_timer(self) -> tuple[int, int] | None:
        """(deadline, correlation id) of the timer that is due first."""
        if not len(self.cluster.timers):
            return None
        return min(((deadline, one) for one, deadline in self.cluster.timers.snapshot()), default=None)

    # Calls

    def _deliver(self, session: AppSession | None, entry: LogEntry) -> None:
        number = self._number if self._knows_sequence else 0
        self._header.update(entry.position, entry.leadership_term_id, number, entry.arrival_ns)
        made_before = self.cluster.outputs_made
        try:
            answer = self._call("on_session_message", session, entry.timestamp, entry.payload, self._header)
        except Reject:
            self.cluster.withdraw(made_before)
            self.refused += 1
            return
        if answer is not None and session is not None:
            self.cluster.begin_call("on_session_message", may_call=True)
            session.offer(answer)
            self.cluster.end_call()

    def _call(self, callback: str, *arguments: object) -> bytes | None:
        cluster = self.cluster
        cluster.begin_call(callback, may_call=True)
        try:
            answer: bytes | None = getattr(self.service, callback)(*arguments)
        finally:
            cluster.end_call()
        for session in cluster.sessions.values() if callback == "on_session_message" else ():
            if session.error is not None:
                error, session.error = session.error, None
                raise error
        return answer

    def query(self, payload: bytes, note_error: Callable[[Exception], object]) -> tuple[QueryStatus, bytes]:
        """Return the service's answer from its present state.

        An exception goes to `note_error`, and fails the query only.
        """
        self.cluster.begin_call("on_query", may_call=False)
        return ask_service(self.service, payload, note_error)

    # Snapshots

    def take_snapshot(self) -> Iterator[bytes]:
        """Yield the whole state in messages: the cluster's part, pending outputs, the service's own."""
        cluster = self.cluster
        last, is_kept = self._sequence.snapshot()
        yield from container_snapshot.encode(
            ServiceSnapshot(
                cluster.log_position,
                cluster.leadership_term_id,
                cluster.time_unit or TimeUnit.MILLIS,
                1,
                tuple(cluster.client_sessions),
                tuple(cluster.timers.snapshot()),
                tuple(self._requests.snapshot()),
                request_ids=tuple(self._requests.ids.snapshot()),
                takes_ids=len(self._requests.ids) > 0,
                sequence=NULL_VALUE if not self._knows_sequence else last if last >= 0 else NO_NUMBERS,
                keeps_sequence=is_kept,
            )
        )
        yield APP_STATE.encode(
            time=cluster.time,
            outputs_made=cluster.outputs_made,
            outputs_accepted=self.outputs_accepted,
            outputs_before_identity=self.outputs_before_identity,
            pending_count=len(cluster.pending),
            writer_session_id=self.writer_session_id,
            is_canary=int(self.IS_CANARY),
            app_version=self.app_version,
            former_version=self._former_version,
            group=self.group.encode(),
        )
        for one in cluster.pending:
            yield PENDING_OUTPUT.encode(
                number=one.number,
                input_position=one.input_position,
                target_session_id=one.target_session_id,
                output_index=one.output_index,
                payload=one.payload,
                id_digest=one.id_digest,
            )
        own: list[bytes] = []
        self._write_state(own)
        yield from own

    def _write_state(self, messages: list[bytes]) -> None:
        """Add the service's own part."""
        writer = SnapshotWriter(messages.append, MESSAGE_BYTES_MAX)
        self.cluster.begin_call("on_take_snapshot", may_call=False)
        self.service.on_take_snapshot(writer)
        writer.close()

    def _restore(self, messages: Iterator[bytes]) -> None:
        cluster = self.cluster
        found = container_snapshot.decode(messages)
        state = APP_STATE.decode(next(messages, b""))
        if state.group != self.group.encode():
            raise SnapshotError(
                f"the checkpoint is of group {state.group.decode(errors='replace')!r}, not {self.group!r}"
            )
        if state.is_canary == 1 and not self.IS_CANARY:
            raise SnapshotError("the checkpoint is a canary's: an instance that writes needs a folder of its own")
        if state.app_version > NO_VERSION and not self.IS_CANARY:
            self._versions.demand_for_checkpoint(state.app_version)
            self.app_version, self._former_version = state.app_version, state.former_version
        cluster.begin_record(found.log_position, state.time, found.leadership_term_id)
        cluster.time_unit = found.time_unit
        for one in found.sessions:
            cluster.add_session(
                one.cluster_session_id, one.response_stream_id, one.response_channel, one.encoded_principal
            )
        cluster.timers = ServiceTimers(found.timers)
        self._requests.restore(found.requests)
        self._requests.ids.restore(found.request_ids, found.takes_ids)
        self._sequence.restore(found.sequence, found.keeps_sequence)
        self._knows_sequence = found.sequence != NULL_VALUE
        self.identity = next((one for one in self._requests if one.identity == self.identity_name), None)
        cluster.outputs_made, self.outputs_accepted = state.outputs_made, state.outputs_accepted
        self.outputs_before_identity = state.outputs_before_identity
        self.writer_session_id = state.writer_session_id
        for _ in range(state.pending_count):
            row = PENDING_OUTPUT.decode(next(messages, b""))
            cluster.pending.append(
                Output(
                    row.number,
                    row.input_position,
                    row.output_index,
                    row.target_session_id,
                    row.payload,
                    row.id_digest,
                )
            )


def _describe_rest(made: Output | None, found: Output) -> str:
    """Return how two outputs at one place differ beyond what `Output.describe` shows."""
    if made is None or made[:4] != found[:4]:
        return ""
    return ", with another payload" if made.payload != found.payload else ", with another id"
