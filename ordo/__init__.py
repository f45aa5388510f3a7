"""Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node.

Everything a user imports is here: the base class of a service and what its callbacks see, the clients, and the errors.
`ordo.testing` tests services and starts clusters on one machine; `ordo.errors` has the whole tree of exceptions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from runtime.errors import OrdoError, Reject
from runtime.version import VERSION as __version__

if TYPE_CHECKING:
    from archive.catalog import RecordingDescriptor
    from archive.client.async_client import AsyncArchiveClient, AsyncReplayStream
    from archive.client.async_subscription import AsyncPersistentSubscription
    from archive.client.client import ArchiveClient
    from archive.client.persistent_subscription import PersistentSubscription
    from archive.client.replay import RecordedMessage, ReplayStream
    from archive.client.session import SignalEvent
    from archive.client.settings import ArchiveClientSettings
    from archive.control.codes import RecordingSignal
    from cluster.client.acknowledgements import Acknowledged, HandedOver, Unsequenced
    from cluster.client.async_client import AsyncClusterClient, ServiceMessage
    from cluster.client.async_feeds import AsyncFeedReader
    from cluster.client.async_requests import AsyncPendingRequest
    from cluster.client.endpoints import endpoints_from_dns, endpoints_from_file
    from cluster.client.feeds import FeedMessage, FeedReader
    from cluster.client.query import PendingQuery, QueryReply
    from cluster.client.request_window import Answer, PendingRequest
    from cluster.client.session import ClientEvent, ClientState, ClusterClient
    from cluster.client.settings import ClientSettings
    from cluster.client.tracing import Tracing
    from cluster.wire.codecs import EventCode
    from pipeline.local import read as read
    from runtime.authentication import Authenticator, Right, SessionProxy
    from runtime.credentials import credentials_from_environment, credentials_from_file
    from sequencer.async_consumer import AsyncConsumer, AsyncSharedConsumer
    from sequencer.consumer import Consumer
    from sequencer.entries import EntryKind, LogEntry
    from sequencer.reader import LogReader
    from sequencer.shared_consumer import SharedConsumer
    from sequencer.shared_member import Delivery
    from service_api.composition import Composition
    from service_api.native import Header, NativeClusteredService, NativeSession
    from service_api.service import (
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
    from service_api.snapshot import SnapshotReader, SnapshotWriter

__all__ = [
    "Acknowledged",
    "Answer",
    "ArchiveClient",
    "ArchiveClientSettings",
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
    "Delivery",
    "EntryKind",
    "EventCode",
    "FeedMessage",
    "FeedReader",
    "HandedOver",
    "Header",
    "LogEntry",
    "LogReader",
    "MessageRun",
    "NativeClusteredService",
    "NativeSession",
    "NewLeadershipTermEvent",
    "OfferResult",
    "OrdoError",
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
    "Right",
    "Role",
    "ServiceMessage",
    "SessionProxy",
    "SharedConsumer",
    "SignalEvent",
    "SnapshotReader",
    "SnapshotWriter",
    "TimeUnit",
    "Tracing",
    "Unsequenced",
    "__version__",
    "credentials_from_environment",
    "credentials_from_file",
    "endpoints_from_dns",
    "endpoints_from_file",
]  # and `read`, below: not here, so that `from ordo import *` works without pyarrow


_HOMES = {
    "Acknowledged": "cluster.client.acknowledgements",
    "Answer": "cluster.client.request_window",
    "ArchiveClient": "archive.client.client",
    "ArchiveClientSettings": "archive.client.settings",
    "AsyncArchiveClient": "archive.client.async_client",
    "AsyncClusterClient": "cluster.client.async_client",
    "AsyncConsumer": "sequencer.async_consumer",
    "AsyncSharedConsumer": "sequencer.async_consumer",
    "AsyncFeedReader": "cluster.client.async_feeds",
    "AsyncPendingRequest": "cluster.client.async_requests",
    "AsyncPersistentSubscription": "archive.client.async_subscription",
    "AsyncReplayStream": "archive.client.async_client",
    "Authenticator": "runtime.authentication",
    "ClientEvent": "cluster.client.session",
    "ClientSession": "service_api.service",
    "ClientSettings": "cluster.client.settings",
    "ClientState": "cluster.client.session",
    "CloseReason": "service_api.service",
    "Cluster": "service_api.service",
    "ClusterClient": "cluster.client.session",
    "ClusteredService": "service_api.service",
    "Composition": "service_api.composition",
    "Consumer": "sequencer.consumer",
    "Delivery": "sequencer.shared_member",
    "EntryKind": "sequencer.entries",
    "EventCode": "cluster.wire.codecs",
    "FeedMessage": "cluster.client.feeds",
    "FeedReader": "cluster.client.feeds",
    "HandedOver": "cluster.client.acknowledgements",
    "Header": "service_api.native",
    "LogEntry": "sequencer.entries",
    "LogReader": "sequencer.reader",
    "MessageRun": "service_api.service",
    "NativeClusteredService": "service_api.native",
    "NativeSession": "service_api.native",
    "NewLeadershipTermEvent": "service_api.service",
    "OfferResult": "service_api.service",
    "Payload": "service_api.service",
    "PendingQuery": "cluster.client.query",
    "PendingRequest": "cluster.client.request_window",
    "PersistentSubscription": "archive.client.persistent_subscription",
    "QueryReply": "cluster.client.query",
    "RecordedMessage": "archive.client.replay",
    "RecordingDescriptor": "archive.catalog",
    "RecordingSignal": "archive.control.codes",
    "ReplayStream": "archive.client.replay",
    "Right": "runtime.authentication",
    "Role": "service_api.service",
    "ServiceMessage": "cluster.client.async_client",
    "SharedConsumer": "sequencer.shared_consumer",
    "SessionProxy": "runtime.authentication",
    "SignalEvent": "archive.client.session",
    "SnapshotReader": "service_api.snapshot",
    "SnapshotWriter": "service_api.snapshot",
    "TimeUnit": "service_api.service",
    "Tracing": "cluster.client.tracing",
    "Unsequenced": "cluster.client.acknowledgements",
    "credentials_from_environment": "runtime.credentials",
    "credentials_from_file": "runtime.credentials",
    "endpoints_from_dns": "cluster.client.endpoints",
    "endpoints_from_file": "cluster.client.endpoints",
}
"""Where the public names are written. A module is imported when a name of it is first used, so that a program which
needs one of them, such as the command line, starts without the others."""


if not TYPE_CHECKING:  # which would take every name for a public one

    def __getattr__(name: str) -> Any:
        """Finds a public name, and `read`, which needs pyarrow and brings it in when it is first used."""
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
        from pipeline.local import read
    except ModuleNotFoundError as error:
        raise OrdoError(f"ordo.read needs {error.name}; run: pip install 'ordo-sequencer[local]'") from error
    return read
