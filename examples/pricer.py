"""An application: quotes prices that it is told, whenever they have moved by a hundredth. It runs outside the cluster.

ordo app --service examples.pricer:Pricer --group pricing --folder pricing-1 --endpoints 127.0.0.1:20000,...
"""

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter


class Pricer(ClusteredService):
    """A message is `symbol price`, the price a whole number; whatever else is in the log is passed over."""

    def __init__(self) -> None:
        self.quotes: dict[str, int] = {}

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.quotes = json.loads(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        symbol, _, price = payload.decode(errors="replace").partition(" ")
        if session is None or not price.isdecimal() or len(price) > 15:
            return None
        last = self.quotes.get(symbol, 0)
        if abs(int(price) - last) * 100 >= last:
            self.quotes[symbol] = int(price)
            self.cluster.offer(f"quote {symbol} {price}".encode())
        return None

    def on_query(self, payload: bytes) -> bytes:
        return json.dumps(self.quotes, sort_keys=True).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.quotes, sort_keys=True).encode())
