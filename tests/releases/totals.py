"""The service that members of both releases run: it is loaded from a folder of its own."""

from __future__ import annotations

from typing import Any

from ordo import ClusteredService


class Totals(ClusteredService):
    """Counts requests and adds up their numbers; a query says both."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        if snapshot is not None:
            self.count, self.total = map(int, bytes(snapshot.read()).split())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.count += 1
        self.total += int(payload)
        return self._state()

    def on_query(self, payload: bytes) -> bytes:
        return self._state()

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(self._state())

    def _state(self) -> bytes:
        return b"%d %d" % (self.count, self.total)
