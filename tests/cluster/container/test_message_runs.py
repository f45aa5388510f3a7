"""Messages that a service takes many at a time: everything is as if each had come alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.service_container import ServiceContainer
from ordo.runtime.errors import OrdoError, Reject, ServiceCallError, ServiceError
from ordo.service_api.service import Cluster, ClusteredService, MessageRun
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_requests import Requests

SESSIONS = (1, 2)
CHANNEL = "aeron:udp?endpoint=client:{}"
KINDS = ("offer", "reply", "return", "refuse", "nothing", "timer", "own", "both", "other", "stop", "close")


class Ledger(ClusteredService):
    """Notes all that a message shows, and does what the message says."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.calls = 0

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        cluster = self.cluster
        who = None if session is None else (session.id, session.identity)
        self.seen.append((who, timestamp, payload, header.position, header.leadership_term_id, cluster.time))
        self.seen.append((cluster.log_position,))
        kind = payload.decode().partition(" ")[0]
        if kind == "refuse":
            raise Reject(f"refused: {payload.decode()}")
        if kind == "raise":
            raise ValueError("poison")
        if kind == "timer":
            cluster.schedule_timer(int(payload.split()[1]) % 5, timestamp + 5)
        elif kind == "own" and session is not None:
            self.seen.append((cluster.offer(payload),))
        elif kind == "other":
            for other in cluster.client_sessions:
                self.seen.append((other.offer(payload) > 0,))
        if session is None:
            return None
        if kind in ("offer", "both"):
            session.offer(b"offered " + payload)
        if kind == "reply":
            session.reply(b"replied " + payload)
        if kind == "close":
            session.close()
        return b"returned " + payload if kind in ("return", "both") else None

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.seen.append(("timer", correlation_id, timestamp, self.cluster.log_position))

    def on_session_open(self, session: Any, timestamp: int) -> None:
        self.seen.append(("open", session.id, timestamp))

    def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
        self.seen.append(("close", session.id, close_reason))

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(repr(self.seen).encode())


class LedgerInRuns(Ledger):
    """The same, many at a time; `stop` ends a call before its run is over."""

    def on_session_messages(self, messages: MessageRun) -> None:
        self.calls += 1
        for payload in messages:
            answer = self.on_session_message(messages.session, messages.timestamp, payload, messages.header)
            if answer is not None:
                messages.reply(answer)
            if payload.startswith(b"stop"):
                return


OPERATION = st.one_of(
    st.tuples(st.just("message"), st.sampled_from((*SESSIONS, -1, 77)), st.sampled_from(KINDS)),
    st.tuples(st.just("request"), st.sampled_from(SESSIONS), st.sampled_from(KINDS)),
    st.tuples(st.sampled_from(("again", "timer", "close", "skip", "commit", "time")), st.sampled_from(SESSIONS)),
)


class World:
    """A container and its log, which a list of operations writes."""

    def __init__(self, folder: Path, service: Ledger) -> None:
        self.node = ServiceNode(folder)
        self.node.set_recovery()
        self.node.begin_term(0, leads=True)
        self.requests = {session_id: Requests(self.node) for session_id in SESSIONS}
        for session_id in SESSIONS:
            self.node.open_session(session_id, CHANNEL.format(session_id))
            self.requests[session_id].open(session_id, bytes([session_id]) * 16)
        self.numbers = dict.fromkeys(SESSIONS, 0)
        self.closed: set[int] = set()
        self.container: ServiceContainer = self.node.container(service)
        self.service = service
        self.skips: dict[int, str | None] = {}
        self.commits: list[int] = []

    def write(self, operations: list[tuple[Any, ...]]) -> None:
        node = self.node
        for index, (name, who, *rest) in enumerate(operations):
            payload = f"{rest[0]} {index}".encode() if rest else b"offer"
            if name == "message":
                node.message(who, payload)
            elif name == "request":
                self.numbers[who] += 1
                self.requests[who].send(self.numbers[who], payload, session_id=who)
            elif name == "again" and self.numbers[who]:
                self.requests[who].send(self.numbers[who], b"offer again", session_id=who)
            elif name == "timer":
                node.timer(index % 5)
            elif name == "skip":
                self.skips[node.message(who, payload)] = f"left out: {index}"
            elif name == "close" and who not in self.closed:
                self.closed.add(who)
                node.close_session(who)
            elif name == "time":
                node.time += 7
            elif name == "commit":
                self.commits.append(node.log.position)

    def execute(self) -> list[Any]:
        """All that anybody can see of it."""
        self.container.marks = self.skips or None
        for position in [*self.commits, self.node.log.position]:
            self.node.commit(position)
            self.node.run(self.container)
        return self.outcome()

    def outcome(self) -> list[Any]:
        node, container = self.node, self.container
        sent = [node.client.received(stream) for _, stream in sorted(node.client.egress.items())]
        asked = [(name, str(values)) for name, values in node.asked()]
        counts = container.messages_executed, container.messages_rejected, container.requests_repeated
        places = container.log_position, container.executed_position, node.service_position.value, container.hold
        kept = repr(list(container.requests.snapshot()))
        return [self.service.seen, sent, asked, counts, places, kept, container.state, container.may_call]


