"""The snapshot stream of a service (cluster-consensus.md §16.3): markers, sessions, timers, then its own data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import SnapshotMark, find_time_unit
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.request_ids import PrincipalIds
from ordo.service_api.requests import IdentityState
from ordo.service_api.service import TimeUnit

if TYPE_CHECKING:
    from ordo.cluster.wire import records

SNAPSHOT_MESSAGE_BYTES_MAX = 128 * 1024
"""An eighth of the snapshot stream's terms of 1 MiB."""
ANSWER_PART_BYTES = 64 * 1024
_AS_THEY_ARE = (
    codecs.CLIENT_SESSION,
    ordo_codecs.SESSION_NUMBERS,
    ordo_codecs.FEED_STATE,
    ordo_codecs.MESSAGE_SEQUENCE,
    ordo_codecs.STATE_HASH,
)
"""Messages that are handed out as they were decoded."""


class ServiceSnapshot(NamedTuple):
    """What the container itself keeps in a snapshot."""

    log_position: int
    leadership_term_id: int
    time_unit: TimeUnit
    app_version: int
    sessions: tuple[Any, ...]
    """Each has cluster_session_id, response_stream_id, response_channel, encoded_principal."""
    timers: tuple[tuple[int, int], ...]
    """(correlation id, deadline)."""
    requests: tuple[IdentityState, ...] = ()
    numbers: tuple[Any, ...] = ()
    """SessionNumbers: encoded where they are written, decoded where they were read."""
    consumers: tuple[bytes, ...] = ()
    """The state of each durable consumer."""
    feeds: tuple[Any, ...] = ()
    """FeedState: encoded where they are written, decoded where they were read."""
    instances: tuple[bytes, ...] = ()
    """AppReport of each instance of an application."""
    differences: tuple[bytes, ...] = ()
    """AppDifference of each difference that canaries told."""
    request_ids: tuple[PrincipalIds, ...] = ()
    """What callers chose as ids of their requests."""
    takes_ids: bool = False
    """The log up to here has a protocol level with such ids."""
    takes_output_ids: bool = False
    """The same of applications' outputs with ids."""
    sequence: int = NULL_VALUE
    """The number of the last message; -1 where messages have none, or nothing is known of them."""
    keeps_sequence: bool = False
    """The log up to here has the protocol level of such numbers."""
    state_hash: bytes = b""
    """The hash of the service's state, in a snapshot that members copy from a standby; empty in others."""


def encode(snapshot: ServiceSnapshot) -> Iterator[bytes]:
    """Yield the container's messages; the service's own follow."""
    yield _marker(snapshot, SnapshotMark.BEGIN)
    for session in snapshot.sessions:
        yield codecs.CLIENT_SESSION.encode(
            cluster_session_id=session.id,
            response_stream_id=session.response_stream_id,
            response_channel=session.response_channel,
            encoded_principal=session.encoded_principal,
        )
    for correlation_id, deadline in snapshot.timers:
        yield codecs.TIMER.encode(correlation_id=correlation_id, deadline=deadline)
    for state in snapshot.requests:
        yield from _encode_identity(state)
    yield from snapshot.numbers
    for text in snapshot.consumers:
        yield from _encode_consumer(text)
    yield from snapshot.feeds
    yield from snapshot.instances
    yield from snapshot.differences
    if snapshot.takes_ids:
        yield from _encode_ids(snapshot.request_ids, snapshot.takes_output_ids)
    if snapshot.sequence != NULL_VALUE:
        yield ordo_codecs.MESSAGE_SEQUENCE.encode(last=snapshot.sequence, is_kept=int(snapshot.keeps_sequence))
    if snapshot.state_hash:
        yield ordo_codecs.STATE_HASH.encode(
            log_position=snapshot.log_position, service_id=NULL_VALUE, digest=snapshot.state_hash
        )
    yield _marker(snapshot, SnapshotMark.END)


def head_digest(snapshot: ServiceSnapshot) -> bytes:
    """Return the digest of a snapshot's head, the container's messages, by which a member knows a standby's copy.

    The hash of the service's state is one of them. Empty where the service gives none.
    """
    return digest_of(encode(snapshot)) if snapshot.state_hash else b""


