"""The consensus module's own snapshot: sessions, timers and pending service messages (cluster-consensus.md §16.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ordo.cluster.module.sessions.service_messages import PendingServiceMessages, service_of
from ordo.cluster.module.sessions.sessions import ClusterSession, OpenSessions
from ordo.cluster.module.sessions.timers import ClusterTimers
from ordo.cluster.module.state.state_store import Skip
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import ClusterTimeUnit, SnapshotMark, find_time_unit
from ordo.cluster.wire.configuration import NamedConfiguration, decode_configuration
from ordo.cluster.wire.levels import FIRST_LEVEL
from ordo.cluster.wire.log_identity import LogIdentity, pack_identity, unpack_identity
from ordo.cluster.wire.streams import MAIN_SERVICE_ID, SERVICES_MAX
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.messages.logged import LoggedSchema

NULL_ENUM = -(2**31)
TERMS_A_MESSAGE = 4096
_TERM_ROW = struct.Struct("<qq")


@dataclass(frozen=True)
class SnapshotPoint:
    """The place in the log where a snapshot was taken, and what must match when it is loaded."""

    log_position: int
    leadership_term_id: int
    app_version: int
    """The version of service 0."""
    time_unit: ClusterTimeUnit = ClusterTimeUnit.MILLIS


@dataclass(frozen=True)
class SnapshotLayout:
    """Which streams the parts of a snapshot come by, and how many parts there are."""

    cluster_id: int = 0
    service_count: int = 1


@dataclass
class PendingTracker:
    """What one service has sent that the log does not have yet."""

    service_id: int
    next_session_id: int
    log_session_id: int
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, messages: PendingServiceMessages) -> PendingTracker:
        pending = list(messages.snapshot())
        log_session_id = messages.log_session_id
        return cls(messages.service_id, log_session_id + len(pending) + 1, log_session_id, pending)

    def describe(self) -> dict[str, int]:
        """Return the fields that the module's own message and the tracker's have in common."""
        return {
            "next_service_session_id": self.next_session_id,
            "log_service_session_id": self.log_session_id,
            "pending_message_capacity": sum(8 + (len(payload) + 39 & ~7) for _, payload in self.pending),
        }


@dataclass
class ModuleSnapshot:
    """The content of a snapshot, as values."""

    point: SnapshotPoint
    next_session_id: int = 1
    sessions: list[ClusterSession] = field(default_factory=list)
    timers: list[tuple[int, int]] = field(default_factory=list)
    trackers: list[PendingTracker] = field(default_factory=lambda: [PendingTracker.of(PendingServiceMessages())])
    """Keyed by service id."""
    configuration: NamedConfiguration | None = None
    terms: list[tuple[int, int]] = field(default_factory=list)
    """(term id, base position) of every leadership term of the log below: what a member needs that has only this."""
    skips: list[Skip] = field(default_factory=list)
    """Records below that are left out: the state is without them."""
    level: int = FIRST_LEVEL
    """Protocol level of the log there (ordo.cluster.module.versions.protocol_level)."""
    other_versions: dict[int, int] = field(default_factory=dict)
    """Keyed by service: the versions that differ from service 0's."""
    identity: LogIdentity | None = None
    """What the log below said of the cluster that it is of."""
    schemas: list[LoggedSchema] = field(default_factory=list)
    """All schemas of the services' messages that the log below has."""

    def version_of(self, service_id: int) -> int:
        """Return the version of a service that is in force at the snapshot."""
        return self.other_versions.get(service_id, self.point.app_version)


def capture(
    point: SnapshotPoint,
    sessions: OpenSessions,
    timers: ClusterTimers,
    service_messages: Iterable[PendingServiceMessages],
    configuration: NamedConfiguration | None,
    terms: list[tuple[int, int]],
    skips: list[Skip],
    level: int,
    versions: list[int],
    identity: LogIdentity | None,
    schemas: list[LoggedSchema],
) -> ModuleSnapshot:
    """Return the module's state at a point; `versions` are by service."""
    return ModuleSnapshot(
        point,
        sessions.next_session_id,
        list(sessions),
        timers.snapshot(),
        [PendingTracker.of(one) for one in service_messages],
        configuration,
        [row for row in terms if row[1] < point.log_position],
        skips,
        level,
        {one: version for one, version in enumerate(versions) if version != point.app_version},
        identity,
        schemas,
    )


