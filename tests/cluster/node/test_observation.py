"""When a node is ready, and when it lives; each reason is one line."""

from __future__ import annotations

import pytest

from ordo.cluster.monitoring.observation import LIVE_HEARTBEAT_MS, READY_HEARTBEAT_MS, Observation
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, Room
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState

DISK_FREE_MIN = 1000
FOLLOWS = {CounterType.ELECTION_STATE: ElectionState.CLOSED, CounterType.MODULE_STATE: ModuleState.ACTIVE}
LOSSES = [one for one in Distrust if one.is_loss]
DOUBTS = [one for one in Distrust if one and not one.is_loss]


def seen(age_ms: int | None = 0, free_bytes: int = DISK_FREE_MIN, **other: int) -> Observation:
    """A member that follows a leader, but for these counters."""
    values = {int(one): int(value) for one, value in FOLLOWS.items()}
    values |= {int(CounterType[name]): value for name, value in other.items()}
    return Observation(age_ms, free_bytes, values)


def test_a_member_that_follows_trusts_its_log_and_has_room_is_ready() -> None:
    for found in (seen(), seen(READY_HEARTBEAT_MS), seen(DISTRUST=0, NO_ROOM=0)):
        assert (found.why_not_ready(DISK_FREE_MIN), found.why_not_live()) == ("", "")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (seen(None), "there is no driver"),
        (seen(READY_HEARTBEAT_MS + 1), "last heartbeat is 2001 ms old"),
        (seen(LIVE_HEARTBEAT_MS + 1), "last heartbeat is 10.0 s old"),
        (Observation(0, DISK_FREE_MIN), "no quorum"),
        (seen(ELECTION_STATE=ElectionState.CANVASS), "no quorum"),
        (seen(MODULE_STATE=ModuleState.CLOSED), "no quorum"),
        *[(seen(DISTRUST=one), f"may not vote (distrust: {one.name})") for one in LOSSES],
        *[(seen(DISTRUST=one), f"may not lead (distrust: {one.name})") for one in DOUBTS],
        *[(seen(NO_ROOM=one), f"the disk of data_dir is full ({one.name})") for one in Room if one],
        (seen(free_bytes=DISK_FREE_MIN - 1), "999 bytes are free on the disk of data_dir, disk_free_min=1000"),
    ],
    ids=str,
)
def test_why_a_member_is_not_ready(found: Observation, reason: str) -> None:
    said = found.why_not_ready(DISK_FREE_MIN)
    assert reason in said and "\n" not in said


def test_a_stall_of_seconds_is_no_reason_to_start_a_node_again() -> None:
    assert seen(LIVE_HEARTBEAT_MS).why_not_live() == ""
    assert "10.0 s old" in seen(LIVE_HEARTBEAT_MS + 1).why_not_live()
    assert "no driver" in seen(None).why_not_live()
    assert seen(free_bytes=0, NO_ROOM=1, DISTRUST=1).why_not_live() == ""
