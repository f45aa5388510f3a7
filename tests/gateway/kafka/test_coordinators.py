"""Which door coordinates a group: leases in cluster time, epochs, and doors that speak too late, in random orders."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from ordo import Topics
from ordo.gateway.kafka.service import coordinators
from ordo.gateway.kafka.service.coordinators import Coordinators, Door
from ordo.gateway.kafka.service.orders import KafkaError, OrderAnswer, OrderKind, decode_answer, encode_order
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service

LEASE_MS = 10_000
CREATE = encode_order(OrderKind.CREATE, topic="orders")


class Cluster:
    """A service whose doors give orders one after the other; `now` is cluster time."""

    def __init__(self, time_unit: TimeUnit = TimeUnit.MILLIS) -> None:
        self.harness = ServiceHarness(Topics, time_unit=time_unit).execute(OpenSession(1, 1))
        self.now = 1_000
        self.ask(CREATE)

    def ask(self, order: bytes) -> OrderAnswer:
        self.harness.execute(Message(1, self.now, order))
        return decode_answer(self.harness.egress(1)[-1])

    def order(self, kind: OrderKind, **fields: object) -> tuple[int, int]:
        return self.ask(encode_order(kind, **fields))

    def register(self, name: str, process: str = "one", network: str = "plain") -> int:
        answer = self.order(
            OrderKind.REGISTER, address=f"{name}:9092", process=process, network=network, lease_ms=LEASE_MS
        )
        assert answer[0] == KafkaError.NONE
        return answer[1]

    def coordinate(self, lease: int, group: str = "g") -> tuple[int, int]:
        return self.order(OrderKind.COORDINATE, lease=lease, group=group)

    def renew(self, lease: int, *released: tuple[str, int]) -> tuple[int, int]:
        return self.order(OrderKind.RENEW, lease=lease, released=released)

    def commit(self, number: int, group: str = "g", **epoch: int) -> int:
        return self.order(OrderKind.COMMIT, group=group, offsets=[["orders", number, ""]], **epoch)[0]

    def ask_for(self, kind: OrderKind, **fields: object) -> Any:
        return json.loads(self.harness.query(encode_order(kind, **fields)))

    def committed(self, group: str = "g") -> int:
        return int(self.ask_for(OrderKind.OFFSETS, group=group)["orders"][0])


NOT = KafkaError.NOT_COORDINATOR


def test_the_first_door_that_needs_a_group_has_it_and_others_are_told_who() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    error, epoch = cluster.coordinate(second)
    assert error == KafkaError.NONE and epoch > second
    assert cluster.coordinate(first) == (NOT, 1)
    assert cluster.renew(first) == (0, 0) and cluster.renew(second) == (0, 1)
    assert cluster.ask_for(OrderKind.DOORS) == [
        [0, "a:9092", "one", "plain", True],
        [1, "b:9092", "one", "plain", True],
    ]
    assert cluster.ask_for(OrderKind.COORDINATORS) == {"g": 1}
    assert cluster.commit(7, epoch=epoch) == 0 and cluster.committed() == 7


def test_a_door_that_lost_its_group_cannot_commit() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    _, old = cluster.coordinate(first)
    cluster.coordinate(first, "h")
    assert cluster.commit(7, epoch=old) == 0
    cluster.now += LEASE_MS - 1
    cluster.renew(second)
    assert cluster.coordinate(second) == (NOT, 0), "the lease has a millisecond left"
    cluster.now += 1
    error, new = cluster.coordinate(second)
    assert error == 0 and new > old
    assert cluster.commit(3, epoch=old) == NOT and cluster.committed() == 7
    assert cluster.order(OrderKind.DELETE_GROUP, group="g", epoch=old) == (NOT, -1)
    assert cluster.renew(first) == (NOT, -1), "with one group the lease is gone"
    assert cluster.commit(1, "h", epoch=old + 1) == NOT
    assert cluster.commit(8, epoch=new) == 0 and cluster.committed() == 8


def test_a_lease_that_has_lapsed_goes_on_if_nobody_needed_its_groups() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    _, epoch = cluster.coordinate(first)
    cluster.now += 5 * LEASE_MS
    cluster.ask(CREATE)
    assert [one[-1] for one in cluster.ask_for(OrderKind.DOORS)] == [False, False]
    assert cluster.coordinate(second) == (NOT, -1), "a door without a live lease takes nothing"
    assert cluster.renew(first) == (0, 0) and cluster.commit(7, epoch=epoch) == 0
    assert cluster.renew(second) == (0, 1) and cluster.coordinate(second) == (NOT, 0)


def test_a_lease_is_as_long_in_any_unit_of_cluster_time() -> None:
    cluster = Cluster(TimeUnit.NANOS)
    first, second = cluster.register("a"), cluster.register("b")
    cluster.coordinate(first)
    cluster.now += LEASE_MS * 1_000_000 - 1
    cluster.renew(second)
    assert cluster.coordinate(second) == (NOT, 0)
    cluster.now += 1
    assert cluster.coordinate(second)[0] == 0


def test_a_node_id_stays_with_its_address_and_another_process_there_begins_anew() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    _, old = cluster.coordinate(second)
    assert cluster.register("b") == second, "the same process asks again"
    third = cluster.register("b", process="two")
    assert cluster.renew(second) == (NOT, -1) and cluster.renew(third) == (0, 1)
    assert cluster.commit(7, epoch=old) == NOT
    assert cluster.coordinate(first)[0] == 0


def test_a_door_that_leaves_gives_its_groups_to_others_at_once() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    _, old = cluster.coordinate(first)
    assert cluster.order(OrderKind.LEAVE, lease=first) == (0, 0)
    assert cluster.order(OrderKind.LEAVE, lease=first) == (NOT, -1)
    error, new = cluster.coordinate(second)
    assert error == 0 and new > old and cluster.commit(7, epoch=old) == NOT


def test_a_group_that_is_let_go_is_free_and_one_that_was_taken_again_is_not() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    _, old = cluster.coordinate(first)
    _, new = cluster.coordinate(first)
    assert new > old and cluster.commit(7, epoch=old) == NOT
    cluster.renew(first, ("g", old))
    assert cluster.coordinate(second) == (NOT, 0)
    cluster.renew(first, ("g", new))
    assert cluster.coordinate(second)[0] == 0


def test_doors_of_another_network_have_groups_of_their_own() -> None:
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b", network="tls")
    assert cluster.coordinate(first)[0] == 0
    assert cluster.coordinate(second) == (KafkaError.COORDINATOR_NOT_AVAILABLE, -1)
    assert cluster.coordinate(second, "h")[0] == 0


def test_doors_with_one_address_in_two_networks_are_two_doors() -> None:
    cluster = Cluster()
    first, second = cluster.register("127.0.0.1", network="m"), cluster.register("127.0.0.1", "two", network="n")
    cluster.harness = ServiceHarness(Topics, snapshot=cluster.harness.take_snapshot()).execute(OpenSession(1, 1))
    assert cluster.renew(first) == (0, 0) and cluster.renew(second) == (0, 1)
    assert cluster.register("127.0.0.1", network="m") == first


def test_a_door_of_an_older_release_commits_only_where_no_other_door_has_the_group() -> None:
    cluster = Cluster()
    assert cluster.commit(1) == 0
    first = cluster.register("a")
    _, epoch = cluster.coordinate(first)
    assert cluster.commit(2) == NOT and cluster.order(OrderKind.DELETE_GROUP, group="g") == (NOT, -1)
    assert cluster.commit(2, "h") == 0
    cluster.now += LEASE_MS
    assert cluster.commit(3) == 0, "the other one is gone"
    assert cluster.commit(2, epoch=epoch) == NOT and cluster.committed() == 3


def test_doors_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "DOORS_MAX", 2)
    monkeypatch.setattr(coordinators, "CLAIMS_MAX", 2)
    cluster = Cluster()
    first, second = cluster.register("a"), cluster.register("b")
    full = (KafkaError.POLICY_VIOLATION, -1)
    fields = {"address": "c:1", "process": "p", "network": "plain", "lease_ms": LEASE_MS}
    assert cluster.order(OrderKind.REGISTER, **fields) == full
    assert cluster.coordinate(first, "g")[0] == cluster.coordinate(first, "h")[0] == 0
    assert cluster.coordinate(second, "i") == full and cluster.coordinate(first, "g")[0] == 0
    cluster.now += LEASE_MS
    cluster.renew(second)
    assert cluster.coordinate(second, "i")[0] == 0, "those of a door that is gone make room"
    error, _ = cluster.order(OrderKind.REGISTER, **fields)
    assert error == 0 and [one[0] for one in cluster.ask_for(OrderKind.DOORS)] == [1, 0]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (OrderKind.REGISTER, {"address": "a:1", "process": "p", "network": "n", "lease_ms": 999}),
        (OrderKind.REGISTER, {"address": "a:1", "process": "p", "network": "n", "lease_ms": 60_001}),
        (OrderKind.REGISTER, {"address": "a", "process": "p", "network": "n", "lease_ms": LEASE_MS}),
        (OrderKind.REGISTER, {"address": "a:65536", "process": "p", "network": "n", "lease_ms": LEASE_MS}),
        (OrderKind.REGISTER, {"address": "a:0", "process": "p", "network": "n", "lease_ms": LEASE_MS}),
        (OrderKind.REGISTER, {"address": "a\n:1", "process": "p", "network": "n", "lease_ms": LEASE_MS}),
        (OrderKind.REGISTER, {"address": "a:1", "process": "p", "network": "", "lease_ms": LEASE_MS}),
        (OrderKind.REGISTER, {"address": "a:1", "process": "p" * 65, "network": "n", "lease_ms": LEASE_MS}),
        (OrderKind.RENEW, {"lease": 1}),
        (OrderKind.RENEW, {"lease": 1, "released": [["g"]]}),
        (OrderKind.LEAVE, {"lease": "1"}),
        (OrderKind.COORDINATE, {"lease": 1, "group": 7}),
        (OrderKind.COMMIT, {"group": "g", "offsets": [["orders", 1, ""]], "epoch": "1"}),
        (OrderKind.DELETE_GROUP, {"group": "g", "epoch": 1.5}),
        (OrderKind.DOORS, {}),
    ],
)
def test_an_order_of_a_door_that_is_none_is_refused_and_changes_nothing(kind: OrderKind, fields: Any) -> None:
    cluster = Cluster()
    cluster.register("a")
    before = cluster.harness.take_snapshot().messages
    cluster.harness.execute(Message(1, cluster.now, encode_order(kind, **fields)))
    assert cluster.harness.effects[-1].kind == "reject"
    assert cluster.harness.take_snapshot().messages == before


def test_a_snapshot_of_before_there_were_doors_is_read() -> None:
    old = [["next", 3], ["topic", "orders", 4], ["group", "g"], ["offset", "g", "orders", 2, "m"], ["end"]]
    messages = tuple(json.dumps(one, separators=(",", ":")).encode() for one in old)
    snapshot = ServiceHarness(Topics).take_snapshot()._replace(messages=messages, sequences=(("orders", 4),))
    harness = ServiceHarness(Topics, snapshot=snapshot).execute(OpenSession(1, 1))
    assert json.loads(harness.query(encode_order(OrderKind.OFFSETS, group="g"))) == {"orders": [2, "m"]}
    assert json.loads(harness.query(encode_order(OrderKind.DOORS))) == []


def test_members_of_before_there_were_doors_take_the_same_snapshot_until_the_first_door_comes() -> None:
    cluster = Cluster()
    assert cluster.commit(7) == 0 and cluster.renew(1) == (NOT, -1) and cluster.coordinate(1) == (NOT, -1)
    kinds = [json.loads(one)[0] for one in cluster.harness.take_snapshot().messages]
    assert kinds == ["next", "topic", "group", "offset", "end"]
    cluster.register("a")
    assert b'["epoch",2]' in cluster.harness.take_snapshot().messages


# Random orders: doors stand still, come back, are replaced; what they sent arrives late


class Story:
    """What three doors ask in random order, and what a plain list of grants says that must become of it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.cluster = Cluster()
        self._leases: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        """When the cluster heard of each door last, which has a lease since."""
        self._epochs: dict[tuple[str, str], int] = {}
        """What each door believes to have of each group: also long after it has lost it."""
        self._granted: dict[str, tuple[str, int]] = {}
        self.refused = 0

    def run(self, steps: int = 150) -> Story:
        for _ in range(steps):
            self.cluster.now += self._random.choice((1, 500, 3_000, LEASE_MS))
            name, group = self._random.choice("abc"), self._random.choice("gh")
            steps_of_a_door = (self._register, self._renew, self._coordinate, self._commit, self._commit)
            self._random.choice(steps_of_a_door)(name, group)
        return self

    def _register(self, name: str, _: str) -> None:
        is_new = self._random.random() < 0.5
        self._processes[name] = self._processes.get(name, 0) + is_new
        lease = self.cluster.register(name, f"p{self._processes[name]}")
        assert not is_new or lease > self._leases.get(name, 0), "each process has a lease of its own"
        self._leases[name] = lease
        self._heard[name] = self.cluster.now

    def _renew(self, name: str, _: str) -> None:
        if name in self._leases and self.cluster.renew(self._leases[name])[0] == 0:
            self._heard[name] = self.cluster.now

    def _coordinate(self, name: str, group: str) -> None:
        error, number = self.cluster.coordinate(self._leases.get(name, -1), group)
        if error:
            return
        holder, epoch = self._granted.get(group, ("", 0))
        assert number > epoch, "epochs rise"
        assert self.cluster.now - self._heard[name] < LEASE_MS, "who has no lease gets no group"
        if holder not in ("", name) and self._epochs.get((holder, group)) == epoch:
            is_over = self.cluster.now - self._heard[holder] >= LEASE_MS
            assert is_over or self.is_replaced(holder, epoch), "a group was taken from a door with a lease"
        self._granted[group], self._epochs[name, group] = (name, number), number

    def is_replaced(self, name: str, epoch: int) -> bool:
        return self._leases[name] > epoch

    def _commit(self, name: str, group: str) -> None:
        epoch = self._epochs.get((name, group))
        if epoch is None:
            return
        if self.cluster.commit(epoch, group, epoch=epoch):
            self.refused += 1
            return
        assert self._granted[group] == (name, epoch), "a door committed for a group that another one has"
        assert not self.is_replaced(name, epoch), "a process that was replaced committed"


def fails(seed: int) -> bool:
    try:
        Story(seed).run()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_in_whatever_order_doors_speak_one_door_commits_for_a_group(seed: int) -> None:
    assert Story(seed).run().refused > 0


def test_a_story_is_the_same_after_any_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Input] = []
    execute = ServiceHarness.execute

    def note(self: ServiceHarness, *inputs: Input) -> ServiceHarness:
        told.extend(inputs)
        return execute(self, *inputs)

    monkeypatch.setattr(ServiceHarness, "execute", note)
    Story(1).run(60)
    inputs = list(told)
    monkeypatch.undo()
    check_service(Topics, inputs)


def _believe_every_epoch(*_: object) -> int:
    return KafkaError.NONE


def _live_for_ever(self: Door, now: int) -> bool:
    return self.lease != 0


def _dead_at_once(self: Door, now: int) -> bool:
    return self.lease != 0 and now < self.until - self.length // 2


def _end_nothing(self: Coordinators, door: Door) -> None:
    return


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (Coordinators, "judge", _believe_every_epoch),
        (Door, "is_live", _live_for_ever),
        (Door, "is_live", _dead_at_once),
        (Coordinators, "_end", _end_nothing),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, wrong: object) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert any(fails(seed) for seed in range(20))
