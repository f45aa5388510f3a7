"""The snapshots that this member holds: entries of its store, recordings of its archive, and their combined state."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ordo.archive.inspection.administration import ERROR_ACTIVE_RECORDING
from ordo.cluster.module.snapshots.snapshot_reports import HeldSnapshot
from ordo.cluster.module.state.state_store import Evidence
from ordo.cluster.wire.streams import LOG_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID, local_stream
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore


class SnapshotShelf:
    """Snapshots by position, intact and damaged ones, always in agreement with the store."""

    def __init__(self, archive: Archive, store: StateStore, cluster_id: int, evidence_bytes_max: int = 1 << 30) -> None:
        self._archive = archive
        self.evidence_bytes_max = evidence_bytes_max
        streams = (SERVICE_SNAPSHOT_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID)
        self._stream_ids = [local_stream(stream_id, cluster_id) for stream_id in streams]
        self._store = store
        state = store.load()
        self._entries = {entry.log_position: entry for entry in state.snapshots}
        self._digests = dict(state.digests)
        self._left_over: set[int] = set()
        """Recordings that could not be deleted when they were to go, because they were still written or read."""

    def add(self, entry: SnapshotEntry, digest: bytes) -> None:
        """Add a snapshot that was taken; it replaces a damaged one of the same position.

        Its recordings end: a member that catches up takes snapshots faster than the driver ends their streams, and the
        archive has room for so many that are active.
        """
        for recording_id in entry.recording_ids:
            self._end(recording_id)
        former = self._entries.get(entry.log_position)
        self._store.put_snapshot(entry, digest)
        self._entries[entry.log_position] = entry
        self._digests[entry.log_position] = digest
        if former is not None:
            self.drop(former)

    def condemn(self, entry: SnapshotEntry) -> None:
        """Mark a snapshot as damaged: it does not count as whole until another takes its place; its digest stays."""
        damaged = entry._replace(is_valid=False)
        if self._entries.get(entry.log_position) == entry:
            self._store.put_snapshot(damaged)
            self._entries[entry.log_position] = damaged

    def drop(self, entry: SnapshotEntry) -> None:
        """Delete the recordings of a snapshot that is not used, but for those that are kept."""
        self._purge_unnamed(entry.recording_ids)

    def _named(self) -> set[int]:
        """Return the recordings that an entry or evidence names."""
        return self._store.evidence() | {one for entry in self._entries.values() for one in entry.recording_ids}

    def _purge_unnamed(self, recording_ids: Iterable[int]) -> None:
        """Delete recordings, but for those that something else names."""
        named = self._named()
        for recording_id in recording_ids:
            if recording_id not in named:
                self._purge(recording_id)

    def valid(self) -> list[SnapshotEntry]:
        """Return the snapshots that are whole, newest first."""
        return sorted((entry for entry in self._entries.values() if entry.is_valid), reverse=True)

    @property
    def newest_position(self) -> int:
        """Log position of the newest whole snapshot, or -1."""
        return max((entry.log_position for entry in self._entries.values() if entry.is_valid), default=NULL_VALUE)

    @property
    def newest_length_bytes(self) -> int:
        """The length in bytes of the newest whole snapshot's recordings; 0 without one."""
        return next((self.length_bytes(entry) for entry in self.valid()), 0)

    def length_bytes(self, entry: SnapshotEntry) -> int:
        """Return the length in bytes of a snapshot's recordings."""
        return sum(self._length_of(one) for one in entry.recording_ids)

    def _length_of(self, recording_id: int) -> int:
        """Return the length in bytes of a recording, even if its end is not noticed yet."""
        live, descriptor = self._archive.recording(recording_id), self._archive.descriptor(recording_id)
        return (descriptor.stop_position if live is None else live.written_position) - descriptor.start_position

    def digests(self) -> dict[int, bytes]:
        """Return digests by position, of the snapshots that can be compared with other members'."""
        return {entry.log_position: found for entry in self.valid() if (found := self._digests.get(entry.log_position))}

    def find(self, log_position: int, digest: bytes) -> SnapshotEntry | None:
        """Return the snapshot of this position and content, if it is here."""
        entry = self._entries.get(log_position)
        is_same = entry is not None and entry.is_valid and self._digests.get(log_position) == digest
        return entry if is_same else None

    def find_recording(self, recording_id: int) -> SnapshotEntry | None:
        """Return the whole snapshot that a recording is a part of."""
        return next((entry for entry in self.valid() if recording_id in entry.recording_ids), None)

    def describe(self, entry: SnapshotEntry) -> HeldSnapshot | None:
        """Return position and digest of a snapshot, intact or not; None if it is gone, or has no digest."""
        present, digest = self._entries.get(entry.log_position), self._digests.get(entry.log_position)
        is_here = present is not None and present.recording_ids == entry.recording_ids
        return HeldSnapshot(entry.log_position, digest) if is_here and digest else None

    def remove_below(self, log_position: int, spared: Collection[int] = ()) -> int:
        """Delete the snapshots older than a position that are not spared and not being read; return how many."""
        doomed = [one for one in self._entries.values() if one.log_position < log_position]
        return sum(self._remove(one) for one in sorted(doomed) if one.log_position not in spared)

    def keep_as_evidence(self, agreed: HeldSnapshot, own_digest: bytes, since_position: int) -> Evidence | None:
        """Keep this member's snapshot as evidence, safe from retention, because a quorum holds a different one.

        None where it is no longer here, or takes more than `evidence_bytes_max` on the disk.
        """
        entry = self._entries.get(agreed.log_position)
        length_bytes = 0 if entry is None else self.length_bytes(entry)
        if entry is None or length_bytes > self.evidence_bytes_max:
            return None
        position = entry.log_position
        kept = Evidence(
            position,
            position,
            since_position,
            entry.service_recording_id,
            entry.module_recording_id,
            length_bytes,
            own_digest,
            agreed.digest,
            entry.more_recording_ids,
        )
        self._put_evidence(kept)
        return kept

    def keep_state(self, kept: Evidence) -> bool:
        """Keep the recordings of a state that was no snapshot.

        Return False where they are too long to keep, and are deleted.
        """
        length_bytes = sum(self._length_of(one) for one in kept.recording_ids)
        if length_bytes > self.evidence_bytes_max:
            for recording_id in kept.recording_ids:
                self._purge(recording_id)
            return False
        self._put_evidence(kept._replace(length_bytes=length_bytes))
        return True

    def _put_evidence(self, kept: Evidence) -> None:
        self._purge_unnamed(self._store.put_evidence(kept, self.evidence_bytes_max))

    def list_evidence(self) -> list[Evidence]:
        """Return this member's snapshots that differed from those of the others, oldest first."""
        return self._store.list_evidence()

    def _remove(self, entry: SnapshotEntry) -> bool:
        recording_ids = entry.recording_ids
        if any(self._archive.replays(recording_id) for recording_id in recording_ids):
            return False
        self._store.remove_snapshot(entry.log_position)
        del self._entries[entry.log_position]
        self._digests.pop(entry.log_position, None)
        self._purge_unnamed(recording_ids)
        return True

    def clear_snapshots(self) -> int:
        """Delete, at start, recordings of snapshots that never became whole; return how many."""
        kept = self._named()
        found = [one for one in self._archive.recordings() if self._is_snapshot(one) and not one.is_active]
        return sum(self._purge(one.recording_id) for one in found if one.recording_id not in kept)

    def drop_recording(self, session_id: int) -> None:
        """Delete the recording of a snapshot that failed."""
        found = [one for one in self._archive.recordings() if self._is_snapshot(one) and one.session_id == session_id]
        for one in found[-1:]:
            self.drop_part(one.recording_id)

    def drop_part(self, recording_id: int) -> None:
        """Delete the recording of one part of a snapshot that failed."""
        self._end(recording_id)
        self._left_over.add(recording_id)

    def _end(self, recording_id: int) -> None:
        live = self._archive.recording(recording_id)
        if live is not None:
            self._archive.stop(live)

    def clear_logs(self, log_recording_id: int) -> int:
        """Delete recordings of logs that were given up for the present one; return how many."""
        found = [one for one in self._archive.recordings() if _is_log(one) and not one.is_active]
        return sum(self._purge(one.recording_id) for one in found if one.recording_id != log_recording_id)

    def _is_snapshot(self, descriptor: RecordingDescriptor) -> bool:
        """Return whether a recording is a snapshot's: others' recordings may have its stream id, but not its alias."""
        return descriptor.stream_id in self._stream_ids and "alias=snapshot" in descriptor.original_channel

    def purge_left_over(self) -> int:
        """Retry deletions that failed because a recording was being written or read; return how many succeeded."""
        return sum(self._purge(one) for one in sorted(self._left_over))

    def _purge(self, recording_id: int) -> bool:
        self._left_over.discard(recording_id)
        try:
            self._archive.purge(recording_id)
        except ArchiveError as error:
            if error.code == ERROR_ACTIVE_RECORDING:
                self._left_over.add(recording_id)
            return False
        return True


def _is_log(descriptor: RecordingDescriptor) -> bool:
    return descriptor.stream_id == LOG_STREAM_ID and "alias=log" in descriptor.original_channel
