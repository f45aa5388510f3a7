"""Names between an Ordo driver and an Aeron driver: each reaches the other by the name that it was told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.cluster.monitoring.counters import read_counters
from tests.peers.java_peer import JavaPeers
from tests.peers.ordo_peer import OrdoDriver, await_that, await_two, connect, exchange
from tests.peers.peer_process import PeerProcess

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(120)]


def cache_entries(folder: Path) -> int:
    return next((one.value for one in read_counters(folder) if one.type_id == 16), 0)


def test_names_are_told_both_ways(
    java: JavaPeers, start_driver: Callable[..., OrdoDriver], free_port: Callable[[], int], shm_path: Path
) -> None:
    ours, theirs, there, back = (free_port() for _ in range(4))
    folder = shm_path / "java"
    driver = start_driver(resolver_name="ordo", resolver_interface=f"127.0.0.1:{ours}")
    command = java.command(
        "io.aeron.driver.MediaDriver",
        aeron_dir=folder,
        aeron_driver_resolver_name="java",
        aeron_driver_resolver_interface=f"127.0.0.1:{theirs}",
        aeron_driver_resolver_bootstrap_neighbor=f"127.0.0.1:{ours}",
    )
    gossip = driver.driver.context.names.gossip
    assert gossip is not None
    with PeerProcess(command), connect(str(folder)) as java_client, driver.connect() as client:
        await_that(lambda: gossip.lookup("java") == "127.0.0.1", client, "the name of the Aeron driver")
        await_that(lambda: cache_entries(folder) == 1, client, "our name, at the Aeron driver")
        subscription = client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{back}", 10)
        far_subscription = java_client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{there}", 10)
        publication = client.add_publication(f"aeron:udp?endpoint=java:{there}", 10)
        far_publication = java_client.add_publication(f"aeron:udp?endpoint=ordo:{back}", 10)
        await_that(lambda: publication.is_connected and far_publication.is_connected, client, "the connections")
        await_two(
            lambda: far_subscription.is_connected and subscription.is_connected, client, java_client, "the images"
        )
        exchange(java_client, publication, far_subscription, [100, 5_000])
        exchange(client, far_publication, subscription, [100, 5_000])
    assert not driver.errors
