"""Two versions of an application that follows the log and writes nothing into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service_api import ClusteredService

if TYPE_CHECKING:
    from service_api import ClientSession, Cluster, Header, SnapshotReader, SnapshotWriter


class Watching(ClusteredService):
    """Counts messages."""

    def __init__(self) -> None:
        self.messages = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.messages = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.messages += 1
        return None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.messages).encode())


class WatchingBetter(Watching):
    """The next version of it."""
