"""Publishes what it is asked for, to a topic of trades and one of books."""

from __future__ import annotations

import struct

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

STATE = struct.Struct("<q")


class Publisher(ClusteredService):
    """Counts its messages; each is published to `trades` with its count, every third one to `books`, too.

    The words of one that begins with `many` are published to `parts`, in one call.
    """

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.count = 0 if snapshot is None else STATE.unpack(snapshot.read())[0]

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.count += 1
        sequence = self.cluster.publish("trades", b"%d:" % self.count + payload)
        if self.count % 3 == 0:
            self.cluster.publish("books", b"%d" % self.count)
        if payload.startswith(b"many "):
            return b"%d" % self.cluster.publish("parts", *payload.split()[1:])
        if payload == b"fail":
            raise ValueError("after it was published")
        return b"%d" % sequence

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(STATE.pack(self.count))
