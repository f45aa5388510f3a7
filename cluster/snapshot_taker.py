"""Takes a snapshot at one log position: the service's, then the consensus module's (cluster-consensus.md §16.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster import snapshots
from cluster.sessions import NULL_VALUE
from cluster.state_store import SnapshotEntry, StateStore

if TYPE_CHECKING:
    from archive.archive import Archive
    from cluster.module import ConsensusModule
    from cluster.snapshots import SnapshotPoint
    from transport.client import TransportClient


class SnapshotTaker:
    """Waits for the service's ack at the snapshot's position, writes the module's part, then stores both as one entry.

    The executor stands still meanwhile; sequencing, replication and commits go on.
    """

    def __init__(self, client: TransportClient, archive: Archive, store: StateStore, module: ConsensusModule) -> None:
        self._client = client
        self._store = store
        self._module = module
        self._point: SnapshotPoint | None = None
        self._timestamp = 0
        self._service_recording_id = NULL_VALUE
        self._writer: snapshots.SnapshotWriter | None = None
        self._early_acks: dict[int, int] = {}  # recording id by log position: the service was quicker
        self.is_asked = False
        archive.record_subscription(snapshots.SNAPSHOT_CHANNEL, snapshots.SERVICE_SNAPSHOT_STREAM_ID)
        archive.record_subscription(snapshots.SNAPSHOT_CHANNEL, snapshots.MODULE_SNAPSHOT_STREAM_ID)

    @property
    def is_under_way(self) -> bool:
        return self._point is not None

    def begin(self, point: SnapshotPoint, timestamp: int) -> None:
        """The snapshot action was executed."""
        self._point = point
        self._timestamp = timestamp
        recording_id = self._early_acks.get(point.log_position)
        self._early_acks = {at: found for at, found in self._early_acks.items() if at > point.log_position}
        if recording_id is not None:
            self._on_service_done(recording_id)

    def on_service_ack(self, log_position: int, timestamp: int, relevant_id: int) -> None:
        if self._point is not None and log_position == self._point.log_position:
            self._on_service_done(relevant_id)
        else:
            self._early_acks[log_position] = relevant_id

    def _on_service_done(self, recording_id: int) -> None:
        assert self._point is not None
        if recording_id == NULL_VALUE:
            self._finish(f"the service could not take its snapshot at log_position={self._point.log_position}")
            return
        self._service_recording_id = recording_id
        module = self._module
        contents = snapshots.capture(self._point, module.sessions, module.timers, module.service_messages)
        self._writer = snapshots.SnapshotWriter(
            self._client, snapshots.MODULE_SNAPSHOT_STREAM_ID, snapshots.encode(contents)
        )

    def work(self) -> None:
        if self._writer is None or not self._writer.work():
            return
        assert self._point is not None
        point, module_recording_id = self._point, self._writer.recording_id
        self._store.put_snapshot(
            SnapshotEntry(
                point.log_position,
                point.leadership_term_id,
                dict(self._module.core.terms)[point.leadership_term_id],
                self._timestamp,
                self._service_recording_id,
                module_recording_id,
                True,
            )
        )
        self._module.counters.snapshot_count.increment()
        self._finish(None)

    def _finish(self, error: str | None) -> None:
        if error is not None:
            self._module.record_error(error)
        self._point = None
        self._writer = None
        self.is_asked = False
        self._module.snapshot_done()
