"""Sends every message back to its session: what the benchmarks measure."""

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, ClusteredService
from ordo.service_api.snapshot import SnapshotWriter


class Echo(ClusteredService):
    """Sends every message back to its session. Holds no state."""

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        if session is not None:
            session.offer(payload)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write nothing: the service has no state."""
