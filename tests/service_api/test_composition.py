"""Several machines in one process, in the order in which they are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from examples.desk import Desk, QuoteCounter
from examples.pricer import Pricer
from ordo.runtime.errors import Reject, ServiceError, SnapshotError
from ordo.service_api.composition import MACHINES_MAX, TIMER_ID_MAX, Composition, MachineCluster
from ordo.service_api.optional_callbacks import overrides
from ordo.service_api.service import ClusteredService, TimeUnit
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from ordo.service_api.snapshot_demand import implements_snapshots
from ordo.service_api.state_hash import hash_state, implements_state_hash
from ordo.service_api.testing.harness import Input
from ordo.testing import AdvanceTime, Message, OpenSession, ServiceHarness, check_service


class Recorder(ClusteredService):
    """Keeps every call; `later` schedules a timer, `refuse` is refused."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster
        self.calls = [] if snapshot is None else json.loads(snapshot.read())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if payload == type(self).__name__.encode() + b" refuses":
            raise Reject("no")
        self.calls.append(["message", payload.decode()])
        if payload == b"later":
            self.cluster.schedule_timer(7, timestamp + 10)
            self.cluster.schedule_timer(-7, timestamp + 20)
        elif payload == b"not later":
            self.cluster.cancel_timer(7)
        return b"answer" if payload.decode() in ("all", type(self).__name__) else None

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.calls.append(["timer", correlation_id, timestamp])

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.calls).encode())


class First(Recorder):
    pass


class Second(Recorder):
    can_fork = False

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        super().on_timer_event(correlation_id, timestamp)
        self.cluster.cancel_timer(-7)

    def on_query(self, payload: bytes) -> bytes:
        return payload + b" answered"


class Both(Composition):
    machines = (First, Second)


class Mute(Composition):
    machines = (QuoteCounter,)


def test_the_example_prices_and_counts() -> None:
    inputs: list[Input] = [OpenSession(1, 1)]
    inputs += [Message(1, 2 + index, one) for index, one in enumerate((b"a 100", b"a 102", b"count", b"b 7", b"count"))]
    harness = check_service(Desk, inputs)
    assert harness.egress(1) == [b"2", b"3"]
    assert implements_snapshots(Desk)


def test_each_machine_has_timers_and_state_of_its_own() -> None:
    inputs: list[Input] = [
        OpenSession(1, 1),
        Message(1, 2, b"later"),
        AdvanceTime(15),
        Message(1, 16, b"x"),
        AdvanceTime(40),
    ]
    service = check_service(Both, inputs).service
    assert isinstance(service, Both)
    first, second = (one.calls for one in service.parts if isinstance(one, Recorder))
    assert first == [["message", "later"], ["timer", 7, 15], ["message", "x"], ["timer", -7, 40]]
    assert second == [["message", "later"], ["timer", 7, 15], ["message", "x"]]
    assert not service.can_fork and service.on_query(b"a query") == b"a query answered"
    assert Desk().on_query(b"") == b"{}", "the answer of the first machine that has one"
    with pytest.raises(NotImplementedError, match="no machine answers"):
        Mute().on_query(b"")


class HashedFirst(First):
    def state_hash(self) -> bytes:
        return json.dumps(self.calls).encode()


class HashedSecond(Second):
    def state_hash(self) -> bytes:
        return json.dumps(self.calls).encode()


class Hashed(Composition):
    machines = (HashedFirst, HashedSecond)


def test_a_composition_converts_times_if_all_its_machines_do() -> None:
    class Keeps(ClusteredService):
        """Has no way to convert times."""

    class Converts(ClusteredService):
        def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
            """It has none."""

    class All(Composition):
        machines = (Converts, Converts)

    class Some(Composition):
        machines = (Converts, Keeps)

    assert [overrides(one, "on_time_unit") for one in (Keeps, Converts, All, Some)] == [False, True, True, False]