def ends_head(message: bytes) -> bool:
    """Return whether a message of a service's snapshot is the last one of its head."""
    found = codecs.decode(message)
    return found is not None and found[0] is codecs.SNAPSHOT_MARKER and found[1].mark == SnapshotMark.END


def _encode_consumer(text: bytes) -> Iterator[bytes]:
    parts = [text[start : start + ANSWER_PART_BYTES] for start in range(0, len(text), ANSWER_PART_BYTES)]
    for index, part in enumerate(parts):
        yield ordo_codecs.CONSUMER_STATE.encode(part=index, parts=len(parts), state=part)


def _add_consumer(consumers: list[bytes], values: records.ConsumerState) -> None:
    """One more consumer, or one more part of the last."""
    text = values.state if values.part == 0 else consumers.pop() + values.state if consumers else b""
    consumers.append(text)


def _encode_ids(states: Iterable[PrincipalIds], takes_outputs: bool) -> Iterator[bytes]:
    """Yield at least one message, which says that there are ids, and whether outputs may have them."""
    yield ordo_codecs.REQUEST_IDS.encode(part=int(takes_outputs), parts=0, principal=b"", rows=b"")
    for principal, rows in states:
        parts = [rows[start : start + ANSWER_PART_BYTES] for start in range(0, len(rows), ANSWER_PART_BYTES)]
        for index, part in enumerate(parts):
            yield ordo_codecs.REQUEST_IDS.encode(part=index, parts=len(parts), principal=principal, rows=part)


class _Ids:
    """What the RequestIds of a snapshot say, as they come."""

    def __init__(self) -> None:
        self._parts: list[tuple[bytes, list[bytes]]] = []
        self.are_taken = self.are_taken_of_outputs = False

    def add(self, values: records.RequestIds) -> None:
        self.are_taken = True
        if values.parts == 0:
            self.are_taken_of_outputs = values.part == 1
            return
        if values.part == 0:
            self._parts.append((values.principal, []))
        if not self._parts or values.part != len(self._parts[-1][1]):
            raise SnapshotError(f"snapshot: part {values.part} of the ids of requests is out of order")
        self._parts[-1][1].append(values.rows)

    def states(self) -> tuple[PrincipalIds, ...]:
        return tuple(PrincipalIds(principal, b"".join(rows)) for principal, rows in self._parts)


def _encode_identity(state: IdentityState) -> Iterator[bytes]:
    yield ordo_codecs.IDENTITY.encode(
        incarnation=state.incarnation,
        open_position=state.open_position,
        number=state.number,
        confirmed=state.confirmed,
        last_time=state.last_time,
        principal=state.principal,
        **ordo_codecs.split_identity(state.identity),
    )
    for number, log_position, status, payload in state.answers:
        for start in range(0, max(len(payload), 1), ANSWER_PART_BYTES):
            yield ordo_codecs.KEPT_ANSWER.encode(
                number=number,
                log_position=log_position,
                status=status,
                payload=payload[start : start + ANSWER_PART_BYTES],
            )


def _decode_identity(values: records.Identity) -> IdentityState:
    return IdentityState(
        ordo_codecs.join_identity(values),
        values.principal,
        values.incarnation,
        values.open_position,
        values.number,
        values.confirmed,
        values.last_time,
        [],
    )


def _add_answer(state: IdentityState, values: records.KeptAnswer) -> None:
    """One more answer, or one more part of the last."""
    payload = values.payload
    if state.answers and state.answers[-1][0] == values.number:
        payload = state.answers.pop()[3] + payload
    state.answers.append((values.number, values.log_position, values.status, payload))


def _marker(snapshot: ServiceSnapshot, mark: SnapshotMark) -> bytes:
    return codecs.SNAPSHOT_MARKER.encode(
        type_id=codecs.SNAPSHOT_TYPE_SERVICE,
        log_position=snapshot.log_position,
        leadership_term_id=snapshot.leadership_term_id,
        index=0,
        mark=mark,
        time_unit=snapshot.time_unit,
        app_version=snapshot.app_version,
    )


