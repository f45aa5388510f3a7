"""Makes and fetches copies of archives in object storage (`pipeline/recordings/object_store.py`).

A copy takes what is closed: whole segments of the committed log, and stopped recordings, among them snapshots. It only
adds: what the node has purged since stays in the copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ordo.archive.segments.catalog import Catalog
from ordo.archive.segments.segments import segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.scanner import walk
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.object_store import MANIFEST, Store, StoredRecording, StoredSegment
from ordo.pipeline.recordings.predicates import INT64_MAX
from ordo.pipeline.recordings.recordings import (
    Recording,
    Segment,
    check_one_cluster,
    is_copy,
    open_recordings,
    whose_log,
    with_owners,
)
from ordo.runtime.io.storage import FileStorage

_IDENTITY = ("start_timestamp", "initial_term_id", "segment_length", "term_length", "mtu", "stream_id")
"""What stays when a recording is gone on with; its session id is another one after a restart and in each term."""
FETCHING = ".fetching"


def copy_archive(folder: str, store: Store, commit: str = "auto") -> Iterator[StoredSegment]:
    """Copy what is new, checked, and give each segment when the manifest has it.

    Raises CorruptRecordingError, OtherClusterError when the place has the copy of another cluster's archive, and
    PipelineError when it has that of another archive, or log was purged before it was copied.
    """
    if is_copy(folder) or is_network(folder):
        raise PipelineError(f"{folder}: only an archive folder can be copied; give one, such as data/node0/archive")
    known = {entry.descriptor.recording_id: entry for entry in store.manifest()}
    recordings = with_owners(open_recordings([folder], "all", commit))
    origin = _checked_origin(recordings, known, store)
    for recording in recordings:
        entry = known.get(recording.recording_id) or StoredRecording(recording.node, recording.descriptor)
        if recording.owner is not None:
            entry = replace(entry, owner=recording.owner)
        _check_same(entry, recording, store)
        for segment in _closed_segments(recording):
            is_whole = segment.end == segment.base + recording.descriptor.segment_length
            if is_whole and any(old.base == segment.base and old.end == segment.end for old in entry.segments):
                continue
            data = _checked_segment(recording, segment)
            name = f"{recording.recording_id}-{segment.start}-{segment.end}.rec"
            stored = StoredSegment(name, segment.base, segment.start, len(data), hashlib.sha256(data).hexdigest())
            if stored in entry.segments:
                continue
            entry = known[recording.recording_id] = _with_segment(entry, stored, store)
            store.put(name, data)
            store.write_manifest([known[recording_id] for recording_id in sorted(known)], origin)
            yield stored


def _checked_origin(recordings: list[Recording], known: Mapping[int, StoredRecording], store: Store) -> Origin | None:
    """Return which cluster's log the copy is of from now on. Raises OtherClusterError for one of another cluster."""
    origin = store.cluster()
    if origin is None and any(entry.segments for entry in known.values()):
        told = whose_log(store.url, open_recordings([store.url], "all", storage=store.options))
        origin = None if told is None else Origin(told.identity, told.position)
    whose = "" if origin is None else f"the copy in {store.url}"
    cluster = KnownCluster(origin, whose, "copy each cluster to a place of its own")
    logs = {entry.recording_id for entry in recordings if entry.is_log}
    cluster.position = max((entry.end for recording_id, entry in known.items() if recording_id in logs), default=0)
    check_one_cluster(recordings, cluster, demands_proof=True)
    return cluster.origin


def _closed_segments(recording: Recording) -> Iterator[Segment]:
    """Segments that change no more: whole ones below the limit, and the last of a stopped recording."""
    stopped = not recording.descriptor.is_active
    for segment in recording.segments(recording.start):
        if segment.end == segment.base + recording.descriptor.segment_length or stopped:
            yield segment


def _check_same(entry: StoredRecording, recording: Recording, store: Store) -> None:
    for name in _IDENTITY:
        there, here = getattr(entry.descriptor, name), getattr(recording.descriptor, name)
        if there != here:
            raise PipelineError(
                f"{store.url} has the copy of another archive: recording {recording.recording_id} has {name}={there} "
                f"there and {here} in {recording.directory}; copy to another place"
            )


def _checked_segment(recording: Recording, segment: Segment) -> bytes:
    """Return the bytes of a segment. Raises CorruptRecordingError."""
    cursor = MessageCursor(
        segment.path, recording.descriptor, segment.base, segment.start, segment.end, True, recording.exact
    )
    walk(cursor, INT64_MAX)
    cursor.raise_fault()
    with open(segment.path, "rb") as file:
        file.seek(segment.start - segment.base)
        return file.read(segment.end - segment.start)


def _with_segment(entry: StoredRecording, stored: StoredSegment, store: Store) -> StoredRecording:
    """With one more segment, or with more of its last one."""
    before = tuple(old for old in entry.segments if old.base < stored.base)
    if before and before[-1].end != stored.start:
        raise PipelineError(
            f"{store.url}: positions {before[-1].end} to {stored.start} of recording {entry.descriptor.recording_id} "
            f"were purged before they were copied; copy to another place, or from a node that has them"
        )
    descriptor = entry.descriptor if before else entry.descriptor._replace(start_position=stored.start)
    return replace(entry, descriptor=descriptor, segments=(*before, stored))


def checked_bytes(store: Store, segment: StoredSegment) -> bytes:
    """Return a whole segment. Raises PipelineError when it is not what was copied."""
    data = store.get(segment.name)
    if hashlib.sha256(data).hexdigest() != segment.sha256:
        raise PipelineError(
            f"{store.url}/{segment.name} is damaged: its SHA-256 is not the manifest's; copy the archive again to "
            f"another place"
        )
    return data


def fetch_archive(store: Store, folder: str) -> Iterator[StoredSegment]:
    """Make an archive folder of a copy, for whatever reads folders; give each segment as it comes.

    Checks what it fetches. Recordings get ids in the order of the copy. The folder appears under its name when all of
    it is there and on disk. Raises PipelineError.
    """
    recordings = [entry for entry in store.manifest() if entry.segments]
    if not recordings:
        raise PipelineError(f"{store.url}: no copy of an archive is there ({MANIFEST})")
    if os.path.exists(folder) and os.listdir(folder):
        raise PipelineError(f"{folder} is not empty; give a new folder")
    part = f"{folder.rstrip('/')}{FETCHING}"
    parent = os.path.dirname(os.path.abspath(folder))
    shutil.rmtree(part, ignore_errors=True)
    try:
        os.makedirs(part)
        yield from _fetch(store, recordings, part)
        FileStorage().sync_directory(part)
        if os.path.isdir(folder):
            os.rmdir(folder)
        os.rename(part, folder)
        FileStorage().sync_directory(parent)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}; nothing was fetched") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fetch(store: Store, recordings: list[StoredRecording], folder: str) -> Iterator[StoredSegment]:
    catalog = Catalog.open(FileStorage(open_lmdb), folder)
    try:
        for entry in recordings:
            added = catalog.add(entry.descriptor._replace(recording_id=-1, stop_position=entry.end))
            for segment in entry.segments:
                data = checked_bytes(store, segment)
                with open(os.path.join(folder, segment_name(added.recording_id, segment.base)), "wb") as file:
                    file.truncate(entry.descriptor.segment_length)
                    file.seek(segment.start - segment.base)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                yield segment
    finally:
        catalog.close()