def test_a_composition_has_a_hash_where_all_machines_have_one() -> None:
    class Half(Composition):
        machines = (HashedFirst, Second)

    class Own(Half):
        def state_hash(self) -> bytes:
            return b"own"

    class Made(Composition):
        machines = (HashedFirst, lambda: HashedSecond())

    assert [implements_state_hash(one) for one in (Hashed, Both, Half, Own, Made)] == [True, False, False, True, False]
    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, b"later"), AdvanceTime(40)]
    harness = check_service(Hashed, inputs)
    found = harness.state_hash()
    assert found is not None and len(found) == 32
    service = harness.service
    assert isinstance(service, Hashed)
    service.parts.reverse()
    service._names.reverse()
    assert hash_state(service) != found, "whose state it is counts"
    service.parts[0].state_hash = lambda: b""  # type: ignore[method-assign]
    with pytest.raises(ServiceError, match="state_hash must return bytes"):
        hash_state(service)


def test_one_answers_and_the_first_alone_refuses() -> None:
    harness = ServiceHarness(Both)
    harness.execute(OpenSession(1, 1), *(Message(1, 2, one) for one in (b"First", b"Second", b"First refuses")))
    assert harness.egress(1) == [b"answer", b"answer"]
    service = harness.service
    assert isinstance(service, Both) and service.parts[1].calls == [["message", "First"], ["message", "Second"]]  # type: ignore[attr-defined]
    with pytest.raises(ServiceError, match="Second refuses a message that First took: no"):
        harness.execute(Message(1, 3, b"Second refuses"))
    with pytest.raises(ServiceError, match="Second answers a message that has an answer already"):
        ServiceHarness(Both).execute(OpenSession(1, 1), Message(1, 2, b"all"))


def snapshot(service: ClusteredService) -> SnapshotReader:
    messages: list[bytes] = []
    writer = SnapshotWriter(messages.append, 1000)
    service.on_take_snapshot(writer)
    writer.close()
    return SnapshotReader(messages)


def test_a_machine_that_is_new_starts_without_state_and_one_that_is_gone_is_told() -> None:
    class Added(Recorder):
        def on_start(self, cluster: Any, snapshot: Any) -> None:
            self.started_with = snapshot

    class More(Composition):
        machines = (First, Second, Added)

    class Fewer(Composition):
        machines = (Second,)

    service = Both()
    for one in service.parts:
        one.calls = [["x" * 5000]]  # type: ignore[attr-defined]
    cluster: Any = object()
    more = More()
    more.on_start(cluster, snapshot(service))
    assert [one.calls for one in more.parts[:2]] == [[["x" * 5000]]] * 2  # type: ignore[attr-defined]
    assert more.parts[2].started_with is None  # type: ignore[attr-defined]
    with pytest.raises(SnapshotError, match="has the state of 'First' where Fewer expects one of Second"):
        Fewer().on_start(cluster, snapshot(service))


def test_state_that_a_machine_does_not_read_is_passed_over() -> None:
    class Careless(Recorder):
        def on_start(self, cluster: Any, snapshot: Any) -> None:
            self.begin = snapshot.read(2)

    class Mixed(Composition):
        machines = (Careless, Second)

    service = Mixed()
    service.parts[0].calls = service.parts[1].calls = [["y" * 5000]]  # type: ignore[attr-defined]
    restored = Mixed()
    cluster: Any = object()
    restored.on_start(cluster, snapshot(service))
    assert (restored.parts[0].begin, restored.parts[1].calls) == (b"[[", [["y" * 5000]])  # type: ignore[attr-defined]


def test_what_is_no_composition_is_refused() -> None:
    class Empty(Composition):
        pass

    class Twice(Composition):
        machines = (Pricer, QuoteCounter, Pricer)

    class Runs(ClusteredService):
        def on_session_messages(self, messages: Any) -> None: ...

    class Quick(Composition):
        machines = (Pricer, Runs)

    for wrong, text in (
        (Empty, "has none: give 1 to 256"),
        (Twice, "each class once"),
        (Quick, "Runs must be a plain"),
    ):
        with pytest.raises(ServiceError, match=text):
            wrong()
    cluster: Any = ServiceHarness(Desk)
    with pytest.raises(ServiceError, match=f"correlation_id={TIMER_ID_MAX + 1}"):
        MachineCluster(cluster, 0).schedule_timer(TIMER_ID_MAX + 1, 0)
    assert (TIMER_ID_MAX + 1) * MACHINES_MAX == 1 << 63
