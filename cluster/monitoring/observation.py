"""One look at a node from outside: its counters, its disks, and whether it lives and is ready."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ordo.cluster.monitoring.counter_values import NOT_THERE, has_quorum
from ordo.cluster.monitoring.counters import open_cnc
from ordo.cluster.wire.counters.counter_types import CounterType, Room, find_counter, is_of_cluster
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import StorageError
from ordo.runtime.native.counters import CounterDescriptor, CountersReader
from ordo.runtime.native.durations import Durations
from ordo.runtime.native.memory import FileMemoryProvider

READY_HEARTBEAT_MS = 2_000
LIVE_HEARTBEAT_MS = 10_000
"""A stall of a few seconds is no reason to have a node killed and started again."""
_RECORDING_ID = struct.Struct("<q")
CLUSTER_TYPES = frozenset(CounterType) - {CounterType.RECORDING_POSITION, CounterType.DRIVER_PARK_FLAG}
_TYPES_FOR_PROBES = (CounterType.MODULE_STATE, CounterType.ELECTION_STATE, CounterType.DISTRUST, CounterType.NO_ROOM)


@dataclass(frozen=True)
class Subject:
    """The node that is looked at."""

    member_id: int
    cluster_id: int
    aeron_dir: Path
    data_dir: Path
    disk_free_bytes_min: int = 0
    """With less room below `data_dir` the node is not ready."""
    clock_error_ns_max: int = 1_000_000_000
    """With a greater bound on the error of the machine's clock an alert fires."""


@dataclass(frozen=True)
class Observation:
    """`values` has the first counter of each of the cluster's types; `counters` is empty unless all were asked for."""

    heartbeat_age_ms: int | None
    """None: there is no driver."""
    data_free_bytes: int = 0
    values: dict[int, int] = field(default_factory=dict)
    counters: tuple[CounterDescriptor, ...] = ()
    durations: dict[str, Durations] = field(default_factory=dict)
    """Keyed by stage (ordo.cluster.wire.counters.latencies), if all was asked for."""

    @property
    def has_quorum(self) -> bool:
        values = self.values
        return has_quorum(
            values.get(CounterType.ELECTION_STATE, NOT_THERE), values.get(CounterType.MODULE_STATE, NOT_THERE)
        )

    def why_not_live(self) -> str:
        """Return why the node is not alive, in one line, or ''."""
        if self.heartbeat_age_ms is None:
            return "there is no driver: the node does not run, or has not come so far"
        if self.heartbeat_age_ms > LIVE_HEARTBEAT_MS:
            return f"the node's last heartbeat is {self.heartbeat_age_ms / 1000:.1f} s old"
        return ""

    def why_not_ready(self, disk_free_bytes_min: int) -> str:
        """Return why the node is not ready, in one line, or '': no quorum, distrust, or no room."""
        if self.heartbeat_age_ms is None or self.heartbeat_age_ms > READY_HEARTBEAT_MS:
            return self.why_not_live() or f"the node's last heartbeat is {self.heartbeat_age_ms} ms old"
        if not self.has_quorum:
            return "no quorum: the member neither leads nor follows"
        distrust = Distrust(self.values.get(CounterType.DISTRUST, 0))
        if distrust:
            right = "vote" if distrust.is_loss else "lead"
            return f"the member may not {right} (distrust: {distrust.name})"
        if room := self.values.get(CounterType.NO_ROOM, 0):
            return f"the disk of data_dir is full ({Room(room).name}): {self.data_free_bytes} bytes are free"
        if self.data_free_bytes < disk_free_bytes_min:
            return f"{self.data_free_bytes} bytes are free on the disk of data_dir, disk_free_min={disk_free_bytes_min}"
        return ""


def observe(subject: Subject, now_ms: int, *, wants_all: bool = False) -> Observation:
    """Look at a node; cheap unless all counters are wanted. `now_ms` is wall-clock time."""
    try:
        with open_cnc(subject.aeron_dir) as cnc:
            age_ms = now_ms - cnc.to_driver.consumer_heartbeat_ms
            reader = CountersReader(cnc.counters_metadata, cnc.counters_values)
            if wants_all:
                counters = tuple(one for one in reader if _concerns(one, subject.cluster_id))
                return Observation(
                    age_ms, free_bytes(subject.data_dir), _firsts(counters), counters, _durations(subject)
                )
            return Observation(age_ms, free_bytes(subject.data_dir), _probe(reader, subject.cluster_id))
    except StorageError:
        return Observation(None, free_bytes(subject.data_dir))


def log_position(found: Observation) -> int:
    """Return the position of the recording that the consensus module names as its log, or -1."""
    recording_id = found.values.get(CounterType.LOG_RECORDING, NOT_THERE)
    for counter in found.counters:
        if (
            counter.type_id == CounterType.RECORDING_POSITION
            and _RECORDING_ID.unpack_from(counter.key)[0] == recording_id
        ):
            return counter.value
    return NOT_THERE


def free_bytes(folder: Path) -> int:
    """Return the free space for this user on the file system of a folder, or of its first existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize


def _probe(reader: CountersReader, cluster_id: int) -> dict[int, int]:
    ids = {counter_type: find_counter(reader, counter_type, cluster_id) for counter_type in _TYPES_FOR_PROBES}
    return {int(kind): reader.get_value(counter_id) for kind, counter_id in ids.items() if counter_id >= 0}


def _durations(subject: Subject) -> dict[str, Durations]:
    from ordo.cluster.wire.counters.latencies import Latencies

    latencies = Latencies.find(FileMemoryProvider(), str(subject.aeron_dir), subject.cluster_id)
    return {} if latencies is None else latencies.read()


def _concerns(counter: CounterDescriptor, cluster_id: int) -> bool:
    """Return whether a counter concerns this cluster; clusters may share a driver."""
    return counter.type_id not in CLUSTER_TYPES or is_of_cluster(counter, cluster_id)


def _firsts(counters: Iterable[CounterDescriptor]) -> dict[int, int]:
    found: dict[int, int] = {}
    for counter in counters:
        if counter.type_id == CounterType.SERVICE_POSITION:  # of several services the slowest one counts
            found[counter.type_id] = min(counter.value, found.get(counter.type_id, counter.value))
        elif counter.type_id in CLUSTER_TYPES:
            found.setdefault(counter.type_id, counter.value)
    return found