def encode(snapshot: ModuleSnapshot) -> Iterator[bytes]:
    """Yield the messages of the snapshot stream, in the order of §16.2."""
    yield _marker(snapshot.point, SnapshotMark.BEGIN)
    if snapshot.configuration is not None:
        yield snapshot.configuration.encode(snapshot.point.leadership_term_id, NULL_VALUE)
    if snapshot.level:
        yield ordo_codecs.LEVEL_EVENT.encode(
            leadership_term_id=snapshot.point.leadership_term_id,
            timestamp=0,
            level=snapshot.level,
            member_id=NULL_VALUE,
        )
    if snapshot.identity is not None:
        yield ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
            leadership_term_id=snapshot.point.leadership_term_id,
            timestamp=0,
            log_position=snapshot.identity.position,
            member_id=NULL_VALUE,
            **unpack_identity(snapshot.identity.identity),
        )
    for service_id, app_version in sorted(snapshot.other_versions.items()):
        yield ordo_codecs.VERSION_EVENT.encode(
            leadership_term_id=snapshot.point.leadership_term_id,
            timestamp=0,
            app_version=app_version,
            member_id=NULL_VALUE,
            service_id=service_id,
        )
    yield from (_encode_schema(one, snapshot.point.leadership_term_id) for one in snapshot.schemas)
    for first in range(0, len(snapshot.terms), TERMS_A_MESSAGE):
        rows = snapshot.terms[first : first + TERMS_A_MESSAGE]
        packed = b"".join(_TERM_ROW.pack(*row) for row in rows)
        yield ordo_codecs.LEADERSHIP_TERMS.encode(count=len(rows), terms=packed)
    for skip in snapshot.skips:
        yield ordo_codecs.SKIPPED_RECORD.encode(**skip._asdict())
    yield codecs.CONSENSUS_MODULE.encode(next_session_id=snapshot.next_session_id, **snapshot.trackers[0].describe())
    for session in snapshot.sessions:
        yield codecs.CLUSTER_SESSION.encode(
            cluster_session_id=session.id,
            correlation_id=session.correlation_id,
            opened_log_position=session.opened_log_position,
            time_of_last_activity=NULL_VALUE,
            close_reason=NULL_ENUM,
            response_stream_id=session.response_stream_id,
            response_channel=session.response_channel,
        )
    for correlation_id, deadline in snapshot.timers:
        yield codecs.TIMER.encode(correlation_id=correlation_id, deadline=deadline)
    for tracker in snapshot.trackers:
        yield from _encode_tracker(tracker, snapshot.point.leadership_term_id)
    yield _marker(snapshot.point, SnapshotMark.END)


def _encode_schema(one: LoggedSchema, leadership_term_id: int) -> bytes:
    return ordo_codecs.SCHEMA_EVENT.encode(
        leadership_term_id=leadership_term_id,
        timestamp=0,
        log_position=one.position,
        service_id=one.service_id,
        member_id=NULL_VALUE,
        digest=one.digest,
        packed=one.packed,
    )


def _encode_tracker(tracker: PendingTracker, leadership_term_id: int) -> Iterator[bytes]:
    yield codecs.PENDING_MESSAGE_TRACKER.encode(service_id=tracker.service_id, **tracker.describe())
    for session_id, payload in tracker.pending:
        header = codecs.SESSION_MESSAGE_HEADER.encode(
            leadership_term_id=leadership_term_id, cluster_session_id=session_id, timestamp=0
        )
        yield header + payload


def _marker(point: SnapshotPoint, mark: SnapshotMark) -> bytes:
    return codecs.SNAPSHOT_MARKER.encode(
        type_id=codecs.SNAPSHOT_TYPE_CONSENSUS_MODULE,
        log_position=point.log_position,
        leadership_term_id=point.leadership_term_id,
        index=0,
        mark=mark,
        time_unit=point.time_unit,
        app_version=point.app_version,
    )


