"""Services that fail, each in one callback."""

from __future__ import annotations

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, ClusteredService
from ordo.service_api.snapshot import SnapshotWriter


class BrokenSnapshot(ClusteredService):
    """Cannot write its state."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        return bytes(payload)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        raise ValueError("a set is no state")


class Dividing(ClusteredService):
    """Fails at every payload of length 0 after `by:`; the others it answers."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        return b"%d" % (100 // int(bytes(payload).removeprefix(b"by:")))
