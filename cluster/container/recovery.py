"""Where a container starts: what its node's counters say of the snapshot, the log, and how far it is committed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType, find_counter

if TYPE_CHECKING:
    from ordo.runtime.native.counters import Counter, CountersReader

NODE_COUNTERS = (
    CounterType.RECOVERY_STATE,
    CounterType.LOG_RECORDING,
    CounterType.COMMIT_POSITION,
    CounterType.LEADER_TERM,
    CounterType.SERVICE_POSITION,
)
"""What the consensus module allocates before a service can start; the last is the container's to write."""
_RECOVERY_KEY = struct.Struct("<qqqii")


class SnapshotPoint(NamedTuple):
    """The record after which a snapshot was taken, and the recording that has the service's part of it."""

    log_position: int
    timestamp: int
    leadership_term_id: int
    recording_id: int


class Recovery(NamedTuple):
    """What a node has told a container of its start. Without a snapshot the log is executed from its beginning."""

    snapshot: SnapshotPoint | None
    log_recording: Counter
    """The id of the log's recording; negative until the node records it."""
    positions: list[Counter]
    """The counters that `ContainerLoop.follow` takes: commit position, term that the member leads, service position."""
    is_standby: bool
    """Whether the node is a standby, whose log another cluster's members send."""


def find_recovery(counters: CountersReader, cluster_id: int, service_id: int) -> Recovery | None:
    """Return what a node has told, or None when it has not yet."""
    ids = [find_counter(counters, kind, cluster_id, service_id) for kind in NODE_COUNTERS]
    if min(ids) < 0:
        return None
    described = counters.describe(ids[0])
    assert described is not None
    log_recording, *positions = (counters.counter(counter_id) for counter_id in ids[1:])
    is_standby = find_counter(counters, CounterType.STANDBY_SNAPSHOTS, cluster_id) >= 0
    return Recovery(_snapshot_point(described.key, service_id), log_recording, positions, is_standby)


def _snapshot_point(key: bytes, service_id: int) -> SnapshotPoint | None:
    leadership_term_id, log_position, timestamp, _, service_count = _RECOVERY_KEY.unpack_from(key)
    if leadership_term_id < 0 or service_count <= service_id:
        return None
    (recording_id,) = struct.unpack_from("<q", key, _RECOVERY_KEY.size + 8 * service_id)
    return SnapshotPoint(log_position, timestamp, leadership_term_id, recording_id)
