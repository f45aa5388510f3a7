"""Which recordings there are in nodes' archive folders, or copies of them, and how far each may be read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ordo.archive.segments.catalog import CATALOG_NAME, Catalog, RecordingDescriptor, RecordingState
from ordo.archive.segments.segments import parse_segment_name, segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Log, Origin
from ordo.cluster.wire.streams import SERVICE_SNAPSHOT_STREAM_ID
from ordo.follow.recordings.ranges import Access
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.log_head import HEAD_BYTES, read_head
from ordo.pipeline.nodes.node_archives import (
    NodeFile,
    NodeRecording,
    cluster_recordings,
    is_network,
    member_recordings,
)
from ordo.pipeline.recordings.commit import live_commit_position
from ordo.pipeline.recordings.member_store import (
    SnapshotOwner,
    has_store,
    past_identity,
    snapshot_owners,
    stored_origin,
    tells_identities,
)
from ordo.pipeline.recordings.object_store import ObjectFile, Store, StoredRecording
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_POSITION

LOG_STREAM_ID = 100


StoredFile = ObjectFile | NodeFile
"""What is no file of this machine: `cursor` fetches what is read of it, and `cluster` says whose log it is of."""


@dataclass(frozen=True)
class Segment:
    """One file: positions [base, end) of its recording, end at most the recording's limit.

    `stored`: it is an object in object storage, or nodes have it, and `path` is its address.
    """

    path: str
    base: int
    start: int
    end: int
    present: bool
    stored: StoredFile | None = None


def open_cursor(
    segment: Segment, descriptor: RecordingDescriptor, start: int, end: int, verify: bool = True, exact: bool = True
) -> MessageCursor:
    """Return a cursor over [start, end) of a segment, wherever it is.

    Raises PipelineError when it cannot be fetched.
    """
    if segment.stored is not None:
        return segment.stored.cursor(descriptor, segment.base, start, end, verify, exact)
    return MessageCursor(segment.path, descriptor, segment.base, start, end, verify, exact)


@dataclass(frozen=True)
class Recording:
    """One recording in one node's archive. `limit` is the position up to which it may be read.

    `exact`: everything below the limit was written, so anything else there is damage.
    """

    node: str
    directory: str
    descriptor: RecordingDescriptor
    limit: int
    exact: bool
    copied: tuple[Segment, ...] = ()
    """All segments of a copy in object storage, or of nodes over the network, whatever the limit."""
    owner: SnapshotOwner | None = None
    """The owner of a service's snapshot in a copy, and after `with_owners`, if known."""

    @property
    def recording_id(self) -> int:
        return self.descriptor.recording_id

    @property
    def key(self) -> str:
        """The name of the recording in streaming offsets."""
        return f"{self.node}/{self.recording_id}"

    @property
    def is_service_snapshot(self) -> bool:
        return self.descriptor.stream_id == SERVICE_SNAPSHOT_STREAM_ID

    @property
    def is_log(self) -> bool:
        return self.descriptor.stream_id == LOG_STREAM_ID

    @property
    def lean(self) -> Recording:
        """Without the list of a copy's segments: for tasks, which each get a segment of their own."""
        return replace(self, copied=())

    @property
    def start(self) -> int:
        return self.descriptor.start_position

    def segments(self, from_position: int = 0) -> Iterator[Segment]:
        """Segments that hold positions from `from_position` up to the limit, also those whose file is missing."""
        length = self.descriptor.segment_length
        if self.copied:
            for segment in self.copied:
                if segment.base + length > from_position and segment.start < self.limit:
                    yield replace(segment, end=min(segment.end, self.limit))
            return
        base = self.start - self.start % self.descriptor.term_length
        if from_position > base:
            base += (from_position - base) // length * length
        while base < self.limit:
            path = os.path.join(self.directory, segment_name(self.recording_id, base))
            end = min(base + length, self.limit)
            yield Segment(path, base, max(base, self.start), end, os.path.exists(path))
            base += length


def node_name(directory: str) -> str:
    """`/data/node0/archive` is node0; a folder of any other name is called by it."""
    path = Path(directory).resolve()
    return path.parent.name if path.name == "archive" and path.parent.name else path.name


