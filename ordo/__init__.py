"""Ordo, a sequencer: one total order over a replicated log, delivered to your service on every node.

Everything a user imports is here: the base class of a service and what its callbacks see, the clients, and the errors.
`ordo.testing` tests services and starts clusters on one machine; `ordo.errors` has the whole tree of exceptions.
"""

from typing import TYPE_CHECKING, Any

from archive.catalog import RecordingDescriptor
from archive.client.client import ArchiveClient
from archive.client.replay import RecordedMessage, ReplayStream
from archive.client.session import SignalEvent
from archive.client.settings import ArchiveClientSettings
from archive.control.codes import RecordingSignal
from cluster.client import (
    Answer,
    AsyncClusterClient,
    ClientSettings,
    ClientState,
    ClusterClient,
    PendingQuery,
    PendingRequest,
    QueryReply,
)
from cluster.client.async_client import ServiceMessage
from cluster.wire.codecs import EventCode
from runtime.errors import OrdoError, Reject
from runtime.version import VERSION as __version__
from sequencer.entries import EntryKind, LogEntry
from sequencer.reader import LogReader
from service_api.native import Header, NativeClusteredService, NativeSession
from service_api.service import (
    ClientSession,
    CloseReason,
    Cluster,
    ClusteredService,
    NewLeadershipTermEvent,
    OfferResult,
    Payload,
    Role,
    TimeUnit,
)
from service_api.snapshot import SnapshotReader, SnapshotWriter

if TYPE_CHECKING:
    from pipeline.local import read as read

__all__ = [
    "Answer",
    "ArchiveClient",
    "ArchiveClientSettings",
    "AsyncClusterClient",
    "ClientSession",
    "ClientSettings",
    "ClientState",
    "CloseReason",
    "Cluster",
    "ClusterClient",
    "ClusteredService",
    "EntryKind",
    "EventCode",
    "Header",
    "LogEntry",
    "LogReader",
    "NativeClusteredService",
    "NativeSession",
    "NewLeadershipTermEvent",
    "OfferResult",
    "OrdoError",
    "Payload",
    "PendingQuery",
    "PendingRequest",
    "QueryReply",
    "RecordedMessage",
    "RecordingDescriptor",
    "RecordingSignal",
    "ReplayStream",
    "Reject",
    "Role",
    "ServiceMessage",
    "SignalEvent",
    "SnapshotReader",
    "SnapshotWriter",
    "TimeUnit",
    "__version__",
]  # and `read`, below: not here, so that `from ordo import *` works without pyarrow


def __getattr__(name: str) -> Any:
    """`read` needs pyarrow, and brings it in when it is first used."""
    if name != "read":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pipeline.local import read
    except ModuleNotFoundError as error:
        raise OrdoError(f"ordo.read needs {error.name}; run: pip install 'ordo[local]'") from error
    return read
