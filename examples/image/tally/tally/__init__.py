"""A service in a package of its own: it counts what it is sent."""

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter


class Tally(ClusteredService):
    """Answers every message with how many there were."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.count = int(snapshot.read()) if snapshot else 0

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.count += 1
        return str(self.count).encode()

    def on_query(self, payload: bytes) -> bytes:
        return str(self.count).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(str(self.count).encode())
