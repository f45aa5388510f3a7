"""Two machines in one process: the pricer, and one that counts what it quotes.

ordo app --service examples.desk:Desk --group desk --folder desk-1 --endpoints 127.0.0.1:20000,...
"""

import json

from examples.pricer import Pricer
from ordo import ClientSession, Cluster, ClusteredService, Composition, Header, SnapshotReader, SnapshotWriter


class QuoteCounter(ClusteredService):
    """Counts the quotes that stand in the log; the price `count` of a client is answered with how many there are."""

    def __init__(self) -> None:
        self.quotes = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.quotes = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is None and payload.startswith(b"quote "):
            self.quotes += 1
        return b"%d" % self.quotes if session is not None and payload == b"count" else None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.quotes).encode())


class Desk(Composition):
    """Prices first, then counts."""

    machines = (Pricer, QuoteCounter)
