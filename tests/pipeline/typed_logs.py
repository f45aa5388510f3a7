"""Logs with typed messages, and the schemas of these in records and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import SnapshotMark
from ordo.cluster.wire.streams import MODULE_SNAPSHOT_STREAM_ID
from ordo.messages import Schema, encode
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.messages.logged import LoggedSchema, pack_schema


def schema_event(schema: Schema, service_id: int = 0, packed: bytes | None = None) -> bytes:
    """Return a record with a schema; or with `packed` instead, and a digest that nothing has."""
    found = pack_schema(schema)
    digest = found.digest if packed is None else bytes(32)
    return ordo_codecs.SCHEMA_EVENT.encode(
        leadership_term_id=0, timestamp=5, log_position=NULL_VALUE, service_id=service_id, member_id=0,
        digest=digest, packed=found.packed if packed is None else packed,
    )  # fmt: skip


def logged(schema: Schema, position: int, service_id: int = 0) -> LoggedSchema:
    return LoggedSchema(position, service_id, *pack_schema(schema))


def write_log(folder: Path, records: Sequence[object], *, initial_term_id: int = 7) -> str:
    """Write a log of records, and of messages and bytes of one client; return the archive's folder."""
    with RecordingBuilder(str(folder / "archive"), initial_term_id=initial_term_id) as builder:
        for one in records:
            builder.append(one if isinstance(one, Record) else session_message(0, 1, 5, payload_of(one)))
    return builder.directory


class Record(bytes):
    """A whole record."""


def event(schema: Schema, service_id: int = 0, packed: bytes | None = None) -> Record:
    return Record(schema_event(schema, service_id, packed))


def payload_of(one: object) -> bytes:

    return one if isinstance(one, bytes) else encode(one)


def write_snapshot(folder: str, log_position: int, schemas: Sequence[LoggedSchema], *, is_whole: bool = True) -> None:
    """Write a snapshot of the consensus module beside a log."""
    with RecordingBuilder(folder, stream_id=MODULE_SNAPSHOT_STREAM_ID) as builder:
        builder.append(_marker(log_position, SnapshotMark.BEGIN))
        for one in schemas:
            builder.append(
                ordo_codecs.SCHEMA_EVENT.encode(
                    leadership_term_id=0, timestamp=5, log_position=one.position, service_id=one.service_id,
                    member_id=0, digest=one.digest, packed=one.packed,
                )
            )  # fmt: skip
        if is_whole:
            builder.append(_marker(log_position, SnapshotMark.END))


def _marker(log_position: int, mark: SnapshotMark) -> bytes:
    return codecs.SNAPSHOT_MARKER.encode(
        type_id=codecs.SNAPSHOT_TYPE_CONSENSUS_MODULE, log_position=log_position, leadership_term_id=0, index=0,
        mark=mark, time_unit=0, app_version=1,
    )  # fmt: skip
