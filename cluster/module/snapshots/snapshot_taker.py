"""Takes a snapshot at one log position: the services', then the consensus module's (cluster-consensus.md §16.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ordo.cluster.module.snapshots.copied_snapshots import CapturedState
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.state_store import SnapshotEntry
from ordo.cluster.wire.counters.component_errors import SNAPSHOT_REFUSED
from ordo.cluster.wire.snapshots.snapshot_digest import combine, digest_of
from ordo.cluster.wire.snapshots.snapshot_writer import SnapshotWriter
from ordo.cluster.wire.streams import (
    MODULE_SNAPSHOT_STREAM_ID,
    SERVICE_SNAPSHOT_STREAM_ID,
    SNAPSHOT_CHANNEL,
    local_stream,
)
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import ArchiveAccess, Replication, SpeakingHost
    from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, SnapshotLayout, SnapshotPoint
    from ordo.runtime.native.clock import Clock


class SnapshotHost(Protocol):
    """The member whose state is the module's part of a snapshot."""

    @property
    def executed_position(self) -> int: ...
    def capture_snapshot(self, point: SnapshotPoint) -> ModuleSnapshot:
        """Return the state as of the point, at which execution is paused."""

    def pause_execution(self) -> None:
        """Execute nothing after the newest executed record until `go_on`."""

    def go_on(self) -> None:
        """Resume execution: the state is captured, or the snapshot has failed."""

    def snapshot_done(self, log_position: int) -> None:
        """Note that the snapshot at this position was taken or has failed."""

    def await_copy(self, captured: CapturedState) -> None:
        """Take the state that a snapshot of a standby has to be of."""


class SnapshotTimes(NamedTuple):
    """When a snapshot was asked for, in cluster time, and when it was begun here, in ns."""

    timestamp: int
    begun_ns: int
    is_copied: bool = False
    """A standby takes it: of this member's state is only noted what the copy is compared with."""


