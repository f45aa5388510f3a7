"""Shared consumers of a real cluster: what they hand out, to whom, how often; both kinds of consumers in asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ordo import AsyncConsumer, AsyncSharedConsumer, Consumer, Delivery, SharedConsumer
from ordo.cli import main
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, NotPermittedError
from ordo.runtime.security.tokens import hash_token, new_token
from tests.clusters import ready_cluster
from tests.patience import factor, patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
SESSION_TIMEOUT_S = round(3 * min(3.0, factor()))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("shared") / "cluster"
    options = {"session_timeout": f"{SESSION_TIMEOUT_S}s"}
    with ready_cluster(
        "ordo:Ordering", root=root, member_count=1, node={"max_replays": 16}, cluster=options
    ) as cluster:
        yield cluster


@pytest.fixture
def jobs(cluster: LocalCluster) -> Jobs:
    return Jobs(cluster)


class Jobs:
    """Sends messages, and makes members of consumers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.endpoints = list(cluster.ingress_endpoints.values())

    def send(self, *payloads: bytes) -> None:
        with ClusterClient(self.cluster.ingress_endpoints) as client:
            for payload in payloads:
                client.send(payload, until="sequenced")

    def share(self, name: str, **more: Any) -> SharedConsumer:
        return SharedConsumer(self.endpoints, name, **{"start": "live", **more})

    def join(self, *consumers: SharedConsumer) -> None:
        """Until all are members."""
        poll_until(list(consumers), lambda: all(one.position >= 0 for one in consumers))

    def describe(self, name: str) -> dict[str, Any]:
        with ConsumerOrders(self.endpoints) as orders:
            return orders.describe(name)


def poll_until(
    consumers: list[SharedConsumer], is_true: Callable[[], bool], on_delivery: Any = None, timeout_s: float = 30
) -> None:
    """`on_delivery(consumer, delivery)`: by default none may come."""
    deadline_s = time.monotonic() + patient(timeout_s)
    while not is_true():
        assert time.monotonic() < deadline_s
        for consumer in consumers:
            if on_delivery is None:
                consumer.keep_alive()
            else:
                consumer.poll(lambda delivery: on_delivery(consumer, delivery))  # noqa: B023


def test_messages_are_divided_and_each_is_done_once(jobs: Jobs) -> None:
    wanted = [b"job %d" % number for number in range(40)]
    by_member: dict[SharedConsumer, list[bytes]] = {}
    with jobs.share("divide") as one, jobs.share("divide") as two:
        jobs.join(one, two)
        jobs.send(*wanted)

        def do(consumer: SharedConsumer, delivery: Delivery) -> None:
            by_member.setdefault(consumer, []).append(delivery.payload)
            assert (delivery.tries, consumer.ack(delivery), consumer.ack(delivery)) == (1, True, True)

        poll_until([one, two], lambda: sum(map(len, by_member.values())) == 40, do)
        one.flush()
        two.flush()
        found = jobs.describe("divide")
        assert (found["waiting"], found["in_flight"], found["mode"], one.late + two.late) == (0, 0, "shared", 0)
    assert sorted(by_member[one] + by_member[two]) == sorted(wanted)
    assert min(len(by_member[one]), len(by_member[two])) >= 10, "in turn: neither has nearly all"
    with jobs.share("divide") as three:
        assert list(three.deliveries(timeout_s=0.5)) == []


