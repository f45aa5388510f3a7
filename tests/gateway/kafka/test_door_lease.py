"""A door's lease: what it is told that has none, which groups it lets go, and what other doors call it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo import Topics
from ordo.gateway.kafka.door_lease import OLD_SERVICE, RELEASES_MAX, UNUSED_S
from ordo.gateway.kafka.server import RequestCalls
from ordo.gateway.kafka.service.coordinators import DOORS_MAX
from ordo.gateway.kafka.service.orders import OrderKind, encode_order
from ordo.gateway.kafka.service.topics import GROUP_LENGTH_MAX, NAME
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.runtime.errors import (
    ClusterTimeoutError,
    ConfigurationError,
    OrdoError,
    QueryFailedError,
    Reject,
    RejectedError,
)
from tests.gateway.kafka.batches import codes_of
from tests.gateway.kafka.memory import SETTINGS, MemoryDoor, MemorySession, pass_time, run
from tests.gateway.kafka.test_connection import METADATA
from tests.gateway.kafka.test_doors import (
    AWAY,
    METADATA_OF_MANY,
    NOT,
    Pair,
    ask,
    commit,
    find,
    leaders_in,
    with_pair,
)

REQUEST_BYTES_MAX = 128 << 10


def test_a_group_that_nobody_uses_is_let_go() -> None:
    async def work(pair: Pair) -> Any:
        await ask(pair.first, find(2, "g"))
        await pass_time(UNUSED_S + SETTINGS.lease_s)
        return await ask(pair.second, find(2, "g"))

    assert with_pair(work).node_id == 1


def test_groups_are_let_go_a_few_at_a_time_and_again_where_no_answer_came(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{index:03}" + "\U0001f600" * (GROUP_LENGTH_MAX - 3) for index in range(RELEASES_MAX + 5)]
    lengths: list[int] = []

    async def work(pair: Pair) -> Any:
        for one in names:
            await ask(pair.first, find(2, one))
        order = pair.first.session.order

        async def lose_some(payload: bytes, timeout_s: float | None = None) -> Any:
            if b"released" in payload:
                lengths.append(len(payload))
                if len(payload) > 1_000 and len([one for one in lengths if one > 1_000]) < 3:
                    raise ClusterTimeoutError("nobody has answered")
            return await order(payload, timeout_s)

        monkeypatch.setattr(pair.first.session, "order", lose_some)
        await pass_time(UNUSED_S + 2 * SETTINGS.lease_s)
        assert pair.lease.is_held and pair.lease.epoch_of(names[0]) == 0
        return await pair.first.session.query(OrderKind.COORDINATORS)

    assert with_pair(work) == {}
    assert max(lengths) < REQUEST_BYTES_MAX and len([one for one in lengths if one > 1_000]) == 4


def test_a_group_that_is_asked_for_while_it_is_let_go_stays() -> None:
    async def work(pair: Pair) -> Any:
        await ask(pair.first, find(2, "g"))
        lease = pair.lease
        assert lease._release(asyncio.get_running_loop().time() + UNUSED_S + 1) == [("g", 3)]
        assert codes_of(await ask(pair.first, commit(5))) == {0}, "it was claimed again"
        await pass_time(SETTINGS.lease_s)
        return (await ask(pair.second, find(2, "g"))).node_id

    assert with_pair(work) == 0


class Older(Topics):
    """The service of a release that knows no doors."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if payload[13:14] in b"\x06\x07\x08\x09" and payload.startswith(b"\xf0ordo.topics"):
            raise Reject("an order of a kind that this release does not know")
        return super().on_session_message(session, timestamp, payload, header)


def test_in_front_of_members_of_an_older_release_there_are_topics_and_no_groups() -> None:
    async def work() -> Any:
        door = MemoryDoor(service=Older)
        async with door.at_work():
            assert [one.node_id for one in (await ask(door, METADATA)).brokers] == [0]
            assert (await ask(door, find(2, "g"))).error_code == AWAY
            assert codes_of(await ask(door, commit(5))) == {NOT}
            return door.calls.lease.refusal

    assert run(work()) == OLD_SERVICE


