"""The load of the benchmarks, where its cluster changes."""

from __future__ import annotations

import threading

import pytest

from ordo.bench.loads.native_load import NativeLoad
from ordo.runtime.errors import ClusterTimeoutError
from tests.cluster.integration.conftest import StartCluster, start_cluster

__all__ = ["start_cluster"]


def test_a_load_says_that_its_leader_was_replaced(start_cluster: StartCluster) -> None:
    """It waited for 20 s for what was lost with the leader, and said that no echo came."""
    cluster = start_cluster("ordo.bench.loads.echo:Echo")
    with NativeLoad(cluster.ingress_endpoints, 32) as load:
        load.sustained(0.1, 500, 64)
        killer = threading.Timer(0.3, lambda: cluster.kill(cluster.await_leader()))
        killer.start()
        with pytest.raises(ClusterTimeoutError, match="has become leader: messages were lost"):
            load.sustained(60, 500, 64)
        killer.join()
    with NativeLoad(cluster.ingress_endpoints, 32) as load:
        assert load.sustained(0.1, 500, 64) > 0
