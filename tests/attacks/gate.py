"""A service that says who is asking, and an authenticator with a password and a challenge."""

from __future__ import annotations

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter
from ordo.runtime.security.authentication import SessionProxy

PASSWORD, CHALLENGE, ANSWER = b"open sesame", b"what is the number?", b"forty-two"


class Whoami(ClusteredService):
    """Answers each message with the principal of its session, and a query with the number of messages."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.count = 0 if snapshot is None else int(snapshot.read())

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        self.count += 1
        return b"" if session is None else session.encoded_principal

    def on_query(self, payload: bytes) -> bytes:
        return b"%d" % self.count

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"%d" % self.count)


class Gate:
    """Who has the password is challenged, and who knows the answer is let in."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.answered: set[int] = set()

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        if encoded_credentials == PASSWORD:
            self.known.add(session_id)

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        if encoded_credentials == ANSWER:
            self.answered.add(session_id)
        else:
            self.known.discard(session_id)

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        if proxy.session_id in self.known:
            proxy.challenge(CHALLENGE)
        else:
            proxy.reject()

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        if proxy.session_id in self.answered:
            proxy.authenticate(b"guest")
        elif proxy.session_id not in self.known:
            proxy.reject()