@dataclass
class ServiceParts:
    """The services' reports on their parts of one snapshot, by service id."""

    arrived: set[int] = field(default_factory=set)
    """The services that have reached the point."""
    session_ids: dict[int, int] = field(default_factory=dict)
    """The session in which a copy of a service sends its part."""
    recording_ids: dict[int, int] = field(default_factory=dict)
    """A service's part, once that is recorded; NULL_VALUE where it could not be taken."""
    reasons: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Why a service could not take its part of a snapshot at a position."""


class SnapshotTaker:
    """Takes one snapshot at a time, of all services and the module.

    It captures the module's state when all services have reached the snapshot's position, waits for the services' acks,
    writes the module's part, then stores all parts as one entry.

    The executor stands still until the state is captured: where copies of the services write the services' parts, this
    is when the last SnapshotBegun has come; otherwise until all is done. Sequencing, replication and commits go on. So
    do the services: what one asks for behind the position must not be in the module's part, and waits in its stream
    until the others have come there, too. The record of a second snapshot stops the executor until the first is done.
    """

    def __init__(
        self,
        access: ArchiveAccess,
        shelf: SnapshotShelf,
        host: SnapshotHost,
        notices: SpeakingHost,
        replication: Replication,
        counters: ModuleCounters,
        clock: Clock,
        layout: SnapshotLayout,
    ) -> None:
        self._client = access.client
        self._shelf = shelf
        self._host = host
        self._notices = notices
        self._core = replication.core
        self._sequencer = replication.sequencer
        self._counters = counters
        self._clock = clock
        self._service_count = layout.service_count
        self._point: SnapshotPoint | None = None
        self._times = SnapshotTimes(0, 0)
        self._parts = ServiceParts()
        self._writer: SnapshotWriter | None = None
        self._service_digests: dict[tuple[int, int], bytes] = {}
        """By log position and service: one may tell that of a second snapshot before another has ended the first."""
        self._digest = b""
        self._messages: list[bytes] | None = None
        """The module's part, once captured."""
        self._next: tuple[SnapshotPoint, int, bool] | None = None
        """A second snapshot, which waits for the first, with its timestamp, and whether it is copied."""
        self._early: dict[int, Callable[[], None]] = {}
        """Keyed by service: its report on a snapshot that it has reached before the module."""
        self._standing: dict[int, int] = {}
        """Keyed by service: where it is halted, so that it reaches no snapshot after that."""
        self._stream_id = local_stream(MODULE_SNAPSHOT_STREAM_ID, layout.cluster_id)
        services_stream_id = local_stream(SERVICE_SNAPSHOT_STREAM_ID, layout.cluster_id)
        access.archive.record_subscription(SNAPSHOT_CHANNEL, services_stream_id)
        access.archive.record_subscription(SNAPSHOT_CHANNEL, self._stream_id)

    @property
    def is_under_way(self) -> bool:
        return self._point is not None

    @property
    def wants_quick_ticks(self) -> bool:
        """Whether one is under way, and not merely being written by a copy of the service."""
        return self.is_under_way and (self._messages is None or self._writer is not None)

    def begin(self, point: SnapshotPoint, timestamp: int, is_copied: bool = False) -> None:
        """Begin a snapshot at this point, after its ClusterAction was executed.

        `is_copied`: a standby takes it, and the services only say by what a copy is known to be of their state.
        """
        self._host.pause_execution()
        if self._point is not None:
            self._next = point, timestamp, is_copied
            return
        self._point = point
        self._times = SnapshotTimes(timestamp, self._clock.now(), is_copied)
        early, self._early = self._early, {}
        for service_id, action in early.items():
            self._sequencer.release_service(service_id)
            action()
        self._fail_standing()

    def on_service_stands(self, service_id: int, log_position: int) -> None:
        """Note that a service has stopped at this position until its member restarts.

        It takes no more snapshots, and the module, which may be needed as a leader, must not wait for it.
        """
        self._standing[service_id] = log_position
        self._fail_standing()

    def _fail_standing(self) -> None:
        """Fail the parts of stopped services that will not reach the point, as if they had reported it."""
        for service_id, position in self._standing.items():
            point = self._point
            if point is not None and position < point.log_position and service_id not in self._parts.recording_ids:
                self.on_service_ack(service_id, point.log_position, self._times.timestamp, NULL_VALUE)

    def on_service_begun(self, service_id: int, log_position: int, session_id: int) -> None:
        """Note that the service's state is captured; its ack comes when the state is recorded."""
        if self._point is not None and log_position == self._point.log_position:
            self._parts.session_ids[service_id] = session_id
            self._arrive(service_id, self._point)
        elif self._is_ahead(log_position):
            self._hold_service(service_id, lambda: self.on_service_begun(service_id, log_position, session_id))

    def _is_ahead(self, log_position: int) -> bool:
        """Return whether a service is at a snapshot that is not begun here."""
        waits = self._next is not None and self._next[0].log_position == log_position
        return waits or log_position > self._host.executed_position

    def _hold_service(self, service_id: int, early: Callable[[], None]) -> None:
        self._early[service_id] = early
        self._sequencer.hold_service(service_id)

    def _arrive(self, service_id: int, point: SnapshotPoint) -> None:
        """Note that a service has reached the point. With the last one the module's part is captured."""
        if service_id in self._parts.arrived:
            return
        self._parts.arrived.add(service_id)
        if len(self._parts.arrived) < self._service_count:
            self._sequencer.hold_service(service_id)
            return
        for one in self._parts.arrived:
            self._sequencer.release_service(one)
        if self._times.is_copied:
            self._end_captured(point)
            return
        if NULL_VALUE in self._parts.recording_ids.values():
            return
        self._messages = list(module_snapshot.encode(self._host.capture_snapshot(point)))
        if not self._parts.recording_ids:
            self._host.go_on()

    def _end_captured(self, point: SnapshotPoint) -> None:
        """Keep what a standby's snapshot is compared with, unless a service has stopped before."""
        if not self._parts.recording_ids:
            messages = list(module_snapshot.encode(self._host.capture_snapshot(point)))
            heads = tuple(self._digests_at(point))
            self._host.await_copy(CapturedState(point, self._times.timestamp, tuple(messages), heads))
        self._finish(None)

    def on_service_digest(self, service_id: int, log_position: int, digest: bytes) -> None:
        """Take the digest of a service's part; it arrives before the ack of the same position."""
        self._service_digests[log_position, service_id] = digest

    def _digests_at(self, point: SnapshotPoint) -> list[bytes]:
        """Return what the services have told at a point, by id; empty where one has told nothing."""
        return [self._service_digests.get((point.log_position, one), b"") for one in range(self._service_count)]

    def on_service_failure(self, service_id: int, log_position: int, reason: str) -> None:
        """Take why a service has no part of a snapshot; it arrives before the ack of the same position."""
        self._parts.reasons[service_id] = log_position, reason

    def on_service_ack(self, service_id: int, log_position: int, timestamp: int, relevant_id: int) -> None:
        if self._point is not None and log_position == self._point.log_position:
            self._parts.recording_ids[service_id] = relevant_id
            point = self._point
            self._arrive(service_id, point)
            if self._point is point and len(self._parts.recording_ids) == self._service_count:
                self._on_services_done(point)
        elif self._is_ahead(log_position):
            self._hold_service(
                service_id, lambda: self.on_service_ack(service_id, log_position, timestamp, relevant_id)
            )

    def _on_services_done(self, point: SnapshotPoint) -> None:
        failed = [one for one, recording_id in sorted(self._parts.recording_ids.items()) if recording_id == NULL_VALUE]
        if failed:
            self._drop_parts(failed)
            which = "the service" if self._service_count == 1 else f"service {failed[0]}"
            position, reason = self._parts.reasons.get(failed[0], (point.log_position, ""))
            why = f": {reason}" if reason and position == point.log_position else ""
            self._finish(f"{which} {SNAPSHOT_REFUSED}{point.log_position}{why}")
            return
        assert self._messages is not None
        self._digest = combine(*self._digests_at(point), digest_of(self._messages))
        self._writer = SnapshotWriter(self._client, self._stream_id, self._messages)

    def _drop_parts(self, failed: list[int]) -> None:
        for service_id in failed:
            if service_id in self._parts.session_ids:
                self._shelf.drop_recording(self._parts.session_ids[service_id])
        for recording_id in self._parts.recording_ids.values():
            if recording_id != NULL_VALUE:
                self._shelf.drop_part(recording_id)

    def work(self) -> None:
        if self._writer is None or not self._writer.work():
            return
        assert self._point is not None
        point, module_recording_id = self._point, self._writer.recording_id
        service_recording_id, *more = (self._parts.recording_ids[one] for one in range(self._service_count))
        entry = SnapshotEntry(
            point.log_position,
            point.leadership_term_id,
            dict(self._core.terms)[point.leadership_term_id],
            self._times.timestamp,
            service_recording_id,
            module_recording_id,
            True,
            tuple(more),
        )
        self._shelf.add(entry, self._digest)
        self._counters.on_snapshot_taken(self._clock.now() - self._times.begun_ns)
        services = ", ".join(map(str, entry.service_recording_ids)) + (" (services)" if more else " (service)")
        self._notices.announce(
            "cluster.snapshot",
            f"snapshot taken at log position {point.log_position} of term {point.leadership_term_id}: recordings"
            f" {services} and {module_recording_id} (consensus module)",
        )
        self._finish(None)

    def _finish(self, error: str | None) -> None:
        assert self._point is not None
        if error is not None:
            self._notices.record_error(error)
            self._notices.announce("cluster.snapshot", error)
        log_position = self._point.log_position
        self._point = self._writer = self._messages = None
        self._parts = ServiceParts()
        for key in [one for one in self._service_digests if one[0] <= log_position]:
            del self._service_digests[key]
        following, self._next = self._next, None
        self._host.snapshot_done(log_position)
        if following is not None:
            self.begin(*following)
        else:
            self._host.go_on()
