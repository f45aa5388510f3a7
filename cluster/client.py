"""The cluster client, plain and for asyncio."""

from cluster.client_async import AsyncClusterClient
from cluster.client_query import PendingQuery, QueryReply
from cluster.client_session import ClientSettings, ClientState, ClusterClient
from cluster.client_transport import ClientTransport

__all__ = [
    "AsyncClusterClient",
    "ClientSettings",
    "ClientState",
    "ClientTransport",
    "ClusterClient",
    "PendingQuery",
    "QueryReply",
]