@pytest.mark.parametrize("trouble", [RejectedError("an order is damaged: x"), QueryFailedError("no right to ask")])
def test_a_door_that_gets_no_lease_says_why(trouble: OrdoError, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> Any:
        door = MemoryDoor()

        async def refuse(*_: object, **__: object) -> Any:
            raise trouble

        monkeypatch.setattr(door.session, "order" if isinstance(trouble, RejectedError) else "query", refuse)
        async with door.at_work():
            await pass_time(1)
            return door.calls.lease.refusal

    assert run(work()) == trouble.message


def test_a_door_whose_orders_are_refused_names_the_leaders_that_the_others_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(pair: Pair) -> Any:
        third = MemoryDoor(address="third:9092")
        third.session.harness = pair.first.session.harness
        async with third.at_work():
            await pass_time(SETTINGS.lease_s)
            before = [await ask(one, METADATA_OF_MANY) for one in (pair.second, third)]

            async def refuse(*_: object, **__: object) -> Any:
                raise RejectedError("no right to")

            monkeypatch.setattr(third.session, "order", refuse)
            await pair.stop_first()
            await pass_time(3 * SETTINGS.lease_s)
            assert third.calls.lease.refusal == "no right to"
            return before, [await ask(one, METADATA_OF_MANY) for one in (pair.second, third)]

    before, after = with_pair(work)
    assert leaders_in(before[0]) == leaders_in(before[1]) and set(leaders_in(before[0]).values()) == {0, 1, 2}
    assert leaders_in(after[0]) == leaders_in(after[1]) and set(leaders_in(after[0]).values()) == {1}


def test_a_door_for_which_there_is_no_place_leads_nothing_and_takes_no_name_of_another_one() -> None:
    async def work(pair: Pair) -> Any:
        for index in range(DOORS_MAX - 2):
            door = {"address": f"10.0.0.{index}:9092", "process": "p", "network": "elsewhere", "lease_ms": 60_000}
            await pair.first.session.order(encode_order(OrderKind.REGISTER, **door))
        third = MemoryDoor(beside=pair.first, address="third:9092")
        async with third.at_work():
            await pass_time(SETTINGS.lease_s)
            found = [await ask(one, METADATA_OF_MANY) for one in (third, pair.first)]
            assert "as many doors as it can" in third.calls.lease.refusal
            return found

    at_third, at_first = with_pair(work)
    assert leaders_in(at_third) == leaders_in(at_first) and set(leaders_in(at_first).values()) == {0, 1}
    hosts = {one.node_id: one.host for one in at_third.brokers}
    assert hosts == {0: "first", 1: "second", at_third.controller_id: "127.0.0.1"}
    assert at_third.controller_id == DOORS_MAX, "which the cluster gives to none"


class Mute(MemorySession):
    """The session of a client without the role ingress: nobody answers its orders."""

    async def order(self, payload: bytes, timeout_s: float | None = None) -> Any:
        await pass_time(timeout_s or SETTINGS.timeout_s)
        raise ClusterTimeoutError("nobody has answered")


def with_mute_sessions(others: int, work: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run work with a door that has no rights itself, as some clients have none before the one that has."""

    async def begin() -> Any:
        door = MemoryDoor()
        own: Any = Mute()
        active: Any = [own, *(Mute() for _ in range(others)), door.session]
        monkeypatch.setattr(door.sessions, "take_own", lambda: own)
        monkeypatch.setattr(door.sessions, "active", lambda: [one for one in active if one.users])
        sessions: Any = door.sessions
        memory: Any = door.session
        door.calls = RequestCalls(SETTINGS, sessions, TopicTable(), memory)
        async with door.at_work():
            return await work(door)

    return run(begin())


@pytest.mark.parametrize("others", [0, 1, 4, 7])
def test_a_client_s_session_keeps_the_lease_of_a_door_without_rights(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(door: MemoryDoor) -> Any:
        await pass_time(3 * SETTINGS.lease_s)
        assert door.calls.lease.is_held
        return await ask(door, find(2, "g"))

    assert with_mute_sessions(others, work, monkeypatch).error_code == 0


def test_a_door_without_rights_gives_its_groups_up_by_the_session_of_a_client_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(door: MemoryDoor) -> Any:
        await ask(door, find(2, "g"))
        monkeypatch.setattr(door.session, "users", 0)
        assert (await ask(door, find(2, "h"))).error_code == 0
        assert len(await door.session.query(OrderKind.COORDINATORS)) == 2
        await door.calls.lease.end()
        return await door.session.query(OrderKind.COORDINATORS)

    assert with_mute_sessions(0, work, monkeypatch) == {}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"listen": "10.0.0.9:0"}, "10.0.0.9:9092"),
        ({"listen": "[::1]:0"}, "[::1]:9092"),
        ({"listen": "0.0.0.0:0", "advertise": "kafka.example:19092"}, "kafka.example:19092"),
        ({"listen": "0.0.0.0:0"}, "127.0.0.1:9092"),
    ],
)
def test_the_address_by_which_other_doors_name_one(change: dict[str, str], found: str) -> None:
    assert KafkaSettings(endpoints=["127.0.0.1:9"], **change).registered_address(9092) == found  # type: ignore[arg-type]


def test_doors_with_loopback_addresses_are_in_a_network_of_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def network_of(address: str, **change: Any) -> str:
        return KafkaSettings(endpoints=["127.0.0.1:9"], **change).network_of(address)

    ours = network_of("127.0.0.1:1")
    assert {network_of(one) for one in ("localhost:2", "[::1]:3", "127.0.0.1:4")} == {ours}
    assert network_of("10.0.0.9:1") == network_of("127.0.0.1:1", advertise="127.0.0.1:1") == "plain"
    assert network_of("127.0.0.1:1", network="inside") == "inside"
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert network_of("127.0.0.1:1") != ours and NAME.fullmatch(network_of("127.0.0.1:1"))


def test_doors_with_one_loopback_address_on_two_machines_leave_each_other_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> Any:
        first = MemoryDoor()
        second = MemoryDoor(beside=first)
        async with first.at_work():
            await ask(first, find(2, "g"))
            monkeypatch.setattr("socket.gethostname", lambda: "another")
            async with second.at_work():
                await ask(second, find(2, "h"))
                await pass_time(3 * SETTINGS.lease_s)
                leases = [one.calls.lease for one in (first, second)]
                return [
                    (one.is_held, one.refusal, bool(one.epoch_of(group)))
                    for one, group in zip(leases, "gh", strict=True)
                ]

    assert run(work()) == [(True, "", True)] * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lease_s": 0.5}, "lease_s=0.5"),
        ({"network": "a b"}, "network=a b"),
        ({"lease_s": 61}, "60"),
        ({"advertise": "bücher:9092"}, "--advertise bücher:9092: must be .* xn-- form"),
        ({"advertise": "kafka:0"}, "--advertise kafka:0: must be"),
        ({"listen": "bücher:0"}, "--listen bücher:0: must be"),
    ],
)
def test_settings_of_doors_out_of_range_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises((ConfigurationError, OrdoError), match=why):
        KafkaSettings(endpoints=["127.0.0.1:9"], **change)
