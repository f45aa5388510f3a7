"""The harness must see what it is there to see: it is tested with services that are wrong on purpose."""

import itertools
import json

import pytest

from ordo.runtime.errors import ServiceCallError, ServiceError, SnapshotError
from ordo.service_api.native import Header
from ordo.service_api.service import (
    ClientSession,
    CloseReason,
    Cluster,
    ClusteredService,
    MessageRun,
    OfferResult,
    Role,
)
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.testing.harness import (
    AdvanceTime,
    CloseSession,
    Effect,
    Input,
    Message,
    OpenSession,
    Query,
    ServiceHarness,
    TakeSnapshot,
    check_service,
)


class Ledger(ClusteredService):
    """Sums what each client sends; `tick` asks for a timer, `post` for a message of its own."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.sums = {} if snapshot is None else {int(k): v for k, v in json.loads(snapshot.read()).items()}

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        if session is None:
            self.sums[0] = self.sums.get(0, 0) + int(payload)
        elif payload == b"tick":
            self.cluster.schedule_timer(session.id, timestamp + 100)
        elif payload == b"post":
            self.cluster.offer(b"7")
        elif payload == b"bye":
            session.close()
        else:
            self.sums[session.id] = self.sums.get(session.id, 0) + int(payload)
            session.offer(f"{self.sums[session.id]}@{header.position}".encode())

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        for session in self.cluster.client_sessions:
            session.offer(b"timer %d" % correlation_id)

    def on_query(self, payload: bytes) -> bytes:
        return str(self.sums.get(int(payload), 0)).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.sums).encode())


INPUTS: list[Input] = [
    OpenSession(1, 10),
    OpenSession(2, 11),
    Message(1, 12, b"5"),
    Message(2, 13, b"tick"),
    Message(1, 14, b"post"),
    TakeSnapshot(15),
    Message(1, 16, b"6"),
    AdvanceTime(120),
    Message(2, 121, b"bye"),
    CloseSession(2, 122),
    Message(1, 123, b"1"),
]


def test_a_right_service_passes_and_its_effects_are_known() -> None:
    harness = check_service(Ledger, INPUTS)
    assert [message.split(b"@")[0] for message in harness.egress(1)] == [b"5", b"11", b"timer 2", b"12"]
    assert harness.egress(2) == [b"timer 2"]
    assert Effect("schedule", 2, 113) in harness.effects
    assert Effect("close", 2, 0) in harness.effects
    assert json.loads(b"".join(harness.take_snapshot().messages)) == {"1": 12, "0": 7}
    assert len(harness.snapshots) == 1


def test_a_follower_sends_nothing() -> None:
    harness = ServiceHarness(Ledger, role=Role.FOLLOWER).execute(*INPUTS)
    assert harness.egress(1) == []
    assert [s.id for s in harness.client_sessions] == [1]


def test_a_random_answer_is_found() -> None:
    numbers = itertools.count()

    class Random(Ledger):
        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            assert session is not None
            session.offer(b"%d" % next(numbers))

    with pytest.raises(ServiceError, match="second run of the same inputs differs at effect 0"):
        check_service(Random, [OpenSession(1, 1), Message(1, 2, b"1")])


def test_state_missing_from_the_snapshot_is_found() -> None:
    class Forgetful(Ledger):
        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            writer.write(b"{}")

    with pytest.raises(SnapshotError, match="restored from its snapshot after input"):
        check_service(Forgetful, INPUTS)


def test_hidden_state_that_no_effect_shows_is_found_by_the_snapshot() -> None:
    class Sloppy(Ledger):
        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            super().on_start(cluster, None if snapshot is None else snapshot)
            self.seen = 0

        def on_session_open(self, session: ClientSession, timestamp: int) -> None:
            self.seen += 1

        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            writer.write(json.dumps({**self.sums, 99: self.seen}).encode())

    with pytest.raises(SnapshotError):
        check_service(Sloppy, INPUTS)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_snapshot_that_changes_the_state_is_found(is_answered: bool) -> None:
    class Counting(Ledger):
        """Counts its snapshots, as if that were part of its state, and tells clients of it or not."""

        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            super().on_session_message(session, timestamp, payload, header)
            if is_answered and session is not None:
                session.offer(b"%d" % self.sums.get(98, 0))

        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            super().on_take_snapshot(writer)
            self.sums[98] = self.sums.get(98, 0) + 1

    inputs = [one for one in INPUTS if not isinstance(one, TakeSnapshot)]
    what = "differs at effect" if is_answered else "on_take_snapshot may not change the state"
    with pytest.raises(SnapshotError, match=f"took a snapshot after input .* {what}"):
        check_service(Counting, inputs)


def test_a_hash_of_what_is_not_in_the_snapshot_is_found() -> None:
    class Hashed(Ledger):
        """Its hash also covers how often it was started, which members do not have alike."""

        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            super().on_start(cluster, snapshot)
            self.starts = 1 if snapshot is None else 2

        def state_hash(self) -> bytes:
            return json.dumps([sorted(self.sums.items()), self.starts]).encode()

    with pytest.raises(SnapshotError, match="ends with another state_hash; it may depend on nothing but the state"):
        check_service(Hashed, INPUTS)


def test_a_hash_that_differs_between_runs_changes_the_state_or_is_none_is_found() -> None:
    numbers = itertools.count(1)

    class Random(Ledger):
        def state_hash(self) -> bytes:
            return b"%d" % next(numbers)

    class Changing(Ledger):
        def state_hash(self) -> bytes:
            self.sums[97] = self.sums.get(97, 0) + 1
            return b"1"

    class Empty(Ledger):
        def state_hash(self) -> bytes:
            return b""

    for service, what in ((Random, "different hashes"), (Changing, "changed the state"), (Empty, "must return bytes")):
        with pytest.raises(ServiceError, match=what):
            check_service(service, INPUTS)


@pytest.mark.parametrize("callback", ["on_start", "on_take_snapshot"])
def test_calls_from_where_they_are_not_allowed_are_refused(callback: str) -> None:
    class Eager(Ledger):
        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            self.cluster = cluster
            if callback == "on_start":
                cluster.schedule_timer(1, 2)

        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            self.cluster.offer(b"x")

    with pytest.raises(ServiceCallError, match=f"not allowed from {callback}"):
        ServiceHarness(Eager).take_snapshot()


def test_results_of_offers() -> None:
    class Asker(ClusteredService):
        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            self.results: list[int] = []

        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            assert session is not None
            self.results.append(session.offer(payload))

        def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
            self.results.append(session.offer(b"late"))

    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, b"x"), CloseSession(1, 3)]
    for role, expected in (
        (Role.LEADER, [160, OfferResult.CLOSED]),
        (Role.FOLLOWER, [OfferResult.MOCKED, OfferResult.CLOSED]),
    ):
        service = ServiceHarness(Asker, role=role).execute(*inputs).service
        assert isinstance(service, Asker)
        assert service.results == expected


def test_a_service_must_handle_messages() -> None:
    with pytest.raises(ServiceError, match="ClusteredService has no on_session_message: it would take no message"):
        ServiceHarness(ClusteredService)


def test_a_misspelt_callback_is_found_as_a_node_finds_it() -> None:
    class Forgetful(Ledger):
        def on_session_closed(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
            self.sums.pop(session.id, None)

    with pytest.raises(
        ServiceError, match=r"Forgetful\.on_session_closed is no callback of a service: is on_session_close meant\?"
    ):
        check_service(Forgetful, INPUTS)


@pytest.mark.parametrize("made", [None, Ledger, object()])
def test_what_is_no_service_is_refused_in_a_line(made: object) -> None:
    with pytest.raises(ServiceError, match=r"^.* is no service: give a class derived from ClusteredService$"):
        ServiceHarness(lambda: made)  # type: ignore[arg-type, return-value]


def test_queries_are_answered_between_records_and_leave_no_trace() -> None:
    harness = check_service(Ledger, [*INPUTS[:3], Query(b"1"), *INPUTS[3:], Query(b"1")])
    assert [effect for effect in harness.effects if effect.kind == "answer"] == [
        Effect("answer", 0, b"5"),
        Effect("answer", 0, b"12"),
    ]
    without = check_service(Ledger, INPUTS)
    assert harness.log_position == without.log_position
    assert harness.query(b"1") == b"12"


def test_a_query_that_changes_the_state_is_found() -> None:
    class Miscounting(Ledger):
        def on_query(self, payload: bytes) -> bytes:
            self.sums[99] = 1
            return b""

    with pytest.raises(ServiceError, match="on_query changed the state of the service: payload=b'x'"):
        ServiceHarness(Miscounting).query(b"x")


def test_a_query_may_not_act_and_must_answer_bytes() -> None:
    class Acting(Ledger):
        def on_query(self, payload: bytes) -> bytes:
            if payload == b"text":
                return "text"  # type: ignore[return-value]
            self.cluster.schedule_timer(1, 1)
            return b""

    harness = ServiceHarness(Acting)
    with pytest.raises(ServiceCallError, match="schedule_timer is not allowed from on_query"):
        harness.query(b"")
    with pytest.raises(ServiceError, match="on_query must return bytes, returned str"):
        harness.query(b"text")


def test_a_service_without_queries_says_so() -> None:
    class Silent(ClusteredService):
        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            pass

    with pytest.raises(NotImplementedError, match="the service answers no queries"):
        ServiceHarness(Silent).query(b"")


class Numbering(ClusteredService):
    """Answers with the number of the message."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        return b"%d" % header.sequence

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...


