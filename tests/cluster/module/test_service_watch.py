"""What a service that is behind costs its member: rank in elections, leadership, ingress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ordo.cluster.module.services.service_watch import ServiceWatch
from ordo.cluster.module.state.settings import ClusterSettings
from ordo.runtime.native.counters import local_counter
from tests.cluster.module.member import make_sequencer

S = 1_000_000_000
MIB = 1 << 20


class Member:
    """A leader with its log and its service's position, driven in seconds."""

    def __init__(self, successors: list[int]) -> None:
        self.is_leader = True
        self.errors: list[str] = []
        self.begun: list[int] = []
        self.touches = 0
        self.transfer: Any = SimpleNamespace(begin=lambda target, now_ns: self.begun.append(now_ns // S))
        self.core: Any = SimpleNamespace(successors=successors, lag=self._on_lag)
        self.sequencer = make_sequencer()
        self.position = local_counter(0)
        self.lags = False
        settings = ClusterSettings.model_validate({"service_timeout": "5s", "service_backlog": "1m"})
        self.watch = ServiceWatch(self, settings, self.core, self.sequencer, self.position, self.touch_sessions)

    def _on_lag(self, lags: bool) -> None:
        self.lags = lags

    def record_error(self, message: str) -> None:
        self.errors.append(message)

    def announce(self, event: str, text: str) -> None:
        raise AssertionError(text)

    def start_again(self, reason: str) -> None:
        raise AssertionError(reason)

    def touch_sessions(self) -> None:
        self.touches += 1

    def at(self, seconds: float, committed: int, executed: int) -> Member:
        self.sequencer.commit_to(committed, 0)
        self.position.set(executed)
        self.watch.work(int(seconds * S))
        return self


def test_a_service_lags_when_a_second_of_log_waits_for_it() -> None:
    member = Member([1]).at(1, 100, 100).at(1.5, 200, 100).at(2, 300, 150)
    assert not member.lags
    member.at(3.1, 400, 150)
    assert member.lags
    member.at(3.2, 400, 400)
    assert not member.lags


def test_a_service_that_keeps_moving_half_a_second_behind_does_not_lag() -> None:
    member = Member([1])
    for step in range(100):
        member.at(step / 10, 100 * step, max(0, 100 * (step - 5)))
        assert not member.lags


def test_standstill_costs_the_leadership_where_another_member_is_level() -> None:
    member = Member([1, 2]).at(1.9, 100, 100).at(2, 200, 100).at(6.5, 300, 100)
    assert member.begun == [] and member.errors == []
    member.at(7.1, 300, 100).at(8, 300, 100)
    assert member.begun == [7]
    (error,) = member.errors
    assert "hands over" in error and "200 bytes behind" in error
    member.at(12.2, 300, 100)
    assert member.begun == [7, 12], "it was still in office"


def test_standstill_of_all_services_costs_nothing() -> None:
    """A callback may sit at a breakpoint for hours, on all members."""
    member = Member([]).at(1, 100, 100)
    for second in range(2, 60):
        member.at(second, 200, 100)
    (error,) = member.errors
    assert member.begun == [] and "leads on" in error


def test_a_service_with_nothing_to_do_does_not_stand_still() -> None:
    member = Member([1])
    for second in range(60):
        member.at(second, 100, 100)
    member.at(60, 200, 100)
    assert member.begun == []


def test_sessions_stay_open_while_a_backlog_holds_their_messages() -> None:
    member = Member([1]).at(1, MIB, 0)
    assert member.touches == 1
    assert member.at(1.1, MIB, 0).touches == 1, "twice a second"
    assert member.at(2, 2 * MIB, MIB + 1).touches == 2
    assert member.at(3, 2 * MIB, 2 * MIB - 1000).touches == 2


def test_a_backlog_that_is_not_committed_yet_holds_messages_too() -> None:
    member = Member([1])
    member.sequencer.open_log(None, MIB, 0)
    assert member.at(1, 0, 0).touches == 1


def test_a_follower_keeps_no_sessions_open() -> None:
    member = Member([1])
    member.is_leader = False
    member.at(1, 2 * MIB, 0).at(30, 4 * MIB, 0)
    assert member.lags and member.touches == 0 and member.begun == []
