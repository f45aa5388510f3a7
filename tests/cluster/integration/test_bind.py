"""Where a node listens is one thing, where the others send to another (`[node] bind`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo import ClusterClient
from tests.cluster.integration.conftest import StartCluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("executed_nodes")]


def listening() -> set[str]:
    """Addresses and ports of the machine's UDP sockets, in the kernel's hexadecimal."""
    return {line.split()[1] for line in Path("/proc/net/udp").read_text().splitlines()[1:]}


def test_members_that_are_known_by_name_listen_at_every_address(start_cluster: StartCluster) -> None:
    cluster = start_cluster(
        "ordo.starter.counter:Counter",
        hosts=dict.fromkeys(range(3), "localhost"),
        node={"bind": "0.0.0.0"},
    )
    leader = cluster.await_leader()
    endpoints = cluster.ingress_endpoints
    assert all(endpoint.startswith("localhost:") for endpoint in endpoints.values())
    ports = [int(endpoint.rpartition(":")[2]) for endpoint in endpoints.values()]
    wanted = {f"00000000:{port + offset:04X}" for port in ports for offset in (0, 1)}  # ingress and consensus
    assert wanted <= listening()
    with ClusterClient(endpoints) as client:
        assert client.request(b"1").payload == b"1"
        cluster.kill(leader)
        assert client.request(b"2", timeout_s=patient(60)).payload == b"3"
        cluster.restart(leader)  # it gets what it missed at its own endpoint for catch-ups
        cluster.kill(cluster.await_leader(other_than=leader))
        assert client.request(b"3", timeout_s=patient(60)).payload == b"6"
