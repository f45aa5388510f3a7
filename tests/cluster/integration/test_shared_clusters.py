"""Clusters that tests share: one for what they ask for, and a test that harms it fails."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.conftest import LEDGER, LendCluster
from tests.cluster.integration.writer import Writer
from tests.shared_clusters import SHARED, SharedClusters, suspended_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def shared() -> Iterator[SharedClusters]:
    """Clusters that no other test has: here they are harmed."""
    clusters = SharedClusters(kept_max=1)
    yield clusters
    clusters.close()


def lend(clusters: SharedClusters, use: Callable[[LocalCluster], object], has_failed: bool = False) -> LocalCluster:
    """What a test does with a cluster of one member, and what its fixture does afterwards."""
    with clusters.guarded(LEDGER, lambda: has_failed) as lent:
        cluster = lent(member_count=1, service_mode="inline")
        use(cluster)
    return cluster


def suspend(cluster: LocalCluster) -> None:
    """Hold a node's process; the signal takes a moment where the machine is busy."""
    cluster.send_signal(0, signal.SIGSTOP)
    pid = cluster.pid(0)
    cluster.await_value(lambda: any(suspended_in(pid)) or None, "process that is held")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda cluster: cluster.kill(0), "processes were"),
        (lambda cluster: (cluster.restart(0), cluster.await_leader()), "processes were"),
        (suspend, "suspended were"),
        (lambda cluster: cluster.add_member(), "members were"),
    ],
    ids=["kills", "restarts", "suspends", "adds a member"],
)
def test_who_harms_what_is_shared_fails_and_no_other_has_it(
    shared: SharedClusters, harm: Callable[[LocalCluster], object], words: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"the test harms a cluster that others share: {words}"):
        lend(shared, harm)
    assert shared.kept == ()


def test_one_serves_all_that_ask_for_the_same(shared: SharedClusters) -> None:
    first = lend(shared, lambda cluster: None)
    with shared.guarded(LEDGER, lambda: False) as lent:
        assert lent(member_count=1, service_mode="inline", encrypted=False, cluster={}) is first, (
            "defaults are no others"
        )
    assert shared.started == 1 and shared.kept == (first,)
    lend(shared, lambda cluster: None, has_failed=True)
    assert shared.kept == (), "what made a test fail does not fail the next"


def test_clusters_that_nobody_has_had_for_a_while_are_stopped(shared: SharedClusters) -> None:
    first = lend(shared, lambda cluster: None)
    shared.drop_idle(idle_s=1000)
    assert shared.kept == (first,)
    shared.drop_idle(idle_s=0)
    assert shared.kept == () and not any(first.is_running(one) for one in first.member_ids)


def test_a_ledger_begins_anew_for_each_test(lend_cluster: LendCluster) -> None:
    for _ in range(2):
        cluster = lend_cluster()
        with Writer(cluster.ingress_endpoints) as writer:
            writer.write(10)
            assert writer.client.query(b"").payload == (10).to_bytes(8, "little")
    assert cluster in SHARED.kept
