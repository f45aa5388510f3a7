"""What the console makes of looks at members: its state, the points of its charts, its notes. No I/O."""

from __future__ import annotations

from typing import Any

from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.top import Looks
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, NodeRole
from ordo.consensus.state.states import ElectionState
from ordo.gateway.callers.round_trips import NOTHING, RoundTrips, Second
from ordo.gateway.console.cluster_view import NOTES_MAX, POINTS_MAX, Story, exact
from ordo.runtime.errors import ClusterTimeoutError
from ordo.runtime.native.time_units import SECOND_NS


def look(member: int, role: NodeRole = NodeRole.FOLLOWER, **more: Any) -> MemberLook:
    counters = {
        CounterType.MODULE_STATE: ModuleState.ACTIVE,
        CounterType.NODE_ROLE: role,
        CounterType.ELECTION_STATE: more.pop("election", ElectionState.CLOSED),
        CounterType.COMMIT_POSITION: more.pop("commit", 1_000),
        CounterType.SERVICE_POSITION: 900,
        CounterType.LEADERSHIP_TERM_ID: more.pop("term", 4),
        CounterType.MODULE_ERRORS: more.pop("errors", 0),
        CounterType.DISTRUST: more.pop("distrust", 0),
    }
    values = {"member_id": member, "append_position": 1_000, "sessions": 2, "snapshot_position": 0, **more}
    return MemberLook(values, {int(kind): int(value) for kind, value in counters.items()}, "0.3.0")


def three(leader: int, **more: Any) -> dict[str, Any]:
    return {
        f"host:{one}": look(one, NodeRole.LEADER if one == leader else NodeRole.FOLLOWER, **more) for one in range(3)
    }


def texts(story: Story) -> list[str]:
    return [one.text for one in story.notes]


class Teller:
    """Adds looks second by second."""

    def __init__(self) -> None:
        self.story = Story()
        self.now_s = 0

    def tell(self, looks: Looks, second: Second = NOTHING) -> None:
        self.now_s += 1
        self.story.add(looks, second, self.now_s * SECOND_NS, self.now_s * 1_000)


def test_a_leader_its_loss_and_its_successor_are_noted() -> None:
    teller = Teller()
    teller.tell(three(1))
    teller.tell(three(1))
    assert texts(teller.story) == ["member 1 leads term 4"], "what goes on is not told again"
    silent = {**three(0, term=5), "host:1": ClusterTimeoutError("host:1: gone")}
    without = {**silent, "host:0": look(0, election=ElectionState.CANVASS), "host:2": look(2)}
    teller.tell(without)
    teller.tell(silent)
    told = texts(teller.story)[1:]
    assert told[0] == "member 1 leads no more, and no other does yet"
    assert "member 1 (host:1) does not answer" in told and "member 0 leads term 5; member 1 led term 4" in told
    assert teller.story.state["members"][1] | {"member": 1, "trouble": "gone"} == teller.story.state["members"][1]
    teller.tell(three(0, term=5))
    assert "member 1 answers: it is FOLLOWER, ACTIVE" in texts(teller.story)


def test_errors_snapshots_and_distrust_are_noted() -> None:
    teller = Teller()
    teller.tell(three(1))
    teller.tell({**three(1), "host:2": look(2, errors=2, distrust=1, snapshot_position=640)})
    assert texts(teller.story)[1:] == [
        "member 2 holds a snapshot of position 640",
        "member 2 met 2 errors",
        "member 2 is distrusted: LOG",
    ]


def test_a_standby_is_shown_with_its_lag_in_bytes_and_in_time() -> None:
    teller = Teller()
    standby = look(9, standby_lag_bytes=640, standby_lag_ms=1_500)
    teller.tell({**three(1), "host:9": standby})
    member, shown = teller.story.state["members"][0], teller.story.state["members"][3]
    assert (shown["standby_lag"], shown["standby_lag_ms"]) == (640, 1_500)
    assert (member["standby_lag"], member["standby_lag_ms"]) == (-1, -1), "a member has no primary"


def test_points_have_rates_and_what_callers_got() -> None:
    teller = Teller()
    teller.tell(three(1, commit=1_000))
    teller.tell(three(1, commit=4_000), Second(7, 1.5, 3.0, 3.0))
    point = teller.story.points[-1]
    assert (point["log_rate"], point["answers"], point["p50_ms"], point["lag"]) == (3_000, 7, 1.5, 3_100)


def test_notes_and_points_are_bounded() -> None:
    teller = Teller()
    for count in range(POINTS_MAX + 50):
        teller.tell(three(1, errors=count))
    assert len(teller.story.points) == POINTS_MAX and len(teller.story.notes) == NOTES_MAX
    assert teller.story.notes[-1].number > NOTES_MAX, "numbers count on"


def test_numbers_that_a_browser_would_round_travel_as_text() -> None:
    assert exact({"a": [1 << 62, 5, True], "b": (-(1 << 60), 1.5)}) == {
        "a": [str(1 << 62), 5, True],
        "b": [str(-(1 << 60)), 1.5],
    }


def test_round_trips_are_told_once() -> None:
    trips = RoundTrips()
    assert trips.take() == NOTHING
    for _ in range(3):
        trips.end(10, trips.start())
    found = trips.take()
    assert found.answers == 30 and 0 <= found.p50_ms <= found.p99_ms <= found.max_ms
    assert trips.take() == NOTHING
