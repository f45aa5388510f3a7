"""Answers every message and request with its payload: what the benchmarks of requests and of the gateway measure."""

from __future__ import annotations

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, ClusteredService
from ordo.service_api.snapshot import SnapshotWriter


class Answering(ClusteredService):
    """Holds no state."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        return payload

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write nothing: the service has no state."""
