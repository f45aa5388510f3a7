"""Cluster time goes on evenly, whatever happens to wall clocks (docs/ARCHITECTURE.md, Cluster time)."""

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.state.clock_watch import ClockWatch
from ordo.consensus.state.messages import NewLeadershipTerm
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.cluster_time import EARLIEST, TimeUnit
from ordo.sequencer.cluster_clock import ClusterClock
from tests.cluster.module.member import Core
from tests.simulation.nodes import EPOCH_NS
from tests.simulation.options import Options
from tests.simulation.world import World

MS = 1_000_000
S = 1_000 * MS
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


class Timed:
    def __init__(self) -> None:
        self.wall = VirtualClock(0, START_MS * MS)
        self.cluster = ClusterClock(self.wall)

    def after(self, seconds: float) -> int:
        """Cluster time since the start, with a look at it every 10 ms."""
        for _ in range(int(seconds * 100)):
            self.wall.advance(10 * MS)
            self.cluster.now()
        return self.cluster.now() - START_MS


def test_it_begins_with_the_wall_clock_and_goes_on_with_it() -> None:
    assert Timed().after(12.5) == 12_500


@pytest.mark.parametrize(("step_ms", "expected_ms"), [(HOUR_MS, 10_010), (-HOUR_MS, 9_990), (5, 10_005), (-5, 9_995)])
def test_a_step_of_the_wall_clock_is_drawn_out(step_ms: int, expected_ms: int) -> None:
    """By a thousandth of the time that passes: 10 ms in 10 s, and no further than the wall clock."""
    timed = Timed()
    timed.wall.step_epoch(step_ms * MS)
    assert timed.cluster.now() - START_MS == 0
    assert timed.after(10) == expected_ms


def test_a_process_that_stood_still_catches_up_with_what_has_passed() -> None:
    timed = Timed()
    timed.wall.advance(20 * S)
    assert timed.cluster.now() - START_MS == 20_000


def test_it_is_not_behind_the_own_log_and_goes_on_from_there() -> None:
    timed = Timed()
    timed.cluster.note(START_MS + HOUR_MS)
    assert timed.cluster.now() - START_MS == HOUR_MS
    assert timed.after(10) == HOUR_MS + 9_990
    timed.cluster.note(START_MS)
    assert timed.after(0) == HOUR_MS + 9_990, "an older record says nothing"


def test_a_follower_takes_the_leaders_time_over_but_for_what_its_log_has() -> None:
    timed = Timed()
    timed.cluster.adopt(START_MS - HOUR_MS)
    assert timed.after(1) == 1_001 - HOUR_MS
    timed.cluster.note(START_MS)
    timed.cluster.adopt(START_MS - HOUR_MS)
    assert timed.cluster.now() == START_MS


@pytest.mark.parametrize("time_ms", [-1, 1 << 43, 1 << 62, -(1 << 63)])
def test_times_that_no_clock_has_are_ignored(time_ms: int) -> None:
    timed = Timed()
    timed.cluster.adopt(time_ms)
    timed.cluster.note(time_ms)
    assert timed.cluster.now() == START_MS


# -- what the operator hears -------------------------------------------------------------------------------------------


class Watched(Timed):
    def __init__(self, log_timestamp: int = 0) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.member = Core()
        self.shown: list[int] = []
        core: Any = self.member
        self.log: Any = SimpleNamespace(last_timestamp=0)
        counter: Any = type("Shown", (), {"set": lambda _, value: self.shown.append(value)})()
        recovery: Any = SimpleNamespace(log_timestamp=log_timestamp)
        self.watch = ClockWatch(self, core, self.log, self.wall, counter, recovery)
        self.cluster = self.watch.clock

    def announce(self, event: str, text: str) -> None:
        self.lines.append(f"{event}: {text}")

    def step(self, seconds: float) -> None:
        self.wall.step_epoch(int(seconds * S))
        for _ in range(3):
            self.wall.advance(10 * MS)
            self.watch.work()


def test_a_step_is_one_line_and_so_is_its_end() -> None:
    watched = Watched()
    watched.step(0.9)
    assert watched.lines == []
    watched.step(3600)
    (line,) = watched.lines
    assert line.startswith("cluster.clock: the wall clock of this member is 3600.9 s ahead of cluster time")
    assert watched.shown[-1] == 3_600_900
    watched.step(-7200)
    assert "3599.1 s behind cluster time" in watched.lines[1]
    watched.step(3599)
    assert watched.lines[2:] == ["cluster.clock: the wall clock agrees with cluster time again"]


def test_only_the_leader_that_is_followed_tells_the_time() -> None:
    watched = Watched()
    message: Any = dict.fromkeys(NewLeadershipTerm._fields, 0)
    message = NewLeadershipTerm(**{**message, "timestamp": START_MS - HOUR_MS})
    member: Any = watched.member
    member.is_bound_to = lambda *_: False
    watched.watch.on_message(message)
    assert watched.cluster.now() == START_MS
    member.is_bound_to = lambda *_: True
    watched.watch.on_message(message)
    assert watched.cluster.now() == START_MS - HOUR_MS


