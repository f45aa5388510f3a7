"""A service whose state is when each message arrived at its leader, as its header says it."""

from __future__ import annotations

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter


class Arrivals(ClusteredService):
    """The answer to a message, and to a query, are the rows so far: timestamp, arrival, and the message as text."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.rows: list[list[int | str | None]] = json.loads(b"".join(snapshot)) if snapshot is not None else []

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        self.rows.append([timestamp, header.arrival_ns, payload[:16].decode()])
        return json.dumps(self.rows[-1]).encode()

    def on_query(self, payload: bytes) -> bytes:
        return json.dumps(self.rows).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.rows).encode())

    def state_hash(self) -> bytes:
        return json.dumps(self.rows).encode()