def test_messages_are_numbered_and_a_snapshot_goes_on_with_the_next() -> None:
    harness = ServiceHarness(Numbering).execute(
        OpenSession(1, 1), Message(1, 2, b"a"), AdvanceTime(3), Message(1, 4, b"b")
    )
    assert harness.egress(1) == [b"1", b"2"]
    restored = ServiceHarness(Numbering, snapshot=harness.take_snapshot()).execute(Message(1, 5, b"c"))
    assert restored.egress(1) == [b"3"]


class Arriving(ClusteredService):
    """Answers with when the message arrived."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        return str(header.arrival_ns).encode()

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...


class ArrivingInRuns(Arriving):
    """The same of many messages at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for _ in messages:
            messages.reply(str(messages.header.arrival_ns).encode())


@pytest.mark.parametrize("service", [Arriving, ArrivingInRuns])
def test_a_message_tells_its_arrival_as_one_of_a_log_does(service: type[ClusteredService]) -> None:
    """The next one has none again, as where a leader in between did not write it."""
    arrivals = [1_700_000_000_123_456_789, None, 7, 0, -1]
    messages = [Message(1, 2, b"a", arrival_ns=one) for one in arrivals]
    harness = check_service(service, [OpenSession(1, 1), *messages, Message(1, 3, b"b")])
    assert harness.egress(1) == [b"1700000000123456789", b"None", b"7", b"None", b"None", b"None"]