def decode(messages: Iterator[bytes]) -> ServiceSnapshot:
    """Read up to the END marker and leave the service's own messages in the iterator.

    Raises SnapshotError when the stream is not a service's snapshot or not whole.
    """
    begin: records.SnapshotMarker | None = None
    timers: list[tuple[int, int]] = []
    requests: list[IdentityState] = []
    consumers: list[bytes] = []
    ids = _Ids()
    reports: dict[Any, list[bytes]] = {ordo_codecs.APP_REPORT: [], ordo_codecs.APP_DIFFERENCE: []}
    as_they_are: dict[Any, list[Any]] = {table: [] for table in _AS_THEY_ARE}
    for message in messages:
        table: Any
        values: Any
        table, values = ordo_codecs.decode_any(message) or (None, None)
        if table in as_they_are and begin is not None:
            as_they_are[table].append(values)
        elif table is codecs.TIMER and begin is not None:
            timers.append((values.correlation_id, values.deadline))
        elif table is ordo_codecs.IDENTITY and begin is not None:
            requests.append(_decode_identity(values))
        elif table is ordo_codecs.REQUEST_IDS and begin is not None:
            ids.add(values)
        elif table is ordo_codecs.CONSUMER_STATE and begin is not None:
            _add_consumer(consumers, values)
        elif table in reports and begin is not None:
            reports[table].append(bytes(message))
        elif table is ordo_codecs.KEPT_ANSWER and requests:
            _add_answer(requests[-1], values)
        elif _check_marker(table, values, message, begin is not None) or begin is None:
            begin = values
        else:
            return ServiceSnapshot(
                begin.log_position,
                begin.leadership_term_id,
                _time_unit(begin.time_unit),
                begin.app_version,
                tuple(as_they_are[codecs.CLIENT_SESSION]),
                tuple(timers),
                tuple(requests),
                tuple(as_they_are[ordo_codecs.SESSION_NUMBERS]),
                tuple(consumers),
                tuple(as_they_are[ordo_codecs.FEED_STATE]),
                tuple(reports[ordo_codecs.APP_REPORT]),
                tuple(reports[ordo_codecs.APP_DIFFERENCE]),
                ids.states(),
                ids.are_taken,
                ids.are_taken_of_outputs,
                *_sequence_of(as_they_are[ordo_codecs.MESSAGE_SEQUENCE]),
                *(one.digest for one in as_they_are[ordo_codecs.STATE_HASH][:1]),
            )
    raise SnapshotError("snapshot: it ends before its END marker; the recording is not whole")


def _sequence_of(found: list[records.MessageSequence]) -> tuple[int, bool]:
    """Return the number of the last message, and whether the log has the level; a snapshot has one such message."""
    return (found[0].last, found[0].is_kept == 1) if found else (NULL_VALUE, False)


def _check_marker(table: Any, values: Any, message: bytes, has_begun: bool) -> bool:
    """Return True for BEGIN, False for END. Raises SnapshotError if it is not the expected marker."""
    if table is not codecs.SNAPSHOT_MARKER:
        raise SnapshotError(f"snapshot: unexpected message before the END marker: {message[:16].hex()}")
    if values.type_id != codecs.SNAPSHOT_TYPE_SERVICE:
        wanted = codecs.SNAPSHOT_TYPE_SERVICE
        raise SnapshotError(f"snapshot: type_id={values.type_id}, expected {wanted} (a service)")
    if (values.mark == SnapshotMark.BEGIN) == has_begun:
        raise SnapshotError(f"snapshot: marker {values.mark} out of order")
    return not has_begun


def _time_unit(value: int) -> TimeUnit:
    found = find_time_unit(value)
    if found is None:
        raise SnapshotError(f"snapshot: time_unit={value} is none")
    return found


def payloads(messages: Iterable[Any]) -> Iterator[bytes]:
    """Yield the payload of each message of a recording."""
    for message in messages:
        yield message.payload
