"""A planned end of the whole cluster at one position (cluster-consensus.md §20)."""

from typing import Any

from ordo.cluster.module.state.termination import Termination
from ordo.cluster.wire.counters.counter_types import ModuleState
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.cluster.module.member import Core, Counters, Host

POSITION = 640


class Member:
    def __init__(self, **host: Any) -> None:
        self.host, self.core, self.counters = Host(**host), Core(), Counters()
        parts: Any = self.host, self.core, self.counters
        self.termination = Termination(
            *parts, is_ready=self.host.is_ready_to_end, terminate_services=self.host.terminate_service
        )


def test_the_service_is_told_once_it_can_have_everything_up_to_the_position() -> None:
    member = Member(is_ready=False)
    member.termination.work(0)
    assert not member.termination.is_under_way
    member.core.begin_termination(POSITION, 0)
    member.termination.work(0)
    assert member.host.terminated == []
    member.host.is_ready = True
    member.termination.work(0)
    member.termination.work(0)
    assert member.host.terminated == [POSITION]
    assert member.counters.state == ModuleState.TERMINATING


def test_a_service_that_could_not_be_told_is_told_later() -> None:
    member = Member(service_listens=False)
    member.core.begin_termination(POSITION, 0)
    member.termination.work(0)
    assert member.counters.state == ModuleState.ACTIVE
    member.host.service_listens = True
    member.termination.work(0)
    assert member.host.terminated == [POSITION]


def test_only_an_ack_at_the_position_is_the_farewell() -> None:
    member = Member()
    assert not member.termination.on_service_ack(0, POSITION), "nobody was told"
    member.core.begin_termination(POSITION, 0)
    member.termination.work(0)
    assert not member.termination.on_service_ack(0, POSITION - 32), "of a snapshot before it"
    assert member.termination.on_service_ack(0, POSITION)


def test_services_whose_processes_have_ended_as_told_need_no_ack() -> None:
    member = Member(is_leader=True)
    member.core.begin_termination(POSITION, 0)
    assert not member.termination.has_told_services
    member.termination.work(0)
    assert member.termination.has_told_services
    member.termination.on_services_ended()
    member.termination.work(0)
    assert not member.host.has_ended, "a leader waits for its followers"
    member.core.termination_is_complete = True
    member.termination.work(0)
    assert member.host.has_ended


def ended(member: Member) -> bool:
    member.core.begin_termination(POSITION, 0)
    member.termination.work(0)
    member.termination.on_service_ack(0, POSITION)
    member.termination.work(0)
    return member.host.has_ended


def test_the_leader_leaves_last() -> None:
    member = Member()
    assert not ended(member)
    member.core.termination_is_complete = True
    member.termination.work(0)
    assert member.host.has_ended


def test_a_follower_leaves_after_it_has_said_so() -> None:
    member = Member(is_leader=False)
    assert not ended(member)
    assert ("acknowledge", POSITION) in member.core.told
    member.termination.work(0)
    assert member.host.has_ended


def test_a_follower_whose_service_was_told_follows_it_without_a_leader() -> None:
    member = Member(is_leader=False)
    member.core.begin_termination(POSITION, 0)
    member.termination.work(0)
    member.core.termination_position = NULL_POSITION  # an election has forgotten it
    member.termination.on_service_ack(0, POSITION)
    member.termination.work(0)
    assert member.host.has_ended
