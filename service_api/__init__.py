"""What a user of Ordo writes a service against."""

from runtime.errors import Reject
from service_api.native import Header
from service_api.service import (
    ClientSession,
    CloseReason,
    Cluster,
    ClusteredService,
    MessageRun,
    NewLeadershipTermEvent,
    Role,
    TimeUnit,
)
from service_api.snapshot import SnapshotReader, SnapshotWriter

__all__ = [
    "ClientSession",
    "CloseReason",
    "Cluster",
    "ClusteredService",
    "Header",
    "MessageRun",
    "NewLeadershipTermEvent",
    "Reject",
    "Role",
    "SnapshotReader",
    "SnapshotWriter",
    "TimeUnit",
]
