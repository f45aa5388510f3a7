"""The smallest service with a state: adds up what it is sent, and returns the total.

ordo node --config node.toml --service examples.counter:Counter
"""

from ordo import ClientSession, Cluster, ClusteredService, Header, Reject, SnapshotReader, SnapshotWriter


class Counter(ClusteredService):
    """A message is a decimal number, answered with the sum of all so far; anything else is rejected.

    Any query is answered with the sum."""

    def __init__(self) -> None:
        self.total = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        if snapshot is not None:
            self.total = int(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if session is None:
            return None
        try:
            answer = str(self.total + int(payload)).encode()
        except ValueError:
            raise Reject("not a number") from None
        self.total = int(answer)
        return answer

    def on_query(self, payload: bytes) -> bytes:
        return str(self.total).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(str(self.total).encode())
