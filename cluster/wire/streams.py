"""Stream ids and local channels of a cluster (cluster-consensus.md §3, §6, §12; cluster-client.md §1)."""

from __future__ import annotations

from ordo.transport.uri import ChannelUri

LOG_STREAM_ID = 100
INGRESS_STREAM_ID = 101
EGRESS_STREAM_ID = 102
TO_SERVICE_STREAM_ID = 104
"""From the consensus module to its service container."""
TO_MODULE_STREAM_ID = 105
"""From the service container, and from tools of the same machine, to the consensus module."""
SERVICE_SNAPSHOT_STREAM_ID = 106
MODULE_SNAPSHOT_STREAM_ID = 107
CONSENSUS_STREAM_ID = 108
QUERY_STREAM_ID = 109
"""Ordo's own: queries from the consensus module to its service container."""
OPERATOR_STREAM_ID = 110
"""Ordo's own: from a member to an operator."""

LOG_REPAIR_STREAM_ID = 111
"""Ordo's own: a stretch of the log, from one member to another whose copy of it was damaged."""

FEED_STREAM_ID = 112
"""Ordo's own: what a service publishes to a topic, from its container to the archive of the same node."""

MAIN_SERVICE_ID = 0
"""The service that answers requests and queries, and on whose streams tools of the machine ask."""
SERVICES_MAX = 10
"""So many services a node may have (cluster-service-api.md)."""
OTHER_SERVICES_STREAM_IDS = {TO_SERVICE_STREAM_ID: 113, TO_MODULE_STREAM_ID: 114, QUERY_STREAM_ID: 115}
"""Ordo's own: the streams of the services 1 to 9 that have ids of their own, by those of service 0."""

LOCAL_STREAMS_STEP = 16


def local_stream(stream_id: int, cluster_id: int) -> int:
    """Return the id of a stream over shared memory in a cluster: the plain one in cluster 0.

    A driver tells streams over shared memory by their ids alone, so that clusters which share one need different ids.
    """
    return (stream_id + LOCAL_STREAMS_STEP * cluster_id + (1 << 31)) % (1 << 32) - (1 << 31)


SEVERAL_SERVICES_CLUSTER_ID_MAX = (1 << 32) // LOCAL_STREAMS_STEP // (SERVICES_MAX - 1) - 1
"""Up to here clusters with several services have different streams on a driver that they share."""


def service_stream(stream_id: int, cluster_id: int, service_id: int) -> int:
    """Return the id of a stream of one service: the plain one of service 0, which tools use, too.

    Each service has a pair of control streams of its own, so that its module can keep one waiting, and hear from the
    others. Those of the services 1 to 9 have ids that end as no other stream of any cluster does.
    """
    if service_id == 0:
        return local_stream(stream_id, cluster_id)
    return local_stream(OTHER_SERVICES_STREAM_IDS[stream_id], (SERVICES_MAX - 1) * cluster_id + service_id - 1)


def own_streams(cluster_id: int) -> set[int]:
    """Return the streams over shared memory that a cluster uses itself; clients are answered on others."""
    plain = {local_stream(one, cluster_id) for one in range(LOG_STREAM_ID, FEED_STREAM_ID + 1)}
    others = {
        service_stream(one, cluster_id, service_id)
        for one in OTHER_SERVICES_STREAM_IDS
        for service_id in range(1, SERVICES_MAX)
    }
    return plain - {local_stream(EGRESS_STREAM_ID, cluster_id)} | others


CONTROL_CHANNEL = "aeron:ipc?term-length=128k|alias=service-control"
QUERY_CHANNEL = "aeron:ipc?term-length=1m|alias=queries"
SNAPSHOT_CHANNEL = "aeron:ipc?alias=snapshot|term-length=1m"
EGRESS_POLICY_KEY = "egress-policy"
"""In a response channel: what is done with a client that takes too little (docs/CLIENT.md, Slow clients)."""
FEED_TERM_LENGTH_BYTES = 256 * 1024
FEED_ALIAS = "feed."
FEED_MTU_BYTES = 1408
"""Positions in the stream of a topic are the same on all members only where terms and fragments are."""


def feed_alias(topic: str) -> str:
    """Return what names the topic of a stream, and of its recording, in their channel."""
    return f"{FEED_ALIAS}{topic}"


def topic_of(channel: str) -> str | None:
    """Return the topic of a recording of this channel; None: it is that of no topic."""
    alias = (ChannelUri.parse(channel).get("alias") or "") if is_feed(channel) else ""
    return alias.removeprefix(FEED_ALIAS) if alias.startswith(FEED_ALIAS) else None


def is_feed(channel: str) -> bool:
    """Return whether a recording of this channel is that of a topic."""
    return f"alias={FEED_ALIAS}" in channel
