"""The order book of examples/: who trades with whom, what everybody hears of it, and that nobody misses any of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from examples.order_book import OrderBook
from ordo.cluster.client.session import ClusterClient
from ordo.follow.topics.feeds import FeedMessage
from ordo.service_api.testing.harness import Input, Message, OpenSession, ServiceHarness, check_service
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient


def run(*orders: str) -> ServiceHarness:
    inputs: list[Input] = [OpenSession(1, 1)]
    inputs += [Message(1, 2 + number, order.encode()) for number, order in enumerate(orders)]
    return check_service(OrderBook, inputs)


def published(harness: ServiceHarness, topic: str) -> list[str]:
    messages = [bytes(one.value).decode() for one in harness.effects if one.kind == "publish"]
    return [one.removeprefix(f"{topic}:") for one in messages if one.startswith(f"{topic}:")]


def test_the_best_price_trades_first_and_of_the_same_price_the_oldest() -> None:
    harness = run("sell A 5 102", "sell A 5 101", "sell A 5 101", "buy A 12 102", "buy A 4 101", "sell A 9 100")
    assert published(harness, "trades") == ["A 5 101 2 4", "A 5 101 3 4", "A 2 102 1 4", "A 4 101 5 6"]
    assert harness.egress(1) == [b"1 5", b"2 5", b"3 5", b"4 0", b"5 4", b"6 5"]
    assert harness.query(b"A") == b"A - 100"


def test_everybody_hears_of_another_best_price_and_of_nothing_else() -> None:
    harness = run("buy A 1 99", "buy A 1 98", "sell A 1 105", "sell B 1 7", "cancel 2", "cancel 1", "buy A 1 105")
    assert published(harness, "quotes") == ["A 99 -", "A 99 105", "B - 7", "A - 105", "A - -"]
    assert published(harness, "trades") == ["A 1 105 3 5"]


def test_what_is_no_order_is_refused_and_changes_nothing() -> None:
    wrong = (
        "",
        "buy A 0 1",
        "buy A 1 -1",
        "buy A 1",
        "hold A 1 1",
        "cancel 9",
        "cancel x",
        f"buy A 1 {'9' * 5000}",
        "buy A ² 1",
    )
    harness = run("buy A 1 99", *wrong)
    assert [one.kind for one in harness.effects].count("reject") == len(wrong)
    assert harness.query(b"A") == b"A 99 -"


def test_the_book_is_never_crossed_and_loses_nothing() -> None:
    drawn = random.Random(7)
    orders = [f"{drawn.choice(['buy', 'sell'])} A {drawn.randint(1, 9)} {drawn.randint(95, 105)}" for _ in range(300)]
    harness = run(*orders)
    traded = sum(int(trade.split()[1]) for trade in published(harness, "trades"))
    left = sum(int(answer.split()[1]) for answer in harness.egress(1))
    entered = sum(int(order.split()[2]) for order in orders)
    for quote in published(harness, "quotes"):
        _, bid, ask = quote.split()
        assert "-" in (bid, ask) or int(bid) < int(ask)
    assert traded > 100 and entered - left == traded


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_reader_of_trades_misses_nothing_when_the_leader_is_killed(tmp_path: Path) -> None:
    found: list[FeedMessage] = []
    with ready_cluster("examples.order_book:OrderBook", root=tmp_path, heartbeat=STEADY) as cluster:
        leader = cluster.await_leader()
        with ClusterClient(cluster.ingress_endpoints) as client, client.subscribe("trades", from_position=0) as trades:
            for number in range(60):
                if number == 30:
                    cluster.kill(leader)
                client.request(b"sell A 2 %d" % (100 + number), timeout_s=patient(30))
                client.request(b"buy A 2 %d" % (100 + number), timeout_s=patient(30))

            def has_all() -> bool:
                trades.poll(found.append)
                client.poll()
                return len(found) >= 60

            await_that(has_all, "the trades", timeout_s=60)
    assert [one.sequence for one in found] == list(range(1, 61))
    assert [one.payload for one in found] == [
        b"A 2 %d %d %d" % (100 + number, 2 * number + 1, 2 * number + 2) for number in range(60)
    ]
