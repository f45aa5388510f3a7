"""Builds the data folder of one restored member: archive and store, as a node finds them when it starts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.archive import Archive
from ordo.archive.segments.catalog import Catalog, RecordingDescriptor
from ordo.archive.segments.recovery import base_of
from ordo.archive.segments.segments import segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import ARCHIVE, STATE, BackupFolder
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.runtime.errors import OrdoError, StorageError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.clock import Clock, SystemClock
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.file_access import file_mode
from ordo.transport.client.client_transport import ClientTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ordo.archive.recorder import Recording
    from ordo.backup.plan import Plan
    from ordo.cluster.module.state.folder_rows import Owner

COPY_BYTES = 1 << 20
APPEND_CYCLES_MAX = 100_000
CLUSTER = "cluster"


class ClosingRecords(NamedTuple):
    """What the log of each restored member has behind the chosen position."""

    records: Sequence[bytes]
    term_id: int
    identity: bytes
    identity_position: int
    """From here on the log is that of the restored cluster."""


def build_member(folder: BackupFolder, plan: Plan, directory: Path, closing: ClosingRecords, owner: Owner) -> int:
    """Fill a new folder; return the position at which the member's log ends. Raises OrdoError, StorageError."""
    storage = FileStorage(open_lmdb)
    archive_dir, cluster_dir = directory / ARCHIVE, directory / CLUSTER
    for made in (directory, archive_dir, cluster_dir):
        storage.make_directory(str(made))
    source = str(folder.path / ARCHIVE)
    catalog = Catalog.open(storage, str(archive_dir))
    try:
        log_id = copy_recording(source, catalog, plan.stretch, plan.survey.position, archive_dir, "alias=log")
        entry = plan.snapshot
        if entry is not None:
            parts = [
                copy_recording(source, catalog, found, found.stop_position, archive_dir, "alias=snapshot")
                for found in map(folder.archive.descriptor, entry.recording_ids)
            ]
            service, *more, module = parts
            entry = entry._replace(
                service_recording_id=service, module_recording_id=module, more_recording_ids=tuple(more)
            )
    finally:
        catalog.close()
    positions = _append(storage, archive_dir, log_id, plan.survey.position, closing.records)
    end_position, term_id = positions[-1], closing.term_id
    store = StateStore(storage.open_metadata(str(cluster_dir / STATE)))
    try:
        for row in [*plan.survey.terms, (term_id, plan.survey.position)]:
            store.put_term(*row)
        if entry is not None:
            store.put_snapshot(entry, plan.digest)
        store.put_candidate_term(term_id, end_position, time_ms(plan.survey.timestamp))
        store.put_log_recording(log_id)
        store.folder.put_owner(owner)
        store.folder.put_origin(Origin(closing.identity, closing.identity_position))
    finally:
        store.close()
    note = CommitNote(storage, str(cluster_dir))
    try:
        note.put(end_position)  # where all restored folders end: no other cluster's leader may have it cut off
    finally:
        note.close()
    storage.sync_directory(str(cluster_dir))
    return end_position


def copy_recording(
    source: str, catalog: Catalog, descriptor: RecordingDescriptor, end: int, directory: Path, alias: str
) -> int:
    """Copy a recording up to a position; return its id in the new archive."""
    channel = descriptor.original_channel if alias in descriptor.original_channel else f"aeron:ipc?{alias}"
    added = catalog.add(descriptor._replace(recording_id=-1, stop_position=end, original_channel=channel))
    for base in range(base_of(descriptor, descriptor.start_position), end, descriptor.segment_length):
        name = segment_name(descriptor.recording_id, base)
        target = directory / segment_name(added.recording_id, base)
        length = min(descriptor.segment_length, end - base)
        _copy_file(Path(source, name), target, length, descriptor.segment_length)
    return added.recording_id


def _copy_file(source: Path, target: Path, length_bytes: int, full_bytes: int) -> None:
    """Copy the first bytes of a segment file; the rest of the copy is empty."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_mode())
        with source.open("rb") as origin, os.fdopen(descriptor, "wb") as made:
            left = length_bytes
            while left > 0 and (block := origin.read(min(left, COPY_BYTES))):
                made.write(block)
                left -= len(block)
            made.truncate(full_bytes)
            made.flush()
            os.fsync(made.fileno())
    except OSError as error:
        raise StorageError(f"{source} cannot be copied to {target}: {error.strerror}") from None


def _append(storage: FileStorage, directory: Path, log_id: int, position: int, records: Sequence[bytes]) -> list[int]:
    """Append records to the copied log as a leader does, and check all of the archive.

    They go through a publication that is recorded. Returns where each of them ends.
    """
    with open_archive(directory, "restore", storage, SystemClock()) as (archive, transport):
        positions = record_messages(archive, transport, log_id, position, records)
        for descriptor in archive.recordings():
            damage = archive.find_damage(descriptor.recording_id)
            if damage is not None:
                raise OrdoError(f"what was copied is damaged: {damage.error.message}")
        return positions


@contextmanager
def open_archive(
    directory: Path, name: str, storage: Storage, clock: Clock
) -> Iterator[tuple[Archive, ClientTransport]]:
    """Open the archive of a folder that no process has, with a driver of its own by which it is written."""
    transport = ClientTransport.embedded(name, clients_max=4)
    try:
        archive = Archive(str(directory), storage=storage, clock=clock, client=transport.client, sync="commit")
        try:
            yield archive, transport
        finally:
            archive.close()
    finally:
        transport.close()


def record_messages(
    archive: Archive, transport: ClientTransport, log_id: int, position: int, records: Sequence[bytes]
) -> list[int]:
    """Extend a recording of the log by records, as a leader does; return where each of them ends.

    Raises OrdoError.
    """
    descriptor = archive.descriptor(log_id)
    first, length = descriptor.initial_term_id, descriptor.term_length
    channel = (
        f"aeron:ipc?alias=log|mtu={descriptor.mtu}|term-length={length}|init-term-id={first}"
        f"|term-id={first + position // length}|term-offset={position % length}"
    )
    subscription = transport.client.add_subscription("aeron:ipc?alias=log", LOG_STREAM_ID)
    publication = transport.client.add_exclusive_publication(channel, LOG_STREAM_ID)
    recording: Recording | None = None
    left, positions = list(records), [position]
    for _ in range(APPEND_CYCLES_MAX):
        archive.do_work(transport.drive())
        if recording is None and subscription.images:
            recording = archive.record(subscription.images[0], recording_id=log_id)
        elif recording is not None and left:
            result = publication.offer(left[0])
            if result > 0:
                positions.append(result)
                left.pop(0)
        elif recording is not None and recording.written_position >= positions[-1]:
            archive.stop(recording)
            break
    subscription.close()
    publication.close()
    stop = archive.descriptor(log_id).stop_position
    if left or stop != positions[-1]:
        raise OrdoError(f"the log ends at position={stop}, expected {positions[-1]}")
    return positions[1:]