def node_names(directories: Iterable[str]) -> dict[str, str]:
    """Folder -> node name; folders that would share a name are called by their whole path."""
    names = {directory: node_name(directory) for directory in directories}
    taken = list(names.values())
    return {
        directory: name if taken.count(name) == 1 else str(Path(directory).resolve())
        for directory, name in names.items()
    }


def read_catalog(directory: str) -> list[RecordingDescriptor]:
    """Descriptors of an archive folder. Raises PipelineError when it is none."""
    if not os.path.exists(os.path.join(directory, CATALOG_NAME)):
        below = os.path.join(directory, "archive")
        likely = below if os.path.exists(os.path.join(below, CATALOG_NAME)) else "/data/node0/archive"
        raise PipelineError(
            f"no archive in {directory}: {CATALOG_NAME} is not there; give the folder of an archive, such as {likely}"
        )
    catalog = Catalog.open(FileStorage(open_lmdb), directory, read_only=True)
    try:
        return [entry for entry in catalog if entry.state != RecordingState.DELETED]
    finally:
        catalog.close()


def selected(descriptors: list[RecordingDescriptor], wanted: str, directory: str) -> list[RecordingDescriptor]:
    """Return the recordings that option `recording` names: `log`, `all`, or ids."""
    if wanted == "all":
        return descriptors
    if wanted == "log":
        chosen = [entry for entry in descriptors if entry.stream_id == LOG_STREAM_ID]
        if not chosen:
            raise PipelineError(
                f"no recording of the log (stream {LOG_STREAM_ID}) in {directory}; recordings there: "
                f"{[entry.recording_id for entry in descriptors] or 'none'}; choose with option recording=<id> or all"
            )
        return chosen
    by_id = {entry.recording_id: entry for entry in descriptors}
    try:
        return [by_id[int(part)] for part in wanted.split(",")]
    except (KeyError, ValueError):
        raise PipelineError(
            f"option recording={wanted!r}: allowed are log, all, or ids out of {sorted(by_id)} in {directory}"
        ) from None


def open_recordings(
    directories: list[str],
    wanted: str = "log",
    commit: str = "auto",
    names: dict[str, str] | None = None,
    storage: Mapping[str, object] | None = None,
    *,
    by_member: bool = False,
) -> list[Recording]:
    """Return the recordings asked for in these folders or copies, with the limit that `commit` gives each.

    `storage` has the options of the copies' file system. Addresses of nodes (`ordo://host:port,...`) give the one log
    of their cluster, or with `by_member` what each of them has itself.

    `commit`: `auto` (stop position of a stopped recording, otherwise the live node's commit position), `recorded`
    (whatever is on disk), a position, or the folder or file of the node's counters (cnc.dat); for several folders also
    one of these for each, with commas.
    """
    if any(is_network(directory) for directory in directories):
        if storage:
            raise PipelineError("the options of a file system are for copies in object storage; leave them out")
        return open_nodes(directories, wanted, commit, Access(), by_member=by_member)
    _check_each_once(directories)
    names = names or node_names(path for path in directories if not is_copy(path))
    commits = [commit] if len(directories) == 1 else commit.split(",")
    if len(commits) == 1:
        commits *= len(directories)
    if len(commits) != len(directories):
        raise PipelineError(f"option commit has {len(commits)} values for {len(directories)} folders; one, or one each")
    found = [
        recording
        for directory, commit in zip(directories, commits, strict=True)
        for recording in (
            _open_copy(directory, wanted, commit, names.get(directory), storage)
            if is_copy(directory)
            else _open_folder(directory, wanted, commit, names[directory])
        )
    ]
    return _told_apart(found)


def _check_each_once(directories: list[str]) -> None:
    """Raise PipelineError for a folder given twice: its rows would come twice, and an audit would prove nothing."""
    met: set[str] = set()
    for directory in directories:
        folder = directory.rstrip("/") if is_copy(directory) else os.path.realpath(directory)
        if folder in met:
            raise PipelineError(f"{directory} is given twice; give each folder once")
        met.add(folder)


def with_owners(recordings: Iterable[Recording]) -> list[Recording]:
    """Return the recordings with the owners of snapshots, for callers that tell services apart.

    Raises PipelineError.
    """
    found = list(recordings)
    folders = {entry.directory for entry in found if entry.is_service_snapshot and not entry.copied}
    owners = {directory: snapshot_owners(directory) for directory in folders}
    return [
        replace(entry, owner=owners[entry.directory].get(entry.recording_id))
        if entry.is_service_snapshot and not entry.copied
        else entry
        for entry in found
    ]


