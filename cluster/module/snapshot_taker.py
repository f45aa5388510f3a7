"""Takes a snapshot at one log position: the service's, then the consensus module's (cluster-consensus.md §16.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.module import snapshots
from cluster.module.sessions import NULL_VALUE
from cluster.module.state_store import SnapshotEntry
from cluster.wire.snapshot_digest import combine, digest_of
from cluster.wire.snapshot_writer import SnapshotWriter
from cluster.wire.streams import MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID, SNAPSHOT_CHANNEL, local_stream

if TYPE_CHECKING:
    from archive.archive import Archive
    from cluster.module.counters import ModuleCounters
    from cluster.module.sequencer import Sequencer
    from cluster.module.snapshot_shelf import SnapshotShelf
    from cluster.module.snapshots import ModuleSnapshot, SnapshotPoint
    from consensus.core import ConsensusCore
    from transport.client import TransportClient


class SnapshotHost(Protocol):
    """The member whose state is the module's part of a snapshot."""

    @property
    def executed_position(self) -> int: ...
    def capture_snapshot(self, point: SnapshotPoint) -> ModuleSnapshot:
        """The state as of the point, at which execution stands still."""

    def snapshot_done(self) -> None:
        """The snapshot is taken or has failed: execution goes on."""

    def record_error(self, message: str) -> None: ...
    def announce(self, event: str, text: str) -> None:
        """One line in the log of the process."""


class SnapshotTaker:
    """Waits for the service's ack at the snapshot's position, writes the module's part, then stores both as one entry.

    The executor stands still meanwhile; sequencing, replication and commits go on. So does the service, as far as its
    next snapshot: what it asks for behind that one must not be in the module's part of it, and waits in its stream.
    """

    def __init__(
        self,
        client: TransportClient,
        archive: Archive,
        shelf: SnapshotShelf,
        host: SnapshotHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        counters: ModuleCounters,
        cluster_id: int = 0,
    ) -> None:
        self._client = client
        self._shelf = shelf
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._counters = counters
        self._point: SnapshotPoint | None = None
        self._timestamp = 0
        self._service_recording_id = NULL_VALUE
        self._writer: SnapshotWriter | None = None
        self._service_digest: tuple[int, bytes] = NULL_VALUE, b""
        self._digest = b""
        self._early_ack: tuple[int, int] | None = None  # (log position, recording id): the service was quicker
        self._stream_id = local_stream(MODULE_SNAPSHOT_STREAM_ID, cluster_id)
        archive.record_subscription(SNAPSHOT_CHANNEL, local_stream(SERVICE_SNAPSHOT_STREAM_ID, cluster_id))
        archive.record_subscription(SNAPSHOT_CHANNEL, self._stream_id)

    @property
    def is_under_way(self) -> bool:
        return self._point is not None

    def begin(self, point: SnapshotPoint, timestamp: int) -> None:
        """Begins a snapshot at this point, after its ClusterAction was executed."""
        self._point = point
        self._timestamp = timestamp
        if self._early_ack is not None and self._early_ack[0] <= point.log_position:
            log_position, recording_id = self._early_ack
            self._early_ack = None
            self._sequencer.holds_service = False
            self.on_service_ack(log_position, timestamp, recording_id)

    def on_service_digest(self, log_position: int, digest: bytes) -> None:
        """Takes the digest of the service's part; it arrives before the ack of the same position."""
        self._service_digest = log_position, digest

    def on_service_ack(self, log_position: int, timestamp: int, relevant_id: int) -> None:
        if self._point is not None and log_position == self._point.log_position:
            self._on_service_done(relevant_id)
        elif log_position > self._host.executed_position:
            self._early_ack = log_position, relevant_id
            self._sequencer.holds_service = True

    def _on_service_done(self, recording_id: int) -> None:
        assert self._point is not None
        if recording_id == NULL_VALUE:
            self._finish(f"the service could not take its snapshot at log_position={self._point.log_position}")
            return
        self._service_recording_id = recording_id
        messages = list(snapshots.encode(self._host.capture_snapshot(self._point)))
        position, service_digest = self._service_digest
        is_of_this = position == self._point.log_position
        self._digest = combine(service_digest, digest_of(messages)) if is_of_this else b""
        self._writer = SnapshotWriter(self._client, self._stream_id, messages)

    def work(self) -> None:
        if self._writer is None or not self._writer.work():
            return
        assert self._point is not None
        point, module_recording_id = self._point, self._writer.recording_id
        entry = SnapshotEntry(
            point.log_position,
            point.leadership_term_id,
            dict(self._core.terms)[point.leadership_term_id],
            self._timestamp,
            self._service_recording_id,
            module_recording_id,
            True,
        )
        self._shelf.add(entry, self._digest)
        self._counters.snapshot_count.increment()
        self._host.announce(
            "cluster.snapshot",
            f"snapshot taken at log position {point.log_position} of term {point.leadership_term_id}: recordings"
            f" {self._service_recording_id} (service) and {module_recording_id} (consensus module)",
        )
        self._finish(None)

    def _finish(self, error: str | None) -> None:
        if error is not None:
            self._host.record_error(error)
        self._point = None
        self._writer = None
        self._host.snapshot_done()