# -- a whole cluster ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ns", [3600 * S, -3600 * S])
def test_a_step_of_the_leaders_clock_closes_no_session_and_fires_no_timer_early(step_ns: int) -> None:
    world = World(7, Options(clients=2, session_timeout_ns=2 * S, operation_mean_ns=20 * MS))
    world.start()
    assert world.run(20 * S, lambda: world.is_steady() and len(world.executed.records) > 50)
    leader = next(node for node in world.nodes if node.module.member.is_leader)
    leader.step_clock(step_ns)
    world.run(6 * S)
    assert leader.module.member.is_leader, "nothing else has changed"
    assert abs(leader.module.member.cluster_time * MS - EPOCH_NS - world.now_ns) < 20 * MS
    texts = [record.text for record in world.executed.records]
    assert any(text.startswith("timer") for text in texts)
    assert not [text for text in texts if "TIMEOUT" in text]


def test_time_goes_on_from_the_snapshot_that_a_member_starts_from() -> None:
    """There may be no record behind it that says how late it is."""
    assert Watched(START_MS + HOUR_MS).cluster.now() == START_MS + HOUR_MS


# -- other units than milliseconds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [TimeUnit.MICROS, TimeUnit.NANOS])
def test_time_in_its_unit(unit: TimeUnit) -> None:
    wall = VirtualClock(0, START_MS * MS)
    clock = ClusterClock(wall, unit)
    assert clock.now() == START_MS * MS // unit.length_ns
    wall.advance(1_234_567)
    assert clock.now() == (START_MS * MS + 1_234_567) // unit.length_ns
    clock.note(clock.now() + unit.duration(seconds=5))
    assert clock.now() == (START_MS * MS + 1_234_567) // unit.length_ns + unit.duration(seconds=5)
    assert clock.wall_clock_ahead_ms in (-5_000, -4_999)


@pytest.mark.parametrize("unit", [TimeUnit.MICROS, TimeUnit.NANOS])
def test_times_of_another_unit_are_ignored(unit: TimeUnit) -> None:
    clock = ClusterClock(VirtualClock(0, START_MS * MS), unit)
    for timestamp in (START_MS + HOUR_MS, EARLIEST[unit] - 1, 1 << 62 if unit is TimeUnit.MICROS else -1, -(1 << 63)):
        clock.adopt(timestamp)
        clock.note(timestamp)
        assert clock.now() == START_MS * MS // unit.length_ns


@pytest.mark.parametrize("unit", [TimeUnit.MICROS, TimeUnit.NANOS])
def test_behind_a_clock_that_was_never_set_time_begins_where_its_size_tells_the_unit(unit: TimeUnit) -> None:
    wall = VirtualClock(0, 60 * S)
    clock = ClusterClock(wall, unit)
    assert clock.now() == EARLIEST[unit]
    wall.advance(10 * S)
    assert 0 <= EARLIEST[unit] + unit.duration(seconds=10) - clock.now() <= unit.duration(milliseconds=10)


@pytest.mark.parametrize("unit", [TimeUnit.MICROS, TimeUnit.NANOS])
def test_time_goes_on_in_a_finer_unit_and_back(unit: TimeUnit) -> None:
    """Back: where the term that began with the finer unit was never committed."""
    wall = VirtualClock(0, START_MS * MS)
    clock = ClusterClock(wall)
    clock.note(START_MS + HOUR_MS)
    wall.advance(1_234_567)
    assert clock.now() == START_MS + HOUR_MS + 1
    clock.set_unit(unit)
    now_ns = (START_MS + HOUR_MS) * MS + 1_234_567
    slewed_ns = now_ns - 1_234_567 // 1000
    assert clock.unit is unit and 0 <= unit.to_ns(clock.now()) - slewed_ns + 1_000 <= 2_000
    clock.note(START_MS + 2 * HOUR_MS)
    assert 0 <= unit.to_ns(clock.now()) - slewed_ns + 1_000 <= 2_000, "the former unit is no time of this one"
    clock.set_unit(TimeUnit.MILLIS)
    assert clock.now() == START_MS + HOUR_MS + 1
    clock.set_unit(unit)
    clock.note(unit.duration(milliseconds=START_MS + 2 * HOUR_MS))
    clock.set_unit(TimeUnit.MILLIS)
    assert clock.now() == START_MS + 2 * HOUR_MS, "nor does time go back with the unit"


def test_time_does_not_go_back_within_a_unit_of_the_former_one() -> None:
    wall = VirtualClock(0, START_MS * MS + 999_999)
    clock = ClusterClock(wall)
    clock.note(START_MS + 1)
    clock.set_unit(TimeUnit.NANOS)
    assert clock.now() >= (START_MS + 1) * MS


def test_a_clock_before_the_first_time_of_the_new_unit_begins_with_it() -> None:
    wall = VirtualClock(0, EARLIEST[TimeUnit.MICROS] * 1_000 - 60 * S)
    clock = ClusterClock(wall)
    clock.set_unit(TimeUnit.MICROS)
    assert clock.now() == EARLIEST[TimeUnit.MICROS]


def test_messages_that_nobody_had_looked_at_are_not_later_than_the_first_time_of_the_new_unit() -> None:
    """The last messages of the former unit, which a member reads just before it begins to lead."""
    watched = Watched()
    watched.log.last_timestamp = START_MS + HOUR_MS
    watched.watch.set_unit(TimeUnit.MICROS)
    assert watched.watch.now() >= (START_MS + HOUR_MS) * 1_000