def check_one_cluster(
    recordings: Iterable[Recording],
    known: KnownCluster | None = None,
    *,
    looks_into_logs: bool = True,
    demands_proof: bool = False,
) -> None:
    """Raise OtherClusterError for folders or copies that are of another cluster than the known one, or than the first.

    Those that do not say whose they are pass, and those whose newest identity begins after what is known, and after the
    ends of the others' logs, unless a member's store, or nodes, say that their log was another's before.
    `looks_into_logs`: also what was recorded without being committed counts. `demands_proof`: those that cannot say it
    do not pass either, since what they have is put behind what is known.
    """
    known = known or KnownCluster(remedy="give folders of one cluster")
    folders: dict[str, list[Recording]] = {}
    for entry in recordings:
        folders.setdefault(entry.directory, []).append(entry)
    found = [
        (whose_log(directory, entries, looks_into_logs=looks_into_logs), directory, entries)
        for directory, entries in folders.items()
    ]
    # The oldest identities first: then who has a newer one is asked about all that the others have.
    for told, directory, entries in sorted(found, key=lambda one: -1 if one[0] is None else one[0].position):
        known.admits(told, directory)
        if not _prove(known, told, directory, entries) and demands_proof:
            known.refuse_unproven(directory, "it does not know whose log it had where the copy ends")
        known.check()
        known.adopt(told, directory)
        if told is not None:
            known.position = max(known.position, told.executed_position)


def _prove(known: KnownCluster, told: Log | None, directory: str, entries: list[Recording]) -> bool:
    """Find out whose log it was where the known one ends, if it has got another identity since.

    Returns False where nothing says it.
    """
    doubt, own = known.find_doubt(told), known.origin
    if told is None or own is None or doubt is None or known.error is not None:
        return True
    if told.identity == own.identity or known.is_behind(told):
        return True
    stored = entries[0].copied[0].stored if entries[0].copied else None
    if isinstance(stored, NodeFile):
        stored.prove(known)
    elif stored is not None or not (identity := past_identity(directory, doubt)):
        return False
    else:
        known.is_beginning_of(told, identity, directory)
    return True


def whose_log(directory: str, entries: Iterable[Recording], *, looks_into_logs: bool = True) -> Log | None:
    """Return which cluster's log a folder or copy has: what its member wrote down, or else what the log begins with.

    The manifest of a copy has what the member wrote down. A member whose release writes it down, and did not yet, has
    nothing that is known to be committed.
    """
    listed = list(entries)
    origin = _copied_origin(listed[0]) if listed[0].copied else stored_origin(directory)
    if origin is not None:
        end = max((entry.limit for entry in listed if entry.is_log), default=0)
        return Log(origin.identity, origin.position, max(origin.position, end))
    if not listed[0].copied and has_store(directory) and tells_identities(directory):
        return None
    if not looks_into_logs:
        return None
    heads = (_head_of(entry) for entry in listed if entry.is_log)
    return next((head for head in heads if head is not None), None)


def _copied_origin(recording: Recording) -> Origin | None:
    stored = recording.copied[0].stored
    return None if stored is None else stored.cluster()


def _head_of(recording: Recording) -> Log | None:
    segment = next(recording.segments(recording.start), None)
    if segment is None or not segment.present:
        return None
    end = min(segment.end, segment.start + HEAD_BYTES)
    return read_head(open_cursor(segment, recording.descriptor, segment.start, end, False, False))


def is_copy(path: str) -> bool:
    """Is this the address of a copy? `file:/data/node0/archive` is not: so Spark names a folder of this machine."""
    return (
        "://" in path
        and not is_network(path)
        and not os.path.exists(os.path.join(path.removeprefix("file:"), CATALOG_NAME))
    )


def _told_apart(recordings: list[Recording]) -> list[Recording]:
    """Name copies by their addresses where their nodes have one name."""
    places = Counter(node for node, _ in {(entry.node, entry.directory) for entry in recordings})
    return [
        replace(entry, node=entry.directory) if entry.copied and places[entry.node] > 1 else entry
        for entry in recordings
    ]


