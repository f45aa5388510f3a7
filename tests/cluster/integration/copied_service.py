"""Services whose snapshots members copy from a standby: they say when they start, and when they take one."""

from __future__ import annotations

import structlog

from ordo.service_api.snapshot import SnapshotWriter
from tests.cluster.integration.soak_service import Tally

TAKEN_EVENT = "tally.taken"


class Copied(Tally):
    """A Tally that says when it takes a snapshot."""

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        structlog.get_logger().info(TAKEN_EVENT, total=self.total)
        super().on_take_snapshot(writer)


class Otherwise(Copied):
    """The same, which has come to another state: what differs is the hash alone."""

    def state_hash(self) -> bytes:
        return (self.digest ^ 1).to_bytes(8, "little")
