"""The service of the cluster that the pages' snippets talk to."""

from __future__ import annotations

from typing import Any

from ordo import Cluster, ClusteredService, Reject, SnapshotReader, SnapshotWriter


class Orders(ClusteredService):
    """Answers with the order, refuses the one that is too large, and publishes all to `trades`."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if session is None:
            return None
        if payload == b"sell 1000000":
            raise Reject("there are not so many")
        self.cluster.publish("trades", payload)
        return payload

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """There is no state."""