@contextmanager
def world_of(service: Ledger) -> Iterator[World]:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), service)
        try:
            yield world
        finally:
            world.node.close()


def outcome_of(make_service: Callable[[], Ledger], operations: list[tuple[Any, ...]], record_limit: int) -> list[Any]:
    with world_of(make_service()) as world:
        world.container.record_limit = record_limit
        world.write(operations)
        return world.execute()


@settings(max_examples=60)
@given(st.lists(OPERATION, max_size=40), st.integers(1, 9))
def test_many_at_a_time_does_what_one_at_a_time_does(operations: list[tuple[Any, ...]], record_limit: int) -> None:
    assert outcome_of(LedgerInRuns, operations, record_limit) == outcome_of(Ledger, operations, record_limit)


def test_messages_that_follow_on_one_another_come_in_one_call() -> None:
    with world_of(LedgerInRuns()) as world:
        world.write([("message", 1, "offer"), ("request", 2, "return"), ("message", -1, "nothing")])
        world.write([("timer", 1), ("message", 1, "offer"), ("message", 2, "offer")])
        world.execute()
        assert world.service.calls == 2
        assert [entry[2] for entry in world.service.seen if len(entry) == 6] == [
            *(b"offer 0", b"return 1", b"nothing 2"),
            *(b"offer 1", b"offer 2"),
        ]


@pytest.mark.parametrize("make_service", [Ledger, LedgerInRuns])
def test_a_failure_belongs_to_the_message_that_was_taken(make_service: Callable[[], Ledger]) -> None:
    with world_of(make_service()) as world:
        world.write([("message", 1, "offer"), ("request", 1, "raise")])
        failed_position = world.node.log.position
        world.write([("message", 1, "offer")])
        world.node.commit()
        with pytest.raises(
            ServiceError, match=f"raised in on_session_messages? at position {failed_position}: ValueErr"
        ):
            world.node.run(world.container)
        assert world.container.state is ContainerState.FAILED
        assert world.container.log_position == failed_position
        assert len([entry for entry in world.service.seen if len(entry) == 6]) == 2
        assert world.container.sessions[1].identity is None


class TakesNothing(Ledger):
    def on_session_messages(self, messages: MessageRun) -> None:
        pass


class ReturnsBytes(Ledger):
    def on_session_messages(self, messages: MessageRun) -> None:
        next(messages)
        return b"answer"  # type: ignore[return-value]


class RefusesAtOnce(Ledger):
    def on_session_messages(self, messages: MessageRun) -> None:
        raise Reject("everything")


class CatchesAll(Ledger):
    def on_session_messages(self, messages: MessageRun) -> None:
        try:
            for _ in messages:
                messages.session.reply(b"1")  # type: ignore[union-attr]
                messages.reply(b"2")
        except OrdoError as error:
            raise ValueError(str(error)) from None


@pytest.mark.parametrize(
    ("make_service", "text"),
    [
        (TakesNothing, "took no message"),
        (ReturnsBytes, "answer with messages.reply"),
        (RefusesAtOnce, "before it took one"),
        (CatchesAll, "answered once"),
    ],
)
def test_misuse_fails_in_one_line(make_service: Callable[[], Ledger], text: str) -> None:
    with world_of(make_service()) as world:
        world.write([("message", 1, "offer"), ("message", 1, "offer")])
        world.node.commit()
        with pytest.raises(ServiceError, match=text):
            world.node.run(world.container)


def test_behind_the_last_message_nothing_may_be_called() -> None:
    errors: list[Exception] = []

    class Late(Ledger):
        def on_session_messages(self, messages: MessageRun) -> None:
            self.kept = messages
            for _ in messages:
                pass
            for call in (lambda: messages.reply(b"late"), lambda: self.cluster.offer(b"late")):
                with pytest.raises(ServiceCallError) as caught:
                    call()
                errors.append(caught.value)

        def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
            self.seen.append((list(self.kept),))

    with world_of(Late()) as world:
        world.write([("message", 1, "offer"), ("message", 1, "offer"), ("close", 1)])
        world.execute()
        assert len(errors) == 2
        assert world.service.seen[-1] == ([],)


def test_a_harness_gives_messages_many_at_a_time_and_alone() -> None:
    inputs: list[Input] = [OpenSession(1, 1), *(Message(1, 2, f"return {index}".encode()) for index in range(5))]
    harness = ServiceHarness(LedgerInRuns).execute(*inputs, Message(1, 3, b"refuse"), Message(1, 4, b"return 9"))
    assert harness.egress(1) == [f"returned return {index}".encode() for index in (0, 1, 2, 3, 4, 9)]
    assert harness.service.calls == 2  # type: ignore[union-attr]
    check_service(LedgerInRuns, [*inputs, Message(1, 5, b"own"), Message(1, 6, b"both")], snapshot_points=0)


def test_a_service_that_counts_calls_is_not_deterministic() -> None:
    class Counts(LedgerInRuns):
        def on_session_messages(self, messages: MessageRun) -> None:
            super().on_session_messages(messages)
            self.seen.append(("a call",))

    inputs: list[Input] = [OpenSession(1, 1), *(Message(1, 2, b"return") for _ in range(5))]
    with pytest.raises(ServiceError, match="different snapshots"):
        check_service(Counts, inputs)
