"""A bank whose answers go to a topic, too."""

from __future__ import annotations

from ordo import ClientSession, Cluster, Header, SnapshotReader
from tests.cluster.integration.requests_service import Bank


class PublishingBank(Bank):
    """Publishes each answer to `balances`."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        super().on_start(cluster, snapshot)
        self.cluster = cluster

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        answer = super().on_session_message(session, timestamp, payload, header)
        if answer is not None:
            self.cluster.publish("balances", answer)
        return answer