def _open_folder(directory: str, wanted: str, commit: str, node: str) -> Iterator[Recording]:
    for entry in selected(read_catalog(directory), wanted, directory):
        yield _bounded(node, directory, entry, commit)


def _open_copy(
    url: str, wanted: str, commit: str, node: str | None, storage: Mapping[str, object] | None
) -> Iterator[Recording]:
    """Yield recordings of a copy; what is in it was committed or stopped, and is all there."""
    if commit != "auto" and not commit.isdigit():
        raise PipelineError(f"option commit={commit!r}: of a copy in object storage only auto or a position")
    store = Store(url.rstrip("/"), storage or {})
    stored = {entry.descriptor.recording_id: entry for entry in store.manifest() if entry.segments}
    if not stored:
        raise PipelineError(f"{store.url}: no copy of an archive is there; `ordo pipeline copy` makes one")
    names = store.names()
    for descriptor in selected([entry.descriptor for entry in stored.values()], wanted, url):
        entry = stored[descriptor.recording_id]
        end = min(int(commit), entry.end) if commit.isdigit() else entry.end
        shown = descriptor if descriptor.is_active else descriptor._replace(stop_position=entry.end)
        segments = tuple(_copied_segments(store, entry, names))
        exact = not commit.isdigit()
        yield Recording(node or entry.node, store.url, shown, end, exact, segments, entry.owner)


def open_nodes(
    paths: list[str], wanted: str, commit: str, access: Access, *, by_member: bool = False
) -> list[Recording]:
    """Return recordings of nodes, which know how far their log is committed. Raises PipelineError."""
    joined = ",".join(paths)
    if not all(is_network(path) for path in paths):
        raise PipelineError(f"{joined!r}: give addresses or folders, not both")
    if wanted not in ("log", "all"):
        raise PipelineError(f"recording={wanted!r}: of nodes only log or all; their ids say nothing about the log")
    if commit != "auto" and not commit.isdigit():
        raise PipelineError(f"option commit={commit!r}: of nodes only auto or a position; they know what is committed")
    find = member_recordings if by_member else cluster_recordings
    return [_of_nodes(entry, commit) for entry in find(joined, access, wanted == "all")]


def _of_nodes(found: NodeRecording, commit: str) -> Recording:
    is_bounded = commit.isdigit() and found.descriptor.stream_id == LOG_STREAM_ID
    limit = min(int(commit), found.limit) if is_bounded else found.limit
    descriptor, length = found.descriptor, found.descriptor.segment_length
    first = descriptor.start_position - descriptor.start_position % descriptor.term_length
    segments = tuple(
        Segment(
            found.place, base, max(base, descriptor.start_position), min(base + length, found.limit), True, found.file
        )
        for base in range(first, found.limit, length)
    )
    return Recording(found.node, found.place, descriptor, limit, not is_bounded, segments)


def _copied_segments(store: Store, entry: StoredRecording, names: frozenset[str]) -> Iterator[Segment]:
    for part in entry.segments:
        stored = ObjectFile(store, part.name, part.start)
        yield Segment(f"{store.url}/{part.name}", part.base, part.start, part.end, part.name in names, stored)


def _bounded(node: str, directory: str, entry: RecordingDescriptor, commit: str) -> Recording:
    on_disk = _end_of_files(directory, entry)
    stopped = entry.stop_position != NULL_POSITION
    if commit.isdigit():
        limit = min(int(commit), entry.stop_position if stopped else on_disk)
        return Recording(node, directory, entry, limit, exact=False)
    if stopped:
        return Recording(node, directory, entry, entry.stop_position, exact=True)
    if commit == "recorded":
        return Recording(node, directory, entry, on_disk, exact=False)
    if entry.stream_id != LOG_STREAM_ID:
        return Recording(node, directory, entry, entry.start_position, exact=True)
    counters = None if commit == "auto" else commit
    return Recording(node, directory, entry, live_commit_position(directory, entry.recording_id, counters), exact=True)


def _end_of_files(directory: str, entry: RecordingDescriptor) -> int:
    """End of the last segment file, which bounds what was recorded."""
    names = (parse_segment_name(name) for name in os.listdir(directory))
    bases = [name.base_position for name in names if name and name.recording_id == entry.recording_id]
    return max(bases, default=entry.start_position - entry.segment_length) + entry.segment_length
