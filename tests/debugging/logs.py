"""Recorded folders of the bank, as a member leaves them, made without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ordo.archive.segments.catalog import Catalog
from ordo.archive.segments.segments import segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.debugging.replaying.code import code_of
from ordo.debugging.replaying.execution import Execution
from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog
from ordo.pipeline.generate import RecordingBuilder
from ordo.runtime.io.storage import FileStorage
from tests.debugging.bank import Bank

TIME = 1_700_000_000_000
SESSION = 7
_STAMP = {"leadership_term_id": 0, "cluster_session_id": SESSION, "timestamp": TIME + 20_000}
TRANSFERS = ("ann bob 30", "bob ann 10", "ann bob 3", "bob ann 500", "bob bob 50", "ann bob 77")
"""The fourth is refused, the fifth makes money."""


class BankLog:
    """A log: its folder, and the positions after the records of the transfers."""

    def __init__(
        self,
        folder: Path,
        transfers: Sequence[str] = TRANSFERS,
        *,
        skipped: int | None = None,
        upgraded: int | None = None,
        begins_at: int = 0,
        requests: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Leave out one of the transfers, put version 2 in force before one, or have the log begin later.

        `requests`: number and payload of each, after the transfers.
        """
        self.folder = folder
        (folder / "archive").mkdir(parents=True)
        self.positions: list[int] = []
        with builder_from(folder, begins_at) as builder:
            self._append(builder, new_term(begins_at))
            self._append(builder, session_open())
            for index, transfer in enumerate(transfers):
                if index == upgraded:
                    self._append(builder, _version(2))
                self.positions.append(self._append(builder, _message(transfer.encode(), TIME + 10 * index)))
            self.timer_position = self._append(builder, _timer(TIME + 10_000))
            if skipped is not None:
                self._append(builder, _skip(self.positions[skipped]))
            if requests:
                identity = self._append(builder, _identity())
                self.positions += [self._append(builder, _request(identity, *one)) for one in requests]
        self.log_id = builder.descriptor.recording_id
        self.end = builder.descriptor.stop_position

    def _append(self, builder: RecordingBuilder, record: bytes) -> int:
        return int(builder.append(record))

    def open(self) -> RecordedLog:
        return RecordedLog(self.folder)

    def state_at(self, position: int) -> Checkpoint:
        """What a member's snapshot at a position has."""
        execution = Execution(self.open(), code_of(Bank))
        execution.run_to(position)
        return execution.save()

    def _record_snapshot(self, state: Checkpoint) -> int:
        archive = str(self.folder / "archive")
        with RecordingBuilder(archive, stream_id=106, channel="aeron:ipc?alias=snapshot") as builder:
            for message in state.messages:
                builder.append(message)
        return builder.descriptor.recording_id

    def add_snapshot(self, state: Checkpoint, *others: Checkpoint) -> None:
        """Has the folder keep a snapshot, as a member does; `others`: the parts of the services 1, 2, ..."""
        recording_id, *more = (self._record_snapshot(one) for one in (state, *others))
        (self.folder / "cluster").mkdir(exist_ok=True)
        store = StateStore(FileStorage(open_lmdb).open_metadata(str(self.folder / "cluster" / "state.mdb")))
        try:
            store.put_log_recording(self.log_id)
            ids = recording_id, recording_id, True, tuple(more)
            store.put_snapshot(SnapshotEntry(state.position, 0, 0, state.time, *ids))
        finally:
            store.close()


def builder_from(folder: Path, begins_at: int) -> RecordingBuilder:
    """Return the builder of a log whose segments in front of a position were let go."""
    builder = RecordingBuilder(str(folder / "archive"), initial_term_id=0, term_length=1 << 16, segment_length=1 << 16)
    while builder.writer.position < begins_at:
        builder.writer.end_term()
    if begins_at:
        (folder / "archive" / segment_name(builder.descriptor.recording_id, 0)).unlink()
        catalog = Catalog.open(FileStorage(open_lmdb), str(folder / "archive"))
        builder.descriptor = catalog.update(builder.descriptor.recording_id, start_position=begins_at)
        catalog.close()
    return builder


def _version(app_version: int) -> bytes:
    return ordo_codecs.VERSION_EVENT.encode(
        leadership_term_id=0, timestamp=TIME, app_version=app_version, member_id=0, service_id=-1
    )


def new_term(position: int) -> bytes:
    return codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
        leadership_term_id=0,
        log_position=position + 96,
        timestamp=TIME,
        term_base_log_position=position,
        leader_member_id=0,
        log_session_id=1,
        time_unit=codecs.ClusterTimeUnit.MILLIS,
        app_version=1,
    )


def session_open() -> bytes:
    return codecs.SESSION_OPEN_EVENT.encode(
        leadership_term_id=0,
        correlation_id=1,
        cluster_session_id=SESSION,
        timestamp=TIME,
        response_stream_id=102,
        response_channel="aeron:udp?endpoint=localhost:9",
        encoded_principal=b"carol",
    )


def _message(payload: bytes, timestamp: int) -> bytes:
    header = codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=0, cluster_session_id=SESSION, timestamp=timestamp)
    return header + payload


def _identity() -> bytes:
    return ordo_codecs.OPEN_IDENTITY.encode(
        incarnation=1, known_position=0, **ordo_codecs.split_identity(b"0123456789abcdef"), **_STAMP
    )


def _request(open_position: int, number: int, payload: str) -> bytes:
    head = ordo_codecs.REQUEST.encode(open_position=open_position, number=number, confirmed=0, **_STAMP)
    return head + payload.encode()


def _timer(timestamp: int) -> bytes:
    return codecs.TIMER_EVENT.encode(leadership_term_id=0, correlation_id=1, timestamp=timestamp)


def _skip(position: int) -> bytes:
    return ordo_codecs.SKIP_EVENT.encode(
        leadership_term_id=0, timestamp=TIME, skipped_position=position, member_id=0, text=b"it hurts"
    )
