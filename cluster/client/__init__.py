"""The cluster client, plain and for asyncio."""

from cluster.client.acknowledgements import Acknowledged, HandedOver, Unsequenced
from cluster.client.async_client import AsyncClusterClient
from cluster.client.async_feeds import AsyncFeedReader
from cluster.client.endpoints import endpoints_from_dns, endpoints_from_file
from cluster.client.feeds import FeedMessage, FeedReader
from cluster.client.query import PendingQuery, QueryReply
from cluster.client.request_window import Answer, PendingRequest
from cluster.client.session import ClientEvent, ClientState, ClusterClient
from cluster.client.settings import ClientSettings
from cluster.client.tracing import Tracing
from runtime.credentials import credentials_from_environment, credentials_from_file
from transport.client_transport import ClientTransport

__all__ = [
    "Acknowledged",
    "Answer",
    "AsyncClusterClient",
    "AsyncFeedReader",
    "ClientEvent",
    "ClientSettings",
    "ClientState",
    "ClientTransport",
    "ClusterClient",
    "FeedMessage",
    "FeedReader",
    "HandedOver",
    "PendingQuery",
    "PendingRequest",
    "QueryReply",
    "Tracing",
    "Unsequenced",
    "credentials_from_environment",
    "credentials_from_file",
    "endpoints_from_dns",
    "endpoints_from_file",
]
