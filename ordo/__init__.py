"""Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node.

Everything a user imports is here: the base class of a service and what its callbacks see, the clients, and the errors.
`ordo.testing` tests services and starts clusters on one machine; `ordo.errors` has the whole tree of exceptions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ordo.runtime.errors import OrdoError, Reject
from ordo.runtime.version import VERSION as __version__

if TYPE_CHECKING:
    from ordo.archive.client.async_client import AsyncArchiveClient, AsyncReplayStream
    from ordo.archive.client.async_subscription import AsyncPersistentSubscription
    from ordo.archive.client.client import ArchiveClient
    from ordo.archive.client.persistent_subscription import PersistentSubscription
    from ordo.archive.client.replay import RecordedMessage, ReplayStream
    from ordo.archive.client.session import SignalEvent
    from ordo.archive.client.settings import ArchiveClientSettings
    from ordo.archive.protocol.codes import RecordingSignal
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.cluster.client.acknowledgements import Acknowledged, HandedOver, Unsequenced
    from ordo.cluster.client.async_client import AsyncClusterClient, ServiceMessage
    from ordo.cluster.client.async_requests import AsyncPendingRequest
    from ordo.cluster.client.connection.endpoints import endpoints_from_dns, endpoints_from_file
    from ordo.cluster.client.query import PendingQuery, QueryReply
    from ordo.cluster.client.requests.request_window import Answer, PendingRequest
    from ordo.cluster.client.requests.tracing import Tracing
    from ordo.cluster.client.session import ClusterClient
    from ordo.cluster.client.session_states import ClientEvent, ClientState
    from ordo.cluster.client.settings import ClientSettings
    from ordo.cluster.wire.codecs import EventCode
    from ordo.consumers.async_consumer import AsyncConsumer, AsyncSharedConsumer
    from ordo.consumers.consumer import Consumer
    from ordo.consumers.consumer_orders import ConsumerOrders
    from ordo.consumers.shared_consumer import SharedConsumer
    from ordo.consumers.shared_member import Delivery
    from ordo.follow.beginnings import AtSequence, AtTime
    from ordo.follow.entries import EntryKind, LogEntry
    from ordo.follow.log_schemas import LogSchemas, schemas_of
    from ordo.follow.reader import LogReader
    from ordo.follow.topics.async_feeds import AsyncFeedReader
    from ordo.follow.topics.feeds import FeedMessage, FeedReader
    from ordo.gateway.kafka.service.topics import Topics
    from ordo.ordering import Ordering
    from ordo.pipeline.decoding.envelope import SequenceFilter
    from ordo.pipeline.sql.local import read as read
    from ordo.runtime.security.authentication import Authenticator, Right, SessionProxy
    from ordo.runtime.security.credentials import credentials_from_environment, credentials_from_file
    from ordo.service_api.composition import Composition
    from ordo.service_api.messages.codec import decode, encode
    from ordo.service_api.messages.message import message
    from ordo.service_api.messages.request import Request
    from ordo.service_api.messages.typed_service import TypedService, handles
    from ordo.service_api.native import Header, NativeClusteredService, NativeSession
    from ordo.service_api.service import (
        ClientSession,
        CloseReason,
        Cluster,
        ClusteredService,
        MessageRun,
        NewLeadershipTermEvent,
        OfferResult,
        Payload,
        Role,
        TimeUnit,
    )
    from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

__all__ = [
    "Acknowledged",
    "Answer",
    "ArchiveClient",
    "ArchiveClientSettings",
    "AtSequence",
    "AtTime",
    "Authenticator",
    "AsyncArchiveClient",
    "AsyncClusterClient",
    "AsyncConsumer",
    "AsyncSharedConsumer",
    "AsyncFeedReader",
    "AsyncPendingRequest",
    "AsyncPersistentSubscription",
    "AsyncReplayStream",
    "ClientEvent",
    "ClientSession",
    "ClientSettings",
    "ClientState",
    "CloseReason",
    "Cluster",
    "ClusterClient",
    "ClusteredService",
    "Composition",
    "Consumer",
    "ConsumerOrders",
    "Delivery",
    "EntryKind",
    "EventCode",
    "FeedMessage",
    "FeedReader",
    "HandedOver",
    "Header",
    "LogEntry",
    "LogReader",
    "LogSchemas",
    "MessageRun",
    "NativeClusteredService",
    "NativeSession",
    "NewLeadershipTermEvent",
    "OfferResult",
    "OrdoError",
    "Ordering",
    "Payload",
    "PendingQuery",
    "PendingRequest",
    "PersistentSubscription",
    "QueryReply",
    "RecordedMessage",
    "RecordingDescriptor",
    "RecordingSignal",
    "ReplayStream",
    "Reject",
    "Request",
    "Right",
    "Role",
    "SequenceFilter",
    "ServiceMessage",
    "SessionProxy",
    "SharedConsumer",
    "SignalEvent",
    "SnapshotReader",
    "SnapshotWriter",
    "TimeUnit",
    "Topics",
    "Tracing",
    "TypedService",
    "Unsequenced",
    "__version__",
    "credentials_from_environment",
    "credentials_from_file",
    "decode",
    "encode",
    "endpoints_from_dns",
    "endpoints_from_file",
    "handles",
    "message",
    "schemas_of",
]  # and `read`, below: not here, so that `from ordo import *` works without pyarrow


_HOMES = {
    "Acknowledged": "ordo.cluster.client.acknowledgements",
    "Answer": "ordo.cluster.client.requests.request_window",
    "ArchiveClient": "ordo.archive.client.client",
    "ArchiveClientSettings": "ordo.archive.client.settings",
    "AsyncArchiveClient": "ordo.archive.client.async_client",
    "AsyncClusterClient": "ordo.cluster.client.async_client",
    "AsyncConsumer": "ordo.consumers.async_consumer",
    "AsyncSharedConsumer": "ordo.consumers.async_consumer",
    "AsyncFeedReader": "ordo.follow.topics.async_feeds",
    "AsyncPendingRequest": "ordo.cluster.client.async_requests",
    "AsyncPersistentSubscription": "ordo.archive.client.async_subscription",
    "AsyncReplayStream": "ordo.archive.client.async_client",
    "AtSequence": "ordo.follow.beginnings",
    "AtTime": "ordo.follow.beginnings",
    "Authenticator": "ordo.runtime.security.authentication",
    "ClientEvent": "ordo.cluster.client.session_states",
    "ClientSession": "ordo.service_api.service",
    "ClientSettings": "ordo.cluster.client.settings",
    "ClientState": "ordo.cluster.client.session_states",
    "CloseReason": "ordo.service_api.service",
    "Cluster": "ordo.service_api.service",
    "ClusterClient": "ordo.cluster.client.session",
    "ClusteredService": "ordo.service_api.service",
    "Composition": "ordo.service_api.composition",
    "Consumer": "ordo.consumers.consumer",
    "ConsumerOrders": "ordo.consumers.consumer_orders",
    "Delivery": "ordo.consumers.shared_member",
    "EntryKind": "ordo.follow.entries",
    "EventCode": "ordo.cluster.wire.codecs",
    "FeedMessage": "ordo.follow.topics.feeds",
    "FeedReader": "ordo.follow.topics.feeds",
    "HandedOver": "ordo.cluster.client.acknowledgements",
    "Header": "ordo.service_api.native",
    "LogEntry": "ordo.follow.entries",
    "LogReader": "ordo.follow.reader",
    "LogSchemas": "ordo.follow.log_schemas",
    "MessageRun": "ordo.service_api.service",
    "NativeClusteredService": "ordo.service_api.native",
    "NativeSession": "ordo.service_api.native",
    "NewLeadershipTermEvent": "ordo.service_api.service",
    "Ordering": "ordo.ordering",
    "OfferResult": "ordo.service_api.service",
    "Payload": "ordo.service_api.service",
    "PendingQuery": "ordo.cluster.client.query",
    "PendingRequest": "ordo.cluster.client.requests.request_window",
    "PersistentSubscription": "ordo.archive.client.persistent_subscription",
    "QueryReply": "ordo.cluster.client.query",
    "RecordedMessage": "ordo.archive.client.replay",
    "RecordingDescriptor": "ordo.archive.segments.catalog",
    "RecordingSignal": "ordo.archive.protocol.codes",
    "ReplayStream": "ordo.archive.client.replay",
    "Request": "ordo.service_api.messages.request",
    "Right": "ordo.runtime.security.authentication",
    "Role": "ordo.service_api.service",
    "SequenceFilter": "ordo.pipeline.decoding.envelope",
    "ServiceMessage": "ordo.cluster.client.async_client",
    "SharedConsumer": "ordo.consumers.shared_consumer",
    "SessionProxy": "ordo.runtime.security.authentication",
    "SignalEvent": "ordo.archive.client.session",
    "SnapshotReader": "ordo.service_api.snapshot",
    "SnapshotWriter": "ordo.service_api.snapshot",
    "TimeUnit": "ordo.service_api.service",
    "Topics": "ordo.gateway.kafka.service.topics",
    "Tracing": "ordo.cluster.client.requests.tracing",
    "TypedService": "ordo.service_api.messages.typed_service",
    "Unsequenced": "ordo.cluster.client.acknowledgements",
    "credentials_from_environment": "ordo.runtime.security.credentials",
    "credentials_from_file": "ordo.runtime.security.credentials",
    "decode": "ordo.service_api.messages.codec",
    "encode": "ordo.service_api.messages.codec",
    "endpoints_from_dns": "ordo.cluster.client.connection.endpoints",
    "endpoints_from_file": "ordo.cluster.client.connection.endpoints",
    "handles": "ordo.service_api.messages.typed_service",
    "message": "ordo.service_api.messages.message",
    "schemas_of": "ordo.follow.log_schemas",
}
"""Where the public names are written. A module is imported when a name of it is first used, so that a program which
needs one of them, such as the command line, starts without the others."""


if not TYPE_CHECKING:  # which would take every name for a public one

    def __getattr__(name: str) -> Any:
        """Find a public name, and `read`, which needs pyarrow and bring it in when it is first used."""
        if name == "read":
            return _read()
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _read() -> Any:
    try:
        from ordo.pipeline.sql.local import read
    except ModuleNotFoundError as error:
        raise OrdoError(f"ordo.read needs {error.name}; run: pip install 'ordo-sequencer[local]'") from error
    return read
