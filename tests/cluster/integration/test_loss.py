"""A network that loses every tenth datagram: the same result as without loss."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator

import pytest

from cluster.launcher import LocalCluster
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(240)]
CLONE_NEWNET = 0x40000000
RULES = """
table inet loss {
    counter dropped { }
    chain input {
        type filter hook input priority 0;
        meta l4proto udp numgen random mod 10 < 1 counter name dropped drop
    }
}
"""


@pytest.fixture
def lossy_network() -> Iterator[None]:
    """This thread and every process it starts live in a network of their own, which drops a tenth of all datagrams."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        os.close(home)
        pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
        yield
        listed = subprocess.run(["nft", "list", "counters"], capture_output=True, text=True, check=True).stdout
        print(" ".join(listed.split()))
        assert "packets 0 " not in listed, "nothing was dropped"
    finally:
        assert libc.setns(home, CLONE_NEWNET) == 0
        os.close(home)


def test_every_tenth_datagram_is_lost(lossy_network: None, start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(10_000, timeout_s=120)
        demand_agreement(cluster, [writer])


def test_crashes_while_every_tenth_datagram_is_lost(lossy_network: None, start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints, reopens=True, message_timeout_ns=30_000_000_000) as writer:
        writer.write(1000)
        leader = kill_leader(cluster, writer)
        writer.write(1000, timeout_s=120)
        cluster.start_member(leader)
        follower = next(one for one in cluster.member_ids if one not in (leader, cluster.await_leader()))
        demand_agreement(cluster, [writer])
        cluster.kill(follower)
        cluster.wipe(follower)
        cluster.start_member(follower)
        writer.write(3000, timeout_s=120)
        demand_agreement(cluster, [writer])


def kill_leader(cluster: LocalCluster, writer: Writer) -> int:
    target = writer.acked + 500
    writer.run(lambda: writer.acked > target)
    leader = cluster.await_leader()
    cluster.kill(leader)
    return leader
