"""What the values of a node's counters mean, wherever they come from: its shared memory, or its answer from afar."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, NodeRole, Room
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

NOT_THERE = -1


class NodeStatus(NamedTuple):
    """One node, as its counters say. Positions are bytes in the log, -1 when the counter is not there."""

    member_id: int
    has_quorum: bool
    """Whether the member leads with a quorum behind it, or follows a leader; False during an election, too."""
    state: str
    role: str
    election: str
    leadership_term_id: int
    commit_position: int
    service_position: int
    elections: int
    snapshots: int
    sessions: int
    errors: int
    skipped_records: int
    """How many records of the log its service leaves out."""
    lost: str
    """What the member lost, so that it may not vote; NONE: it votes."""
    no_room: str
    """What a full disk keeps the member from; NONE: nothing."""
    damaged: int
    """How many places of its recordings are damaged and not mended."""
    scrub_percent: int
    """How much of its present pass the scrubber has read."""
    scrub_ended: str
    """When a whole pass last ended, in UTC; "-": none since the start."""


def status_of(member_id: int, value: Callable[[int], int], sessions: int) -> NodeStatus:
    """Return a node's status from the values of its counters by type, NOT_THERE for those that are not there."""
    state, election = value(CounterType.MODULE_STATE), value(CounterType.ELECTION_STATE)
    lost, room = value(CounterType.DISTRUST), value(CounterType.NO_ROOM)
    return NodeStatus(
        member_id,
        has_quorum(election, state),
        counter_name(ModuleState, state),
        counter_name(NodeRole, value(CounterType.NODE_ROLE)),
        counter_name(ElectionState, election),
        value(CounterType.LEADERSHIP_TERM_ID),
        value(CounterType.COMMIT_POSITION),
        value(CounterType.SERVICE_POSITION),
        value(CounterType.ELECTION_COUNT),
        value(CounterType.SNAPSHOT_COUNT),
        sessions,
        value(CounterType.MODULE_ERRORS),
        value(CounterType.SKIPPED_RECORDS),
        "-" if lost == NOT_THERE else Distrust(lost).name or "NONE",
        "-" if room == NOT_THERE else Room(room).name or "NONE",
        value(CounterType.DAMAGE_LEFT),
        scrub_percent(value(CounterType.SCRUB_PROGRESS)),
        _utc(value(CounterType.SCRUB_ENDED)),
    )


def counter_name(values: type[IntEnum], value: int) -> str:
    """Return the meaning of a counter's value, or "-" without a counter."""
    try:
        return values(value).name
    except ValueError:
        return "-" if value == NOT_THERE else str(value)


def scrub_percent(progress: int) -> int:
    """Return the value of counter 1034, in thousandths, in percent."""
    return progress if progress == NOT_THERE else progress // 10


def has_quorum(election_state: int, module_state: int) -> bool:
    """Return whether a member with these counters leads with a quorum, or follows a leader.

    NOT_THERE: has none.
    """
    return election_state == ElectionState.CLOSED and module_state not in (ModuleState.CLOSED, NOT_THERE)


def _utc(epoch_ms: int) -> str:
    """Return a time in seconds in the form of ISO 8601, or "-" for 0 and without a counter."""
    return "-" if epoch_ms <= 0 else datetime.fromtimestamp(epoch_ms // 1000, UTC).isoformat()
