"""A member's short report for operators: values that it has in memory, collected without searching."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordo.cluster.wire.counters.counter_types import CounterType

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import Replication
    from ordo.cluster.module.versions.skips import Skips
    from ordo.runtime.native.counters import CountersReader

SKIPPED_MAX = 64
TEXT_LENGTH_MAX = 160
SYSTEM_TYPE_ID = 0
SYSTEM_COUNTERS = {
    "bytes_sent": 0,
    "bytes_received": 1,
    "naks_sent": 5,
    "naks_received": 6,
    "back_pressure_events": 18,
    "loss_gap_fills": 23,
}
"""Counters of the driver, by their key (transport/driver/frames/system_counters.pyx)."""
OWN_COUNTERS = {
    CounterType.MODULE_STATE: "module_state",
    CounterType.NODE_ROLE: "role",
    CounterType.CONTROL_TOGGLE: "control_toggle",
    CounterType.COMMIT_POSITION: "commit_position",
    CounterType.SNAPSHOT_COUNT: "snapshot_count",
    CounterType.ELECTION_STATE: "election_state",
    CounterType.MODULE_ERRORS: "errors",
    CounterType.CLIENT_TIMEOUTS: "client_timeouts",
    CounterType.INVALID_REQUESTS: "invalid_requests",
    CounterType.ELECTION_COUNT: "election_count",
    CounterType.LEADERSHIP_TERM_ID: "leadership_term",
    CounterType.LEADER_TERM: "leader_term",
    CounterType.SERVICE_POSITION: "service_position",
    CounterType.DISTRUST: "distrust",
    CounterType.SKIPPED_RECORDS: "skipped_records",
    CounterType.NO_ROOM: "no_room",
    CounterType.SCRUBBED_BYTES: "scrubbed_bytes",
    CounterType.SCRUB_PROGRESS: "scrub_progress",
    CounterType.SCRUB_ENDED: "scrub_ended",
    CounterType.DAMAGE_FOUND: "damage_found",
    CounterType.DAMAGE_MENDED: "damage_mended",
    CounterType.DAMAGE_LEFT: "damage_left",
}
"""Counters of the module, by the names of `ModuleCounters`."""


class SelfLook:
    """Builds one member's short report. `of_node` adds what only the node knows: its version, room on its disks."""

    def __init__(
        self,
        member_id: int,
        replication: Replication,
        counters: ModuleCounters,
        sessions: OpenSessions,
        shelf: SnapshotShelf,
        skips: Skips,
        counters_reader: CountersReader,
        of_node: Callable[[], dict[str, Any]],
    ) -> None:
        self._member_id = member_id
        self._core = replication.core
        self._counters = counters
        self._sequencer = replication.sequencer
        self._sessions = sessions
        self._shelf = shelf
        self._skips = skips
        self._reader = counters_reader
        self._of_node = of_node
        self._system_ids: dict[str, int] = {}

    def look(self) -> dict[str, Any]:
        """Return the values by name, with the module's counters below "counters", by type id."""
        if not self._system_ids:
            self._system_ids = {
                name: self._reader.find(SYSTEM_TYPE_ID, struct.pack("<i", key)) for name, key in SYSTEM_COUNTERS.items()
            }
        return {
            "member_id": self._member_id,
            "leader_member_id": self._core.leader_member_id,
            "sessions": len(self._sessions),
            "append_position": self._sequencer.append_position,
            "snapshot_position": self._shelf.newest_position,
            "counters": {int(kind): getattr(self._counters, name).value for kind, name in OWN_COUNTERS.items()},
            **{name: self._reader.get_value(one) for name, one in self._system_ids.items() if one >= 0},
            **self._of_node(),
        }

    def list_skipped(self) -> dict[str, Any]:
        """Return the newest records that are left out, and how many there are."""
        skips, wishes = self._skips.known, self._skips.wishes
        return {
            "skipped": [
                {
                    "log_position": skip.log_position,
                    "skip_position": skip.skip_position,
                    "timestamp": skip.timestamp,
                    "text": skip.text.decode("utf-8", "replace")[:TEXT_LENGTH_MAX],
                }
                for _, skip in sorted(skips.items())[-SKIPPED_MAX:]
            ],
            "asked_for": sorted(wishes)[-SKIPPED_MAX:],
            "count": len(skips),
        }
