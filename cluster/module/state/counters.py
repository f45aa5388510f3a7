"""The counters of a consensus module (cluster-consensus.md §18, ordo-messages.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire.counters.counter_types import ControlToggle, CounterType, ModuleState, NodeRole, service_key
from ordo.cluster.wire.log_index.index_counters import INDEX_COUNTERS
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.state.recovery import Recovery
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.runtime.native.counters import Counter
    from ordo.transport.client.client import TransportClient

ELECTION_CLOSED = 17
SNAPSHOT_THRESHOLD_NS = 1_000_000_000


class LowestPosition:
    """The lowest position up to which all services of a member have executed the log."""

    def __init__(self, positions: list[Counter]) -> None:
        self._positions = positions

    @property
    def value(self) -> int:
        return min(one.value for one in self._positions)


class SnapshotCounters(NamedTuple):
    """How long snapshots took, and what became of those that standbys were to take."""

    longest: Counter
    exceeded: Counter
    """How many took longer than SNAPSHOT_THRESHOLD_NS."""
    copied: Counter
    """How many this member has copied from a standby."""
    instead: Counter
    """How many this member, as the leader, had the members take, since no standby gave one."""


class ModuleCounters:
    """The module's counters, allocated once at start.

    This module writes each, except the toggle and the container's own.
    """

    def __init__(self, client: TransportClient, config: ModuleSettings, recovery: Recovery) -> None:
        cluster_id = config.cluster_id
        key = struct.pack("<i", cluster_id)

        def counter(type_id: CounterType, name: str, value: int = 0, counter_key: bytes = key) -> Counter:
            found: Counter = client.add_counter(int(type_id), f"{name} - clusterId={cluster_id}", counter_key)
            found.set(value)
            return found

        self.state = ModuleState.INIT
        self.module_state = counter(CounterType.MODULE_STATE, "Consensus Module state", ModuleState.INIT)
        self.role = counter(CounterType.NODE_ROLE, "Cluster node role", NodeRole.FOLLOWER)
        self.control_toggle = counter(CounterType.CONTROL_TOGGLE, "Cluster control toggle", ControlToggle.INACTIVE)
        self._add_counters_of_durations(counter, is_standby=config.is_standby)
        self.election_state = counter(CounterType.ELECTION_STATE, "Cluster election state")
        self.errors = counter(CounterType.MODULE_ERRORS, "Cluster Errors")
        self.client_timeouts = counter(CounterType.CLIENT_TIMEOUTS, "Cluster timed out client count")
        self.invalid_requests = counter(CounterType.INVALID_REQUESTS, "Cluster invalid request count")
        self.election_count = counter(CounterType.ELECTION_COUNT, "Cluster election count")
        self.leadership_term = counter(CounterType.LEADERSHIP_TERM_ID, "Cluster leadership term id", NULL_VALUE)
        self.leader_term = counter(CounterType.LEADER_TERM, "ordo leader term", NULL_VALUE)
        self.log_recording = counter(CounterType.LOG_RECORDING, "ordo log recording", NULL_VALUE)

        def of_services(type_id: CounterType, name: str, value: int = 0) -> list[Counter]:
            ids = range(config.service_count)
            named = [(one, f"{name} serviceId={one}" if one else name) for one in ids]
            return [counter(type_id, label, value, service_key(cluster_id, one)) for one, label in named]

        self.service_positions = of_services(
            CounterType.SERVICE_POSITION, "ordo service position", recovery.log_position
        )
        """How far each service has executed the log, by its id."""
        flags = of_services(CounterType.CONTAINER_PARK_FLAG, "ordo container park flag")
        self.container_park_flags = [ParkFlag(flag) for flag in flags]
        self.service_position = LowestPosition(self.service_positions)
        self.distrust = counter(CounterType.DISTRUST, "ordo distrust", int(recovery.distrust))
        self.clock_ahead = counter(CounterType.CLOCK_AHEAD, "ordo wall clock ahead of cluster time in ms")
        self.record_orders = counter(CounterType.RECORD_ORDERS, "ordo record orders")
        """How many orders the service waits for before it executes anything (ordo.cluster.module.versions.skips)."""
        self.no_room = counter(CounterType.NO_ROOM, "ordo no room on disk")  # a Room
        self._add_counters_of_damage(counter)
        self._add_counters_of_omissions(counter)
        term, recovery_key = _describe_recovery(recovery, cluster_id)
        self.recovery = counter(
            CounterType.RECOVERY_STATE,
            f"Cluster recovery: leadershipTermId={term} logPosition={recovery.log_position}",
            0,
            recovery_key,
        )
        self.commit_position = counter(CounterType.COMMIT_POSITION, "Cluster commit-pos:", recovery.log_position)

    def _add_counters_of_durations(self, counter: Callable[[CounterType, str], Counter], *, is_standby: bool) -> None:
        self.snapshot_count = counter(CounterType.SNAPSHOT_COUNT, "Cluster snapshot count")
        self.snapshots = SnapshotCounters(
            counter(CounterType.MAX_SNAPSHOT_DURATION, "Total max snapshot duration in ns"),
            counter(CounterType.SNAPSHOT_DURATION_EXCEEDED, "Total snapshot exceeded count"),
            counter(CounterType.COPIED_SNAPSHOTS, "ordo snapshots copied from standbys"),
            counter(CounterType.SNAPSHOTS_INSTEAD, "ordo snapshots taken instead of a standby"),
        )
        self.max_cycle_time = counter(CounterType.MAX_CYCLE_TIME, "Cluster max cycle time in ns")
        self.cycles_exceeded = counter(CounterType.CYCLE_TIME_EXCEEDED, "Cluster work cycle time exceeded count")
        self.standby_snapshots: Counter | None = None
        """How many snapshots a standby was ordered to take that the primary's members do not; None: a member.

        Its services know by this counter what they are, so it is there before they can start.
        """
        if is_standby:
            self.standby_snapshots = counter(CounterType.STANDBY_SNAPSHOTS, "ordo snapshots of standbys alone")

    def _add_counters_of_damage(self, counter: Callable[[CounterType, str], Counter]) -> None:
        self.scrubbed_bytes = counter(CounterType.SCRUBBED_BYTES, "ordo scrubbed bytes")
        self.scrub_progress = counter(CounterType.SCRUB_PROGRESS, "ordo scrub progress in thousandths")
        self.scrub_ended = counter(CounterType.SCRUB_ENDED, "ordo last whole scrub ended at epoch ms")
        self.damage_found = counter(CounterType.DAMAGE_FOUND, "ordo damaged places found")
        self.damage_mended = counter(CounterType.DAMAGE_MENDED, "ordo damaged places mended")
        self.damage_left = counter(CounterType.DAMAGE_LEFT, "ordo damaged places not mended")

    def _add_counters_of_omissions(self, counter: Callable[[CounterType, str], Counter]) -> None:
        self.skipped_records = counter(CounterType.SKIPPED_RECORDS, "ordo skipped records")
        self.log_lines_dropped = counter(CounterType.LOG_LINES_DROPPED, "ordo log lines dropped")
        """The count of all processes of this node, which add to it by compare-and-set."""
        for kind, label in INDEX_COUNTERS.items():
            counter(kind, label).set(NULL_VALUE)

    def set_state(self, state: ModuleState) -> None:
        self.state = state
        self.module_state.set(int(state))

    def on_snapshot_taken(self, duration_ns: int) -> None:
        self.snapshot_count.increment()
        self.snapshots.longest.propose_maximum(duration_ns)
        if duration_ns > SNAPSHOT_THRESHOLD_NS:
            self.snapshots.exceeded.increment()

    def on_election_state(self, state: int, leadership_term_id: int) -> None:
        if self.election_state.value == ELECTION_CLOSED and state != ELECTION_CLOSED:
            self.election_count.increment()
        self.election_state.set(state)
        self.leadership_term.set(leadership_term_id)


def _describe_recovery(recovery: Recovery, cluster_id: int) -> tuple[int, bytes]:
    """Return the term that a member starts in, or -1, and the key of counter 204 (cluster-consensus.md §18)."""
    snapshot = recovery.snapshot
    if snapshot is None:
        return NULL_VALUE, struct.pack("<qqqii", NULL_VALUE, recovery.log_position, 0, cluster_id, 0)
    term = snapshot.leadership_term_id
    ids = snapshot.service_recording_ids
    key = struct.pack("<qqqii", term, recovery.log_position, snapshot.timestamp, cluster_id, len(ids))
    return term, key + b"".join(struct.pack("<q", one) for one in ids)
