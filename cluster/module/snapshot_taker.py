"""Takes a snapshot at one log position: the service's, then the consensus module's (cluster-consensus.md §16.1)."""

from __future__ import annotations

from collections.abc import Callable
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
    from runtime.clock import Clock
    from transport.client import TransportClient


class SnapshotHost(Protocol):
    """The member whose state is the module's part of a snapshot."""

    @property
    def executed_position(self) -> int: ...
    def capture_snapshot(self, point: SnapshotPoint) -> ModuleSnapshot:
        """The state as of the point, at which execution stands still."""

    def pause_execution(self) -> None:
        """Nothing behind the record that was executed last is executed until `go_on`."""

    def go_on(self) -> None:
        """The state is captured, or the snapshot has failed: execution goes on."""

    def snapshot_done(self, log_position: int) -> None:
        """The snapshot at this position is taken or has failed."""

    def record_error(self, message: str) -> None: ...
    def announce(self, event: str, text: str) -> None:
        """One line in the log of the process."""


class SnapshotTaker:
    """Captures the module's state when the service has reached the snapshot's position, waits for the service's ack,
    writes the module's part, then stores both as one entry.

    The executor stands still until the state is captured: where a copy of the service writes the service's part, this
    is when SnapshotBegun has come; otherwise until all is done. Sequencing, replication and commits go on. So does the
    service: what it asks for behind the position must not be in the module's part, and waits in its stream. The record
    of a second snapshot stops the executor until the first is done.
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
        clock: Clock,
        cluster_id: int = 0,
    ) -> None:
        self._client = client
        self._shelf = shelf
        self._host = host
        self._core = core
        self._sequencer = sequencer
        self._counters = counters
        self._clock = clock
        self._begun_ns = 0
        self._point: SnapshotPoint | None = None
        self._timestamp = 0
        self._service_recording_id = NULL_VALUE
        self._writer: SnapshotWriter | None = None
        self._service_digest: tuple[int, bytes] = NULL_VALUE, b""
        self._digest = b""
        self._messages: list[bytes] | None = None
        """The module's part, once captured."""
        self._next: tuple[SnapshotPoint, int] | None = None
        """A second snapshot, which waits for the first, and its timestamp."""
        self._session_id: int | None = None
        """Of the stream in which a copy of the service sends the service's part."""
        self._early: Callable[[], None] | None = None
        """What the service said of a snapshot that it has reached before the module."""
        self._stream_id = local_stream(MODULE_SNAPSHOT_STREAM_ID, cluster_id)
        archive.record_subscription(SNAPSHOT_CHANNEL, local_stream(SERVICE_SNAPSHOT_STREAM_ID, cluster_id))
        archive.record_subscription(SNAPSHOT_CHANNEL, self._stream_id)

    @property
    def is_under_way(self) -> bool:
        return self._point is not None

    @property
    def wants_quick_ticks(self) -> bool:
        """Whether one is under way, and not merely being written by a copy of the service."""
        return self.is_under_way and (self._messages is None or self._writer is not None)

    def begin(self, point: SnapshotPoint, timestamp: int) -> None:
        """Begins a snapshot at this point, after its ClusterAction was executed."""
        self._host.pause_execution()
        if self._point is not None:
            self._next = point, timestamp
            return
        self._point = point
        self._timestamp = timestamp
        self._begun_ns = self._clock.now()
        if self._early is not None:
            early, self._early = self._early, None
            self._sequencer.holds_service = False
            early()

    def on_service_begun(self, log_position: int, session_id: int) -> None:
        """The service's state is captured, and it goes on; its ack comes when the state is recorded."""
        if self._point is not None and log_position == self._point.log_position:
            self._session_id = session_id
            self._capture(self._point)
            self._host.go_on()
        elif self._is_ahead(log_position):
            self._hold_service(lambda: self.on_service_begun(log_position, session_id))

    def _is_ahead(self, log_position: int) -> bool:
        """Whether the service is at a snapshot that is not begun here."""
        waits = self._next is not None and self._next[0].log_position == log_position
        return waits or log_position > self._host.executed_position

    def _hold_service(self, early: Callable[[], None]) -> None:
        self._early = early
        self._sequencer.holds_service = True

    def _capture(self, point: SnapshotPoint) -> None:
        self._messages = list(snapshots.encode(self._host.capture_snapshot(point)))

    def on_service_digest(self, log_position: int, digest: bytes) -> None:
        """Takes the digest of the service's part; it arrives before the ack of the same position."""
        self._service_digest = log_position, digest

    def on_service_ack(self, log_position: int, timestamp: int, relevant_id: int) -> None:
        if self._point is not None and log_position == self._point.log_position:
            self._on_service_done(self._point, relevant_id)
        elif self._is_ahead(log_position):
            self._hold_service(lambda: self.on_service_ack(log_position, timestamp, relevant_id))

    def _on_service_done(self, point: SnapshotPoint, recording_id: int) -> None:
        if recording_id == NULL_VALUE:
            if self._session_id is not None:
                self._shelf.drop_recording(self._session_id)
            self._finish(f"the service could not take its snapshot at log_position={point.log_position}")
            return
        self._service_recording_id = recording_id
        if self._messages is None:
            self._capture(point)
        assert self._messages is not None
        position, service_digest = self._service_digest
        is_of_this = position == point.log_position
        self._digest = combine(service_digest, digest_of(self._messages)) if is_of_this else b""
        self._writer = SnapshotWriter(self._client, self._stream_id, self._messages)

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
        self._counters.on_snapshot_taken(self._clock.now() - self._begun_ns)
        self._host.announce(
            "cluster.snapshot",
            f"snapshot taken at log position {point.log_position} of term {point.leadership_term_id}: recordings"
            f" {self._service_recording_id} (service) and {module_recording_id} (consensus module)",
        )
        self._finish(None)

    def _finish(self, error: str | None) -> None:
        assert self._point is not None
        if error is not None:
            self._host.record_error(error)
        log_position = self._point.log_position
        self._point = self._writer = self._messages = self._session_id = None
        following, self._next = self._next, None
        self._host.snapshot_done(log_position)
        if following is not None:
            self.begin(*following)
        else:
            self._host.go_on()
