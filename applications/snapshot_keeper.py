"""Has an instance of an application leave snapshots in an archive now and then, and begin with the newest one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ordo.applications.application import Application
from ordo.applications.group_snapshots import GroupSnapshot, GroupSnapshots, find_snapshot
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.reporting.logging import get_logger
from ordo.transport.client.client_transport import ClientTransport


@dataclass(frozen=True)
class SnapshotPlace:
    """Where a group keeps its snapshots. Raises ConfigurationError."""

    archive: str
    """`host:port` of its control."""
    interval_s: float
    """So old the newest one may become before an instance leaves another."""
    credentials: bytes | Callable[[], bytes] = b""
    timeout_s: float = 3.0
    """How long each step may take while a snapshot is left: well below the cluster's session timeout."""

    def __post_init__(self) -> None:
        if not 0 < self.interval_s < float("inf"):
            raise ConfigurationError(f"interval_s={self.interval_s}: must be above 0")


class SnapshotKeeper:
    """Keeps the snapshots of one instance, which executes nothing while a snapshot is written."""

    def __init__(self, place: SnapshotPlace, group: str) -> None:
        self._place = place
        self._group = group
        self._due_ns: int | None = None
        self._stored_position = -1

    def find(self) -> GroupSnapshot | None:
        """Return the newest snapshot of the group; None when there is none.

        Raises ArchiveError, ArchiveTimeoutError.
        """
        snapshot = find_snapshot(self._place.archive, self._group, self._place.credentials)
        if snapshot is not None:
            get_logger().info("app.snapshot_taken_up", group=self._group, archive=self._place.archive)
        return snapshot

    def work(self, application: Application, transport: ClientTransport) -> None:
        """Leave a snapshot when it is time, and the other instances have left none.

        An archive that cannot be reached is a line of the log.
        """
        now_ns = transport.clock.now()
        if self._due_ns is None:
            self._due_ns = now_ns + round(self._place.interval_s * SECOND_NS)
        if now_ns < self._due_ns or application.position == self._stored_position:
            return
        try:
            self._store(application, transport.clock.epoch_ms())
        except OrdoError as error:
            get_logger().warning("app.snapshot", group=self._group, trouble=error.message)
        self._due_ns = transport.clock.now() + round(self._place.interval_s * SECOND_NS)

    def _store(self, application: Application, now_ms: int) -> None:
        place = self._place
        with GroupSnapshots(
            place.archive, self._group, credentials=place.credentials, timeout_s=place.timeout_s
        ) as snapshots:
            age_ms = snapshots.age_ms(now_ms)
            if age_ms is not None and age_ms < place.interval_s * 1000:
                return
            snapshots.store(application.executor.take_snapshot(), application.position, application.origin)
            self._stored_position = application.position
            get_logger().info("app.snapshot_left", group=self._group, position=application.position)