def test_what_is_not_acknowledged_in_time_comes_again_and_is_then_a_dead_letter(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    with jobs.share("again", ack_timeout_s=0.3, tries_max=3) as consumer:
        jobs.join(consumer)
        jobs.send(b"poison")
        tries = list(consumer.deliveries(timeout_s=patient(2)))
        assert [one.tries for one in tries] == [1, 2, 3]
        assert not consumer.ack(tries[-1]), "it was taken back"
        (dead,) = jobs.describe("again")["dead_letters"]
        assert dead == {"position": tries[0].position, "tries": 3}
        with pytest.raises(SystemExit):
            main(["consumers", "describe", "again", "--endpoints", ",".join(jobs.endpoints)])
        assert f"dead letter at {tries[0].position} after 3 tries" in capsys.readouterr().out
        jobs.send(b"good")
        good = next(iter(consumer))
        assert (good.payload, consumer.ack(good)) == (b"good", True)


def test_a_late_acknowledgement_of_an_earlier_try_does_not_count_for_a_later_one(jobs: Jobs) -> None:
    with jobs.share("late", ack_timeout_s=patient(1)) as consumer:
        jobs.join(consumer)
        jobs.send(b"slow")
        deliveries = iter(consumer)
        first, second = next(deliveries), next(deliveries)
        assert (first.tries, second.tries) == (1, 2)
        assert (consumer.ack(first), consumer.ack(second)) == (False, True)


def test_what_is_given_back_waits_for_its_delay(jobs: Jobs) -> None:
    with jobs.share("nack", tries_max=2) as consumer:
        jobs.join(consumer)
        jobs.send(b"busy")
        deliveries = iter(consumer)
        first = next(deliveries)
        begin_s = time.monotonic()
        assert consumer.nack(first, delay_s=0.5) and not consumer.ack(first)
        again = next(deliveries)
        assert time.monotonic() - begin_s > 0.45
        assert (again.payload, again.tries) == (b"busy", 2)
        with pytest.raises(ConfigurationError, match="delay_ms=-1000"):
            consumer.nack(again, delay_s=-1)
        consumer.nack(again)
        consumer.flush()
        assert jobs.describe("nack")["dead"] == 1


def test_so_many_are_in_flight_and_no_more(jobs: Jobs) -> None:
    with jobs.share("flight", in_flight_max=3) as consumer:
        jobs.join(consumer)
        jobs.send(*(b"%d" % number for number in range(10)))
        held = [next(iter(consumer)) for _ in range(3)]
        assert [one.payload for one in held] == [b"0", b"1", b"2"]
        assert consumer.ack(held[1])
        assert next(iter(consumer)).payload == b"3"
        assert list(consumer.deliveries(timeout_s=0.5)) == []
    with jobs.share("flight", in_flight_max=100) as other:
        rest = [next(iter(other)) for _ in range(3)]
        assert [one.payload for one in rest] == [b"0", b"2", b"3"], "as it was begun; what was left comes first"


def test_messages_of_a_key_are_done_one_member_at_a_time_in_order(jobs: Jobs) -> None:
    def key(entry: Any) -> bytes:
        return bytes(entry.payload[:1])

    held: dict[bytes, tuple[SharedConsumer, list[Delivery]]] = {}
    done: list[bytes] = []
    with jobs.share("key", key=key, in_flight_max=8) as one, jobs.share("key", key=key, in_flight_max=8) as two:
        jobs.join(one, two)
        jobs.send(*(b"%c%d" % (97 + number % 3, number) for number in range(30)))

        def do(consumer: SharedConsumer, delivery: Delivery) -> None:
            owner, waiting = held.setdefault(delivery.payload[:1], (consumer, []))
            if not waiting:
                held[delivery.payload[:1]] = owner, waiting = (consumer, [])
            assert owner is consumer, "a key is with one member at a time"
            waiting.append(delivery)
            if len(waiting) == 2:
                done.extend(each.payload for each in waiting if owner.ack(each))
                owner.flush()
                waiting.clear()

        poll_until([one, two], lambda: len(done) == 30, do)
    for letter in (b"a", b"b", b"c"):
        mine = [int(one[1:]) for one in done if one[:1] == letter]
        assert mine == sorted(mine)


def test_a_pause_hands_out_nothing_and_what_was_acknowledged_at_the_end_is_kept(jobs: Jobs) -> None:
    with jobs.share("pause") as consumer, ConsumerOrders(jobs.endpoints) as orders:
        jobs.join(consumer)
        orders.pause("pause")
        poll_until([consumer], lambda: consumer.is_paused)
        jobs.send(b"first", b"second")
        assert list(consumer.deliveries(timeout_s=0.5)) == []
        orders.resume("pause")
        first = next(iter(consumer))
        assert consumer.ack(first)
    with jobs.share("pause") as after:
        second = next(iter(after))
        assert second.payload == b"second", "acknowledged just before the end, and said while closing"


def test_a_time_is_a_start(jobs: Jobs) -> None:
    jobs.send(b"old")
    time.sleep(0.05)
    between = datetime.now(UTC)
    time.sleep(0.05)
    jobs.send(b"new", b"newer")
    with Consumer(jobs.endpoints, "since", start=between) as consumer:
        found = [entry.payload for _, entry in zip(range(2), consumer, strict=False)]
        assert found == [b"new", b"newer"]
        consumer.commit()
    with Consumer(jobs.endpoints, "since", start=between) as again:
        assert list(again.entries(timeout_s=0.5)) == [], "it goes on where it stands"
    with jobs.share("since-shared", start=between) as shared:
        assert next(iter(shared)).payload == b"new"
    with Consumer(jobs.endpoints, "tomorrow", start=between + timedelta(days=1)) as late:
        assert list(late.entries(timeout_s=0.5)) == []
    with Consumer(jobs.endpoints, "all", start=between - timedelta(days=1)) as all_of_it:
        first = next(iter(all_of_it))
    with Consumer(jobs.endpoints, "first") as from_first:
        assert next(iter(from_first)) == first
    with pytest.raises(ConfigurationError, match="give it a time zone"):
        Consumer(jobs.endpoints, "naive", start=datetime(2026, 1, 1))


def test_one_name_is_of_one_mode(jobs: Jobs) -> None:
    with jobs.share("mode") as shared:
        jobs.join(shared)
        with Consumer(jobs.endpoints, "mode") as exclusive, pytest.raises(ConfigurationError, match="is shared"):
            next(iter(exclusive))
    for wrong in ({"in_flight_max": 0}, {"tries_max": 0}, {"ack_timeout_s": 0}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}=0: allowed is"):
            jobs.share("wrong", **wrong)


def test_both_kinds_in_asyncio(jobs: Jobs) -> None:
    async def run() -> None:
        async with (
            AsyncConsumer(jobs.endpoints, "async", start="live") as consumer,
            AsyncSharedConsumer(jobs.endpoints, "async-shared", start="live") as shared,
        ):
            async with asyncio.timeout(patient(30)):
                while consumer.position < 0 or shared.position < 0:
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(jobs.send, b"one", b"two")
            entries = [await anext(consumer), await anext(consumer)]
            assert [entry.payload for entry in entries] == [b"one", b"two"]
            assert consumer.is_active and consumer.epoch >= 0
            await consumer.commit(entries[0].position)
            assert consumer.position == entries[0].position
            async with asyncio.timeout(patient(30)):
                while shared.in_flight < 2:
                    await asyncio.sleep(0.01)
            first = await anext(shared)
            assert (first.payload, shared.in_flight, shared.ack(first)) == (b"one", 2, True)
            await shared.flush()
            second = await anext(shared)
            assert (shared.nack(second), (await anext(shared)).tries, shared.late) == (True, 2, 0)
        assert [entry async for entry in consumer] == [], "closed"
        async with AsyncConsumer(jobs.endpoints, "async") as again:
            assert (await anext(again)).payload == b"two"
        async with AsyncConsumer(jobs.endpoints, "async", session_ids=[1]) as other:
            with pytest.raises(ConfigurationError, match="another choice of entries"):
                await anext(other)

    asyncio.run(run())


def test_an_asyncio_consumer_stays_a_member_while_a_handler_takes_long(jobs: Jobs) -> None:
    async def run() -> None:
        async with AsyncConsumer(jobs.endpoints, "long", start="live") as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            async with asyncio.timeout(patient(20)):
                while consumer.position < 0:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(jobs.send, b"work")
                entry = await waiting
            epoch = consumer.epoch
            await asyncio.sleep(SESSION_TIMEOUT_S + 1)
            await consumer.commit(entry.position)
            assert consumer.epoch == epoch

    asyncio.run(run())


def test_who_may_not_is_told_so(tmp_path: Path) -> None:
    trader, reader, blind = new_token(), new_token(), new_token()
    tokens: list[Any] = [
        {"principal": "trader", "hash": hash_token(trader), "roles": ["ingress", "queries", "log"]},
        {"principal": "blind", "hash": hash_token(blind), "roles": ["consumers"]},
        {"principal": "reader", "hash": hash_token(reader), "roles": ["consumers", "log"]},
    ]
    service = "ordo:Ordering"
    with ready_cluster(service, root=tmp_path / "cluster", member_count=1, tables={"tokens": tokens}) as cluster:
        endpoints = list(cluster.ingress_endpoints.values())
        for kind in (Consumer, SharedConsumer):
            settings = ClientSettings(credentials=trader.encode())
            with (
                kind(endpoints, kind.__name__, settings=settings) as refused,
                pytest.raises(NotPermittedError, match="do not include 'consumers'"),
            ):
                next(iter(refused))
            settings = ClientSettings(credentials=blind.encode())
            with (
                kind(endpoints, kind.__name__, settings=settings) as refused,
                pytest.raises(ArchiveError, match="credentials with the role log"),
            ):
                next(iter(refused))
        with ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(credentials=trader.encode())) as client:
            client.send(b"allowed", until="sequenced")
        with SharedConsumer(endpoints, "work", settings=ClientSettings(credentials=reader.encode())) as consumer:
            assert next(iter(consumer)).payload == b"allowed"
        with ConsumerOrders(endpoints, settings=ClientSettings(credentials=reader.encode())) as orders:
            assert [one["name"] for one in orders.list_all()] == ["work"]
            with pytest.raises(ClusterError, match="do not include 'administration'"):
                orders.remove("work")
