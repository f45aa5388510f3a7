"""The service of the cluster's soak: it answers, and its state is of one size whatever it has executed."""

from __future__ import annotations

from array import array

import structlog

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

STARTED_EVENT = "tally.started"
SLOTS = 1 << 16
MASK = (1 << 64) - 1


class Tally(ClusteredService):
    """Counts messages by their number, modulo `SLOTS`, and keeps a digest over all of them in order."""

    def __init__(self) -> None:
        self.total = 0
        self.digest = 0
        self.counts = array("Q", bytes(8 * SLOTS))

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.total = int.from_bytes(snapshot.read(8), "little")
            self.digest = int.from_bytes(snapshot.read(8), "little")
            self.counts = array("Q", snapshot.read(8 * SLOTS))
        structlog.get_logger().info(STARTED_EVENT, total=self.total, position=cluster.log_position)

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        number = int.from_bytes(payload[:8], "little")
        self.total += 1
        self.digest = (self.digest * 31 + number) & MASK
        self.counts[number % SLOTS] += 1
        if session is not None:
            session.offer(payload)

    def on_query(self, payload: bytes) -> bytes:
        return b"%d %d" % (self.total, self.digest)

    def state_hash(self) -> bytes:
        return self.digest.to_bytes(8, "little")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(self.total.to_bytes(8, "little") + self.digest.to_bytes(8, "little") + self.counts.tobytes())
