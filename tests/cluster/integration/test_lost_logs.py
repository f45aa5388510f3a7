"""The log of a node cannot be written: a full disk, a pipe that nobody reads any more, nothing open at all."""

from __future__ import annotations

from functools import partial

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster, ServiceMode
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.command import ordo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
FULL = 'exec "$@" >/dev/full 2>&1'
NO_READER = 'exec "$@" > >(exec true) 2>&1'
CLOSED = 'exec "$@" >&- 2>&-'
REQUESTS = 20


def in_shell(redirection: str) -> list[str]:
    """A prefix that starts a node with its log there."""
    return ["bash", "-c", redirection, "bash"]


def dropped(cluster: LocalCluster, member_id: int) -> int:
    counters = read_counters(cluster.aeron_dir(member_id))
    return next(one.value for one in counters if one.type_id == CounterType.LOG_LINES_DROPPED)


def drops_all(cluster: LocalCluster, member_id: int) -> bool:
    """Tell whether a member has dropped a line at least for each request."""
    return dropped(cluster, member_id) >= REQUESTS


def request(cluster: LocalCluster, count: int, start: int) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        for total in range(start + 1, start + count + 1):
            assert client.request(b"1").payload == str(total).encode()


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_a_cluster_serves_without_any_log(mode: ServiceMode) -> None:
    prefixes = {member_id: in_shell(where) for member_id, where in enumerate((FULL, NO_READER, CLOSED))}
    cluster = LocalCluster(
        "tests.cluster.integration.talker:Talker", sync="none", service_mode=mode, prefixes=prefixes, keep=False
    )
    with cluster:
        cluster.await_leader()
        request(cluster, REQUESTS, 0)
        cluster.check_running()
        assert all(cluster.logs(member_id) == "" for member_id in range(3)), "none has a log"
        for member_id in range(3):
            # Each member executes each request, those that did not lead perhaps later than the client has its answer.
            await_that(partial(drops_all, cluster, member_id), f"lines that member {member_id} drops")
            done = ordo("errors", "--config", str(cluster.config_path(member_id)))
            assert "lines of the log are dropped" in done.stdout, done
        leader = cluster.await_leader()
        cluster.kill(leader)
        cluster.await_leader(other_than=leader)
        request(cluster, REQUESTS, REQUESTS)
        cluster.restart(leader)
        cluster.await_leader()
        request(cluster, REQUESTS, 2 * REQUESTS)
        others = set(cluster.member_ids) - {leader}
        assert {cluster.stop(member_id) for member_id in others} == {0}, "they end in good order"
