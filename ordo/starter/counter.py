"""A service to begin with: it adds up the numbers that clients send."""

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter


class Counter(ClusteredService):
    """Every member executes the same messages in the same order, so every member has the same total."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.total = int(snapshot.read()) if snapshot else 0

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        try:
            answer = str(self.total + int(payload)).encode()
        except ValueError:
            raise Reject("not a number") from None  # the client gets the text; nothing has changed
        self.total = int(answer)
        return answer

    def on_query(self, payload: bytes) -> bytes:
        return str(self.total).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(str(self.total).encode())
