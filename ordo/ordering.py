"""The service of a cluster whose work is done by applications: it orders, and does nothing else.

ordo node --config node.toml --service ordo:Ordering
"""

from __future__ import annotations

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, ClusteredService
from ordo.service_api.snapshot import SnapshotWriter


class Ordering(ClusteredService):
    """Takes every message and request as it is. It has no state."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        return None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Nothing to write; there are snapshots all the same, so that the log can be shortened."""