def decode(messages: Iterable[bytes]) -> ModuleSnapshot:
    """Read a snapshot up to its END marker; raise ClusterError when it is not whole or not the module's."""
    snapshot: ModuleSnapshot | None = None
    for message in messages:
        found = ordo_codecs.decode_any(message)
        if found is None:
            continue
        table, values = found
        if table is codecs.SNAPSHOT_MARKER:
            if values.type_id != codecs.SNAPSHOT_TYPE_CONSENSUS_MODULE:
                raise ClusterError(f"snapshot: type_id={values.type_id} is not the consensus module's (1)")
            if values.mark == SnapshotMark.END and snapshot is not None:
                return snapshot
            if snapshot is not None:
                raise ClusterError("snapshot: a second BEGIN marker before the END marker")
            snapshot = ModuleSnapshot(
                SnapshotPoint(
                    values.log_position,
                    values.leadership_term_id,
                    values.app_version,
                    _time_unit(values.time_unit),
                ),
                trackers=[],
            )
        elif snapshot is None:
            raise ClusterError(f"snapshot: {table.name} before the BEGIN marker")
        else:
            _decode_into(snapshot, table, values, message)
    raise ClusterError("snapshot: it ends before its END marker; the recording is not whole")


def _time_unit(value: int) -> ClusterTimeUnit:
    found = find_time_unit(value)
    if found is None:
        raise ClusterError(f"snapshot: time_unit={value} is none")
    return found


def _decode_into(snapshot: ModuleSnapshot, table: Any, values: Any, message: bytes) -> None:
    if table is codecs.CONSENSUS_MODULE:
        snapshot.next_session_id = values.next_session_id
    elif table is ordo_codecs.CONFIGURATION_EVENT:
        snapshot.configuration = decode_configuration(values)
    elif table is ordo_codecs.LEVEL_EVENT:
        snapshot.level = values.level
    elif table is ordo_codecs.CLUSTER_IDENTITY_EVENT:
        snapshot.identity = LogIdentity(values.log_position, pack_identity(values))
    elif table is ordo_codecs.VERSION_EVENT:
        if not MAIN_SERVICE_ID < values.service_id < SERVICES_MAX:
            raise ClusterError(f"snapshot: a version of service {values.service_id}")
        snapshot.other_versions[values.service_id] = values.app_version
    elif table is ordo_codecs.SCHEMA_EVENT:
        if not MAIN_SERVICE_ID <= values.service_id < SERVICES_MAX:
            raise ClusterError(f"snapshot: a schema of service {values.service_id}")
        snapshot.schemas.append(LoggedSchema(values.log_position, values.service_id, values.digest, values.packed))
    elif table is ordo_codecs.LEADERSHIP_TERMS:
        if len(values.terms) != values.count * _TERM_ROW.size:
            raise ClusterError(f"snapshot: {values.count} leadership terms in {len(values.terms)} bytes")
        snapshot.terms.extend(_TERM_ROW.iter_unpack(values.terms))
    elif table is ordo_codecs.SKIPPED_RECORD:
        snapshot.skips.append(Skip(values.log_position, values.skip_position, values.timestamp, values.text))
    elif table is codecs.CLUSTER_SESSION:
        snapshot.sessions.append(
            ClusterSession(
                values.cluster_session_id,
                values.correlation_id,
                values.opened_log_position,
                values.response_stream_id,
                values.response_channel,
            )
        )
    elif table is codecs.TIMER:
        snapshot.timers.append((values.correlation_id, values.deadline))
    elif table is codecs.PENDING_MESSAGE_TRACKER:
        if values.service_id != len(snapshot.trackers):
            raise ClusterError(f"snapshot: tracker of service {values.service_id}, expected {len(snapshot.trackers)}")
        snapshot.trackers.append(
            PendingTracker(values.service_id, values.next_service_session_id, values.log_service_session_id)
        )
    elif table is codecs.SESSION_MESSAGE_HEADER:
        payload = bytes(message[codecs.SESSION_HEADER_LENGTH_BYTES :])
        service_id = service_of(values.cluster_session_id)
        if service_id != len(snapshot.trackers) - 1:
            raise ClusterError(f"snapshot: a pending message of service {service_id} where its tracker is not")
        snapshot.trackers[service_id].pending.append((values.cluster_session_id, payload))
