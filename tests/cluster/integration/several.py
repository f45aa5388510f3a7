"""Services of one node: one that answers, and one that watches, and says what it saw by itself."""

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


class Picky(Watching):
    """Raises at one message."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if payload == b"poison":
            raise ValueError("cannot be read")
        return super().on_session_message(session, timestamp, payload, header)


class TallyV1(ClusteredService):
    """Counts requests that are numbered from 1 on, and those that do not follow on the one before."""

    name, version = b"?", b"1"

    def __init__(self) -> None:
        self.count = 0
        self.gaps = 0

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        if snapshot is not None:
            self.load([int(one) for one in snapshot.read().split()])

    def load(self, state: list[int]) -> None:
        self.count, self.gaps = state

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        self.count += 1
        self.gaps += int(payload) != self.count
        return self.describe()

    def describe(self) -> bytes:
        return b" ".join((self.name, self.version, self.encode()))

    def on_query(self, payload: bytes) -> bytes:
        return self.describe()

    def encode(self) -> bytes:
        return b"%d %d" % (self.count, self.gaps)

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(self.encode())


class TallyV2(TallyV1):
    """Keeps how many requests version 1 had executed."""

    version = b"2"

    def __init__(self) -> None:
        super().__init__()
        self.taken_over = 0

    def load(self, state: list[int]) -> None:
        """Two numbers are what version 1 wrote."""
        super().load(state[:2])
        self.taken_over = state[2] if len(state) > 2 else self.count

    def encode(self) -> bytes:
        return b"%s %d" % (super().encode(), self.taken_over)


class AnsweringV1(TallyV1):
    """Service 0."""

    name = b"answering"


class AnsweringV2(AnsweringV1, TallyV2):
    """Service 0."""


class WatchingV1(TallyV1):
    """Service 1."""

    name = b"watching"

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        session.offer(super().on_session_message(session, timestamp, payload, header))
        return b""


class WatchingV2(WatchingV1, TallyV2):
    """Service 1."""


class AnsweringV3(AnsweringV2):
    """Service 0."""

    version = b"3"


class WatchingV3(WatchingV2):
    """Cannot read what version 2 wrote."""

    def load(self, state: list[int]) -> None:
        raise ValueError("of another version")
