"""Handing the leadership over, as the consensus module carries it out (docs/ARCHITECTURE.md)."""

from typing import Any

import pytest

from ordo.cluster.module.state.transfer import STOP_TIMEOUTS, LeadershipTransfer
from ordo.cluster.wire.counters.counter_types import ControlToggle, transfer_value
from tests.cluster.module.member import Core, Counters, Host, Log

TIMEOUT_NS = Core.election_timeout_ns


class Member:
    def __init__(self, **host: Any) -> None:
        self.host, self.core, self.log, self.counters = Host(**host), Core(), Log(), Counters()
        self.counters.service_position.set(self.log.log_end_position)
        parts: Any = self.host, self.core, self.log, self.counters, self.host.update_ingress
        self.transfer = LeadershipTransfer(*parts)


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_transfer_begins_only_at_the_leader_and_once(member: Member) -> None:
    member.transfer.begin(1, 0)
    member.transfer.begin(2, 0)
    assert member.transfer.is_under_way
    member.transfer.work(0)
    assert member.core.told == [("transfer", 1, 1000)]
    follower = Member(is_leader=False)
    follower.transfer.begin(1, 0)
    assert not follower.transfer.is_under_way


def test_the_service_executes_what_is_committed_before_the_target_is_asked(member: Member) -> None:
    member.counters.service_position.set(900)
    member.transfer.begin(None, 0)
    member.transfer.work(TIMEOUT_NS - 1)
    assert member.core.told == []
    member.counters.service_position.set(1000)
    member.transfer.work(TIMEOUT_NS - 1)
    assert member.core.told == [("transfer", None, 1000)]


def test_a_service_that_lags_holds_nothing_up_beyond_an_election_timeout(member: Member) -> None:
    member.counters.service_position.set(0)
    member.transfer.begin(None, 0)
    member.transfer.work(TIMEOUT_NS)
    assert member.core.told == [("transfer", None, 1000)]


@pytest.mark.parametrize("is_refused", [True, False], ids=["nobody can", "nobody did in time"])
def test_a_leader_that_stays_in_office_goes_on_and_says_so(member: Member, is_refused: bool) -> None:
    member.core.can_transfer = not is_refused
    member.counters.control_toggle.set(transfer_value(2))
    member.transfer.begin_asked(transfer_value(2), 0)
    member.transfer.work(0)
    member.core.is_transferring = False
    member.transfer.work(1)
    assert not member.transfer.is_under_way
    assert member.counters.control_toggle.value == ControlToggle.NEUTRAL
    assert not member.host.has_ended
    assert member.host.updates == 2  # ingress was closed and opened again


def test_a_stopping_leader_waits_for_its_successor_as_its_vote_may_be_needed(member: Member) -> None:
    member.transfer.stop()
    member.transfer.work(0)
    assert not member.host.has_ended
    member.host.is_leader = False
    member.transfer.lose_leadership()
    member.core.leader_member_id = -1
    member.transfer.work(1)
    assert not member.host.has_ended
    member.core.leader_member_id = 2
    member.transfer.work(2)
    assert member.host.has_ended


def test_a_stopping_leader_leaves_at_its_deadline(member: Member) -> None:
    member.transfer.stop()
    member.transfer.work(1)
    member.transfer.work(1 + STOP_TIMEOUTS * TIMEOUT_NS - 1)
    assert not member.host.has_ended
    member.transfer.work(1 + STOP_TIMEOUTS * TIMEOUT_NS)
    assert member.host.has_ended


def test_a_stopping_follower_leaves_at_once() -> None:
    member = Member(is_leader=False, member_id=1)
    member.transfer.stop()
    member.transfer.work(0)
    assert member.host.has_ended
