"""`ordo webhook` in front of clusters of real processes: each message once and in order, whoever is killed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from threading import Event

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.conftest import LendCluster, lend_cluster
from tests.clusters import STEADY, await_level, ready_cluster
from tests.gateway.webhooks.receivers import TAKEN, Got, Hook, Posts, hook, receiver
from tests.patience import patient

__all__ = ["lend_cluster"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
WAIT_S = patient(60)
BRIEF = {"session_timeout": "2s"}
"""So soon a hook that was killed is gone."""


def send(cluster: LocalCluster, payloads: list[str]) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request_many([one.encode() for one in payloads], timeout_s=WAIT_S)


def test_messages_come_in_order_and_each_is_tried_until_it_is_taken(lend_cluster: LendCluster, tmp_path: Path) -> None:
    refusals = iter([TAKEN, 503, 500, TAKEN, 404])

    def answer(_: Got) -> int:
        return next(refusals, TAKEN)

    cluster, payloads = lend_cluster("ordo:Ordering"), [f"hook {number}" for number in range(30)]
    with receiver(answer) as posts:
        with hook(
            cluster, "in-order", posts.url, tmp_path / "log", "--start", "live", "--retry-min", "0.01"
        ) as running:
            await_consumer(cluster, "in-order")
            send(cluster, payloads)
            posts.await_taken(len(payloads), running)
            assert running.stop() == 0
        assert [one.payload for one in posts.taken] == payloads
        assert len(posts.all) == len(payloads) + 3
        send(cluster, ["while it was away"])
        with hook(cluster, "in-order", posts.url, tmp_path / "log") as again:
            posts.await_taken(len(payloads) + 1, again)
        assert [one.payload for one in posts.taken] == [*payloads, "while it was away"]


@pytest.mark.usefixtures("executed_nodes")
def test_a_hook_that_is_executed_as_users_do_posts_and_ends(lend_cluster: LendCluster, tmp_path: Path) -> None:
    cluster = lend_cluster("ordo:Ordering")
    with receiver() as posts, hook(cluster, "executed", posts.url, tmp_path / "log", "--start", "live") as running:
        assert isinstance(running.process, subprocess.Popen), "it is not forked"
        await_consumer(cluster, "executed")
        send(cluster, ["one"])
        posts.await_taken(1, running)
        assert running.stop() == 0
    assert [one.payload for one in posts.taken] == ["one"]


def await_consumer(cluster: LocalCluster, name: str) -> None:
    """Wait until a consumer is there, so that what is sent from now on is for it."""
    with ConsumerOrders(list(cluster.ingress_endpoints.values())) as orders:
        cluster.await_value(lambda: any(one["name"] == name for one in orders.list_all()) or None, f"consumer {name}")


def test_posts_at_the_same_time_are_each_taken_once(lend_cluster: LendCluster, tmp_path: Path) -> None:
    both = Event()
    first: list[Got] = []

    def answer(got: Got) -> int:
        first.append(got)
        if len(first) == 1:
            both.wait(WAIT_S)  # taken only when another one has come meanwhile
        both.set()
        return TAKEN if len(first) != 5 else 503

    cluster, payloads = lend_cluster("ordo:Ordering"), [f"parallel {number}" for number in range(20)]
    options = ("--start", "live", "--in-flight", "8", "--retry-min", "0.01")
    with receiver(answer) as posts, hook(cluster, "parallel", posts.url, tmp_path / "log", *options) as running:
        await_consumer(cluster, "parallel")
        send(cluster, payloads)
        taken = posts.await_taken(len(payloads), running)
        assert running.stop() == 0
        with hook(cluster, "parallel", posts.url, tmp_path / "other", "--in-flight", "2") as other:
            assert other.process.wait(WAIT_S) == 2
        assert "begun with --in-flight 8 --tries 16: give the same" in other.log_path.read_text()
    assert sorted(one.payload for one in taken) == sorted(payloads)


@pytest.mark.thorough
def test_nothing_counts_as_refused_that_the_receiver_was_not_asked_about(tmp_path: Path) -> None:
    """Each way for a hook to end, as often as a message may be refused: stopped, told that it is gone, and killed."""
    payloads = [str(number) for number in range(4)]
    options = ("--in-flight", "4", "--retry-min", "0.05", "--retry-max", "0.05")
    with receiver() as posts:
        down = posts.url
    with (
        ready_cluster("ordo:Ordering", root=tmp_path / "cluster", heartbeat=STEADY, cluster=BRIEF) as cluster,
        receiver(lambda _: 410) as gone,
        receiver() as posts,
    ):
        await_level(cluster)
        send(cluster, payloads)
        for number in range(16):
            with hook(cluster, "orders", down, tmp_path / f"down {number}", *options) as running:
                await_tried(cluster, running, len(payloads))
                assert running.stop() == 0
        assert count_dead_letters(cluster, "orders") == 0
        with hook(cluster, "orders", gone.url, tmp_path / "gone", *options) as running:
            assert running.process.wait(WAIT_S) == 1
        with hook(cluster, "orders", down, tmp_path / "killed", *options) as running:
            await_tried(cluster, running, len(payloads))
        with hook(cluster, "orders", posts.url, tmp_path / "log", *options) as running:
            posts.await_taken(len(payloads), running)
            assert running.stop() == 0
        assert sorted(one.payload for one in posts.taken) == payloads
        assert count_dead_letters(cluster, "orders") == 0


def count_dead_letters(cluster: LocalCluster, name: str) -> int:
    with ConsumerOrders(list(cluster.ingress_endpoints.values())) as orders:
        return int(orders.describe(name)["dead"])


def await_tried(cluster: LocalCluster, running: Hook, count: int) -> None:
    """Wait until a hook has tried so many messages in vain."""

    def tried() -> bool | None:
        found = re.findall(r'"id": "(\w+)".*"webhook.retry"', running.log_path.read_text())
        return len(set(found)) >= count or None

    cluster.await_value(tried, "tries of all messages")


def test_each_message_has_its_effect_once_when_hook_and_leader_are_killed(tmp_path: Path) -> None:
    killed = Event()

    def answer(got: Got) -> int:
        if got.payload == "25" and not killed.is_set():
            killed.set()
            running.process.kill()  # it is taken, and the hook never learns it
        return TAKEN

    with (
        ready_cluster("ordo:Ordering", root=tmp_path / "cluster", heartbeat=STEADY) as cluster,
        receiver(answer) as posts,
        hook(cluster, "orders", posts.url, tmp_path / "log") as running,
    ):
        send(cluster, [str(number) for number in range(50)])
        assert killed.wait(WAIT_S)
        running.process.wait(WAIT_S)
        cluster.kill(cluster.await_leader(60))
        with hook(cluster, "orders", posts.url, tmp_path / "log") as again:
            send(cluster, [str(number) for number in range(50, 100)])
            posts.await_taken(100, again)
            assert again.stop() == 0
        check_once(posts, 100)


def check_once(posts: Posts, count: int) -> None:
    assert posts.effects() == [str(number) for number in range(count)]
    again = [one for one in posts.taken if one.payload == "25"]
    assert len(again) > 1, "the post was not repeated: this shows nothing"
    assert len({one.id for one in again}) == 1
    assert len({one.body for one in again}) == 1


def test_a_receiver_that_is_gone_ends_the_hook_with_one_line(lend_cluster: LendCluster, tmp_path: Path) -> None:
    cluster = lend_cluster("ordo:Ordering")
    with receiver(lambda _: 410) as posts, hook(cluster, "gone", posts.url, tmp_path / "log") as running:
        send(cluster, ["one"])
        assert running.process.wait(WAIT_S) == 1
        last = running.log_path.read_text().splitlines()[-1]
        assert "wants no posts any more (410)" in last
        assert "Traceback" not in running.log_path.read_text()
