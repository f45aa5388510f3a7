"""Type ids of the cluster's counters: Aeron's (cluster-consensus.md §18) and Ordo's own (ordo-messages.md)."""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordo.runtime.native.counters import CounterDescriptor, CountersReader

_RECOVERY_CLUSTER_ID_OFFSET = 24


class CounterType(IntEnum):
    RECORDING_POSITION = 100
    MODULE_STATE = 200
    NODE_ROLE = 201
    CONTROL_TOGGLE = 202
    COMMIT_POSITION = 203
    RECOVERY_STATE = 204
    SNAPSHOT_COUNT = 205
    ELECTION_STATE = 207
    MODULE_ERRORS = 212
    CLIENT_TIMEOUTS = 213
    INVALID_REQUESTS = 214
    MAX_CYCLE_TIME = 216
    CYCLE_TIME_EXCEEDED = 217
    STANDBY_HEARTBEATS = 222
    STANDBY_SOURCE_MEMBER = 231
    MAX_SNAPSHOT_DURATION = 234
    SNAPSHOT_DURATION_EXCEEDED = 235
    ELECTION_COUNT = 238
    LEADERSHIP_TERM_ID = 239
    SESSION = 241
    SEQUENCER_INDEX = 500
    REPLAY_INDEX_MIN_SEQUENCE = 520
    REPLAY_INDEX_MIN_POSITION = 521
    REPLAY_INDEX_MAX_SEQUENCE = 522
    REPLAY_INDEX_MAX_POSITION = 523
    REPLAY_INDEX_INITIAL_SEQUENCE = 524
    REPLAY_INDEX_INITIAL_POSITION = 525
    LEADER_TERM = 1001
    LOG_RECORDING = 1002
    CONTAINER_PARK_FLAG = 1003
    DRIVER_PARK_FLAG = 1004
    SERVICE_POSITION = 1005
    DISTRUST = 1030
    CLOCK_AHEAD = 1031
    NO_ROOM = 1032
    SCRUBBED_BYTES = 1033
    SCRUB_PROGRESS = 1034
    SCRUB_ENDED = 1035
    DAMAGE_FOUND = 1036
    DAMAGE_MENDED = 1037
    DAMAGE_LEFT = 1038
    RECORD_ORDERS = 1090
    SKIPPED_RECORDS = 1091
    LOG_LINES_DROPPED = 1092
    QUOTA_SESSIONS = 1093
    QUOTA_HOLDS = 1094
    STANDBY_LAG_BYTES = 1095
    STANDBY_LAG_MS = 1096
    STANDBY_HEARD_MS = 1097
    STANDBY_SNAPSHOTS = 1098
    COPIED_SNAPSHOTS = 1099
    SNAPSHOTS_INSTEAD = 1100


class ModuleState(IntEnum):
    """States of a consensus module: values of counter 200."""

    INIT = 0
    ACTIVE = 1
    SUSPENDED = 2
    SNAPSHOT = 3
    QUITTING = 4
    TERMINATING = 5
    CLOSED = 6


class ControlToggle(IntEnum):
    """Values of counter 202 (cluster-consensus.md §19)."""

    INACTIVE = 0
    NEUTRAL = 1
    SUSPEND = 2
    RESUME = 3
    SNAPSHOT = 4
    SHUTDOWN = 5
    ABORT = 6
    STANDBY_SNAPSHOT = 7
    """The standbys alone take a snapshot."""
    TRANSFER = 901
    """Ordo's own: hand the leadership over, to the member with most of the log; to member N: TRANSFER_TO + N."""
    SUCCEEDED = 902
    """Ordo's own: the log has ended for a standby to go on; ABORT alone is taken. `succeed_value` asks for it."""


TRANSFER_TO = 1000
"""Values of counter 202 from here on name the member that is to lead next."""


def transfer_value(member_id: int | None) -> int:
    """Return the value of counter 202 that asks for a transfer."""
    return int(ControlToggle.TRANSFER) if member_id is None else TRANSFER_TO + member_id


def transfer_target(value: int) -> int | None:
    """Return the member that a value of counter 202 wants to lead, None when any will do."""
    return value - TRANSFER_TO if value >= TRANSFER_TO else None


def is_transfer(value: int) -> bool:
    """Return whether a value of counter 202 asks for a transfer."""
    return value == ControlToggle.TRANSFER or TRANSFER_TO <= value < SUCCEED_BY


SUCCEED_BY = 1 << 40
"""Values of counter 202 from here on name the standby that is to go on with the log."""
SUCCESSOR_MAX = (1 << 31) - 1


def succeed_value(successor: int) -> int:
    """Return the value of counter 202 that asks for the end of a suspended log, for the standby with a number."""
    return SUCCEED_BY + successor


def successor_of(value: int) -> int:
    """Return the number of the standby that a value of counter 202 asks to go on; 0: it asks for something else."""
    successor = value - SUCCEED_BY
    return successor if 0 < successor <= SUCCESSOR_MAX else 0


class Room(IntFlag):
    """Values of counter 1032: what a full disk stops a member from doing; 0 for nothing."""

    NONE = 0
    SHORT = 1
    """There is less than disk_low."""
    OUT = 2
    """Nothing is recorded any more."""
    CLOSED = 4
    """This leader takes no messages of clients."""


class NodeRole(IntEnum):
    """Roles of a node: values of counter 201."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


def is_of_cluster(counter: CounterDescriptor, cluster_id: int) -> bool:
    """Return whether a counter of one of these types is a certain cluster's.

    Its key says so (cluster-consensus.md §18).
    """
    offset = _RECOVERY_CLUSTER_ID_OFFSET if counter.type_id == CounterType.RECOVERY_STATE else 0
    (found,) = struct.unpack_from("<i", counter.key, offset)
    return bool(found == cluster_id)


OF_A_SERVICE = (CounterType.CONTAINER_PARK_FLAG, CounterType.SERVICE_POSITION)
"""Counters that each service of a node has."""


def service_key(cluster_id: int, service_id: int) -> bytes:
    """Return the key of a counter that belongs to one service of a node."""
    return struct.pack("<ii", cluster_id, service_id)


def find_counter(counters: CountersReader, counter_type: CounterType, cluster_id: int, service_id: int = 0) -> int:
    """Return the id of a cluster's counter on a driver that several may share, -1 when it is not there."""
    if counter_type != CounterType.RECOVERY_STATE:
        key = service_key(cluster_id, service_id) if counter_type in OF_A_SERVICE else struct.pack("<i", cluster_id)
        return counters.find(counter_type, key)
    return next(
        (one.counter_id for one in counters if one.type_id == counter_type and is_of_cluster(one, cluster_id)), -1
    )
