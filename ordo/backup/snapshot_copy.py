"""Copies one snapshot from a member's archive, part by part, and checks that it is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.backup.query import OfferedSnapshot
from ordo.cluster.module.state.module_snapshot import decode as decode_module
from ordo.cluster.module.state.recovery import check_parts
from ordo.cluster.module.state.state_store import SnapshotEntry
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.snapshot_digest import combine, digest_of
from ordo.follow.recordings.log_source import LogSource, SourceState
from ordo.runtime.errors import ArchiveError, OrdoError, SnapshotError, StorageError

if TYPE_CHECKING:
    from ordo.archive.archive import Archive
    from ordo.archive.recorder import Recording
    from ordo.archive.segments.reader import RecordingReader
    from ordo.cluster.module.state.module_snapshot import ModuleSnapshot
    from ordo.transport.client.client import TransportClient

RECORDED_CHANNEL = "aeron:udp?alias=snapshot"
STANDSTILL_NS = 10_000_000_000


class CheckedSnapshot(NamedTuple):
    """A snapshot whose parts are whole and belong together."""

    module: ModuleSnapshot
    digest: bytes


class RecordingSource(Protocol):
    """An archive, or the folder of one, whose recordings are read."""

    def reader(self, recording_id: int, position: int | None = None) -> RecordingReader: ...


def check_snapshot(archive: RecordingSource, entry: SnapshotEntry) -> CheckedSnapshot:
    """Read all of a snapshot. Raises SnapshotError, ArchiveError, DecodeError, ClusterError for what is none."""
    module_messages = [message.payload for message in archive.reader(entry.module_recording_id, None).messages()]
    services, digests = [], []
    for recording_id in entry.service_recording_ids:
        messages = [message.payload for message in archive.reader(recording_id, None).messages()]
        services.append(container_snapshot.decode(iter(messages)))
        digests.append(digest_of(messages))
    module = decode_module(module_messages)
    check_parts(module, services)
    if module.point.log_position != entry.log_position:
        raise SnapshotError(
            f"the snapshot is of log position {module.point.log_position}, expected {entry.log_position}"
        )
    return CheckedSnapshot(module, combine(*digests, digest_of(module_messages)))


class PartCopy:
    """One recording on its way."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        settings: ArchiveClientSettings,
        recording_id: int,
        now_ns: int,
        cluster: KnownCluster,
    ) -> None:
        self._archive = archive
        self._source = LogSource(client, settings, now_ns, recording_id=recording_id, stream_id=None, cluster=cluster)
        self._recording: Recording | None = None
        self._failure: Exception | None = None
        self._progress = (0, now_ns)
        self.recording_id: int | None = None
        self.is_done = False

    @property
    def length_bytes(self) -> int:
        return 0 if self._recording is None else self._recording.durable_position - self._recording.start_position

    def work(self, now_ns: int) -> int:
        """Raise ArchiveError when the member does not give it, StorageError."""
        source = self._source
        work_count = source.work(now_ns)
        if source.state is SourceState.READY:
            source.begin(source.start_position, source.end_position - source.start_position)
        elif source.image is not None and self.recording_id is None:
            self._record(source)
        if self._failure is not None:
            raise self._failure
        if self._recording is not None and self._recording.durable_position >= source.end_position:
            self._archive.stop(self._recording)
            self.is_done = True
            source.close()
        elif source.is_ended:
            raise ArchiveError(f"{source.address}: {source.reason}")
        self._watch(now_ns)
        return work_count

    def _record(self, source: LogSource) -> None:
        assert source.image is not None
        self._recording = self._archive.record(source.image, channel=RECORDED_CHANNEL, on_stop=self._on_stop)
        self.recording_id = self._recording.recording_id

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        self._recording = None
        self._failure = error

    def _watch(self, now_ns: int) -> None:
        if self.length_bytes != self._progress[0]:
            self._progress = (self.length_bytes, now_ns)
        elif now_ns - self._progress[1] > STANDSTILL_NS and not self.is_done:
            raise ArchiveError(f"{self._source.address}: a snapshot's replay stands still")

    def close(self) -> None:
        self._source.close()
        if self._recording is not None:
            self._archive.stop(self._recording)


class SnapshotCopy:
    """One snapshot on its way: the services' parts, then the module's. `work` until `checked` or `problem` is there."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        settings: ArchiveClientSettings,
        offered: OfferedSnapshot,
        cluster: KnownCluster,
    ) -> None:
        """`cluster`: the one that the backup is of."""
        self.offered = offered
        self.entry: SnapshotEntry | None = None
        self.checked: CheckedSnapshot | None = None
        self.problem = ""
        self._archive = archive
        self._client = client
        self._settings = settings
        self._cluster = cluster
        self._parts: list[PartCopy] = []

    @property
    def is_done(self) -> bool:
        return self.checked is not None or self.problem != ""

    def work(self, now_ns: int) -> int:
        """One duty cycle; returns the number of things done. Raises StorageError where this machine's disk fails."""
        if self.is_done:
            return 0
        try:
            return self._work(now_ns)
        except StorageError:
            raise
        except OrdoError as error:
            self._give_up(error.message)
            return 1

    def _work(self, now_ns: int) -> int:
        if self._parts and not self._parts[-1].is_done:
            return self._parts[-1].work(now_ns)
        sources = (*self.offered.service_recording_ids, self.offered.module_recording_id)
        if len(self._parts) < len(sources):
            recording_id = sources[len(self._parts)]
            self._parts.append(
                PartCopy(self._archive, self._client, self._settings, recording_id, now_ns, self._cluster)
            )
            return 1
        self._check()
        return 1

    def _check(self) -> None:
        recording_ids = [one.recording_id for one in self._parts if one.recording_id is not None]
        assert len(recording_ids) == len(self._parts), "parts that are done have recordings"
        service, *more, module = recording_ids
        offered = self.offered
        entry = SnapshotEntry(
            offered.log_position,
            offered.leadership_term_id,
            offered.term_base_log_position,
            offered.timestamp,
            service,
            module,
            True,
            tuple(more),
        )
        self.checked = check_snapshot(self._archive, entry)
        self.entry = entry

    def _give_up(self, reason: str) -> None:
        self.problem = f"the snapshot at log position {self.offered.log_position} could not be copied: {reason}"
        self.close()
        for part in self._parts:
            if part.recording_id is not None:
                self._archive.purge(part.recording_id)

    def close(self) -> None:
        """End what is under way; the next start removes what has come."""
        for part in self._parts:
            part.close()
