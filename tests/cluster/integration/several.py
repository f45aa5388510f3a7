"""Two services of one node: one that answers, and one that watches, and says what it saw by itself."""

from __future__ import annotations

from typing import Any

from ordo import ClusteredService

TIMER_ID = 7
"""Of both: each service has timers of its own."""
DELAY_MS = 50


class Counting(ClusteredService):
    """Counts what clients send, what services send, and its timers."""

    name = b"?"

    def __init__(self) -> None:
        self.counts = [0, 0, 0]
        self.cluster: Any = None

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.counts = [int(one) for one in snapshot.read().split()]

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if session is None:
            self.counts[1] += 1
            return None
        self.counts[0] += 1
        self.cluster.schedule_timer(TIMER_ID, timestamp + DELAY_MS)
        return self.describe()

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.counts[2] += 1
        self.cluster.offer(self.name)

    def describe(self) -> bytes:
        return self.name + b" " + b" ".join(b"%d" % one for one in self.counts)

    def on_query(self, payload: bytes) -> bytes:
        return self.describe()

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(b" ".join(b"%d" % one for one in self.counts))


class Answering(Counting):
    """Service 0."""

    name = b"answering"


class Watching(Counting):
    """Service 1: what it returns nobody hears, what it offers the client does."""

    name = b"watching"

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        answer = super().on_session_message(session, timestamp, payload, header)
        if session is not None:
            session.offer(self.describe())
        return answer


class Failing(Counting):
    """Raises at what clients send."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        raise ValueError("cannot be read")


class Picky(Counting):
    """Raises at one message."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if payload == b"poison":
            raise ValueError("cannot be read")
        return super().on_session_message(session, timestamp, payload, header)
