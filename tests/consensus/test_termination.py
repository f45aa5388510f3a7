"""Stopping the whole cluster at one position: cluster-consensus.md §20."""

import pytest

from ordo.consensus.state.messages import TerminationAck, TerminationPosition
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import ConsensusError
from tests.consensus.harness import FIRST_RECORD, Harness


def test_leader_waits_until_all_followers_have_left() -> None:
    node = Harness().serving()
    node.core.begin_termination(500, node.now_ns)
    assert node.after().sent(TerminationPosition) == [
        (1, TerminationPosition(0, 500)),
        (2, TerminationPosition(0, 500)),
    ]
    node.receive(TerminationAck(0, 500, 1))
    assert not node.core.termination_is_complete
    assert [target for target, _ in node.tick(50).sent(TerminationPosition)] == [2], "repeated, for it may be lost"
    node.receive(TerminationAck(0, 400, 2)).receive(TerminationAck(7, 500, 2))
    assert not node.core.termination_is_complete
    node.receive(TerminationAck(0, 512, 2))
    assert node.core.termination_is_complete


def test_leader_leaves_at_the_deadline_and_does_not_mind_silent_followers() -> None:
    node = Harness().serving()
    node.core.begin_termination(500, node.now_ns)
    node.tick(9_999).expect(ElectionState.CLOSED)
    assert not node.core.termination_is_complete
    assert node.tick(1).core.termination_is_complete


def test_only_the_serving_leader_begins() -> None:
    for node in (Harness().following(), Harness().elected(), Harness().canvassing()):
        with pytest.raises(ConsensusError, match="only the serving leader"):
            node.core.begin_termination(500, node.now_ns)


def test_follower_leaves_when_it_has_executed_up_to_the_position() -> None:
    node = Harness().following().receive(TerminationPosition(0, FIRST_RECORD))
    assert node.core.termination_position == FIRST_RECORD
    node.core.acknowledge_termination(FIRST_RECORD - 32, node.now_ns)
    assert not node.after().sent(TerminationAck)
    node.core.acknowledge_termination(FIRST_RECORD, node.now_ns)
    assert node.after().sent(TerminationAck) == [(1, TerminationAck(0, FIRST_RECORD, 0))]


def test_follower_told_to_stop_starts_no_election() -> None:
    node = Harness().following().receive(TerminationPosition(0, 500)).tick(2000)
    node.expect(ElectionState.CLOSED)


def test_order_of_another_term_is_ignored() -> None:
    node = Harness().following().receive(TerminationPosition(1, 500))
    assert node.core.termination_position == -1


def test_no_acknowledgement_goes_to_the_leader_of_a_later_term() -> None:
    node = Harness().following().receive(TerminationPosition(0, 96)).announce(2, 3, 96, log_term=0).tick()
    node.announce(2, 3, 96, log_term=0)
    assert node.core.leader_member_id == 2
    node.core.acknowledge_termination(96, node.now_ns)
    assert not node.after().sent(TerminationAck)
