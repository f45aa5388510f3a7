"""The cluster client, plain and for asyncio."""

from cluster.client.async_client import AsyncClusterClient
from cluster.client.query import PendingQuery, QueryReply
from cluster.client.session import ClientState, ClusterClient
from cluster.client.settings import ClientSettings
from transport.client_transport import ClientTransport

__all__ = [
    "AsyncClusterClient",
    "ClientSettings",
    "ClientState",
    "ClientTransport",
    "ClusterClient",
    "PendingQuery",
    "QueryReply",
]
