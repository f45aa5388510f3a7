"""A node with the media driver of another process, which must be alive and serve no other node of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.runtime.errors import ClusterError
from ordo.transport.client.client import TransportClient

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.native.memory import MemoryProvider

GRACE_NS = 2_000_000_000
"""Beyond the time in which a driver gives up on a client that died."""


def connect_shared_driver(config: NodeSettings, clock: Clock, memory: MemoryProvider) -> TransportClient:
    """Return a client of the running driver in the configuration's `aeron_dir`.

    What a predecessor that was killed has left there is waited for. Raises DriverTimeoutError when no driver lives
    there, ClusterError when another node of the same cluster id uses it.
    """
    client = TransportClient(str(config.aeron_dir), clock=clock, memory=memory, name=f"node-{config.node.member_id}")
    try:
        deadline_ns = clock.now() + client.client_liveness_timeout_ns + GRACE_NS
        while find_counter(client.counters, CounterType.MODULE_STATE, config.cluster.cluster_id) >= 0:
            if clock.now() > deadline_ns:
                raise ClusterError(
                    f"another node of cluster id={config.cluster.cluster_id} uses the driver in {config.aeron_dir}: "
                    "members of one cluster need a driver each, clusters that share one need different ids"
                )
            client.do_work(clock.now())
            client.idle()
    except BaseException:
        client.close()
        raise
    return client
