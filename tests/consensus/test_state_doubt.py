"""Members whose service's state is in doubt: they vote, and stand back from leading (docs/CONSENSUS.md, Trust)."""

from itertools import accumulate

import pytest

from ordo.consensus.state.commands import PersistDistrust
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import AppendPosition, RequestVote, StandsBack, TimeoutNow, TrustRequest, Vote
from ordo.consensus.state.states import ElectionState, Role
from tests.consensus.harness import FIRST_RECORD, Harness
from tests.consensus.test_simulation import run_seed

END = FIRST_RECORD


def doubting() -> Harness:
    """A follower of member 1 in term 0, its log ending at 96, whose service's state differs."""
    node = Harness().following()
    node.core.doubt_state()
    return node.after()


def alone() -> Harness:
    """The same, without a leader: it has canvassed since its leader fell silent."""
    node = doubting().tick(499).tick(2).expect(ElectionState.INIT).tick(1)
    return node.expect(ElectionState.CANVASS)


def test_it_votes() -> None:
    """Raft §5.4.1 rests on logs, and its log is whole: with another member down, its vote is the one that is needed."""
    node = alone()
    assert node.core.may_vote and node.core.untrusted_members == []
    node.request_from(2, 1, log_term=0, position=END)
    assert [vote.vote for _, vote in node.sent(Vote)] == [True]


def test_it_gives_one_vote_a_term_and_none_to_older_logs() -> None:
    node = alone().request_from(2, 1, log_term=0, position=END - 32)
    assert [vote.vote for _, vote in node.sent(Vote)] == [False]
    node.request_from(2, 2, log_term=0, position=END).request_from(1, 2, log_term=0, position=END)
    assert [vote.vote for _, vote in node.sent(Vote)] == [False]


def test_it_acknowledges() -> None:
    node = doubting().appended(600)
    assert (1, AppendPosition(0, 600, 0)) in node.sent(AppendPosition)


def test_it_says_that_it_stands_back_and_asks_for_nothing() -> None:
    node = doubting().tick(50)
    assert node.sent(StandsBack) == [(None, StandsBack(0))]
    assert not node.sent(TrustRequest) and not node.of(PersistDistrust)
    assert alone().tick(50).sent(StandsBack)


def test_it_does_not_stand_when_its_leader_asks_it() -> None:
    doubting().receive(TimeoutNow(0, END, 1, 0)).expect(ElectionState.CLOSED)


def test_one_that_stands_back_is_no_target_of_a_transfer_for_as_long_as_it_says_so() -> None:
    node = Harness().serving().receive(StandsBack(1))
    assert not node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)
    node.tick(250).ack_from(1, FIRST_RECORD).ack_from(2, FIRST_RECORD)
    node.tick(250).ack_from(1, FIRST_RECORD).ack_from(2, FIRST_RECORD)
    assert node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)


def test_others_wait_for_its_vote() -> None:
    """Unlike one that lost something: where it is heard, it is one of those who must agree to an early election."""
    node = Harness().canvassing().receive(StandsBack(2)).canvass_from(1).tick(1).tick(1)
    node.expect(ElectionState.CANVASS).canvass_from(2).tick(1).tick(1).expect(ElectionState.CANDIDATE_BALLOT)


def test_it_leaves_others_the_time_to_come_forward() -> None:
    node, waited_ms = alone(), 0
    while not node.sent(RequestVote):
        node.canvass_from(2, log_term=0, position=END).tick(10)
        waited_ms += 10
    assert waited_ms >= 750, "a heartbeat timeout, and an election of somebody else"


def test_it_leads_until_others_have_its_log_when_nobody_else_can() -> None:
    """The other member's log is older, so it can never have this one's vote; the third is down."""
    node = alone()
    while node.core.state is not ElectionState.CANDIDATE_BALLOT:
        node.canvass_from(2, log_term=0, position=END - 32).tick(10)
    node.vote_from(2).tick(250).expect(ElectionState.LEADER_INIT)
    base = node.core.term_base_position
    node.core.on_log_ready(55, base + FIRST_RECORD, node.now_ns)
    node.core.on_new_term(node.term, base)
    node.appended(base + FIRST_RECORD).expect(ElectionState.LEADER_READY)
    node.ack_from(2, base + FIRST_RECORD).expect(ElectionState.INIT)
    assert node.core.role is Role.FOLLOWER and not node.core.is_serving
    assert node.core.commit_position == base + FIRST_RECORD
    node.tick(1).request_from(2, node.term + 1, log_term=node.term, position=base + FIRST_RECORD)
    assert [vote.vote for _, vote in node.sent(Vote)] == [True]


def test_one_that_lost_a_part_of_its_log_as_well_does_not_vote() -> None:
    node = Harness(terms=((0, 0),), append_position=END, candidate_term_id=0, distrust=Distrust.LOG).canvassing()
    node.core.doubt_state()
    assert not node.request_from(1, 5, log_term=3, position=4096).sent(Vote)
    assert node.tick(50).sent(TrustRequest) and not node.sent(StandsBack)


def test_an_only_voter_has_nobody_to_stand_back_for() -> None:
    node = Harness(1)
    node.core._ctx.doubt_state()
    node.tick().expect(ElectionState.LEADER_INIT)
    assert not node.core._ctx.stands_back


@pytest.mark.thorough
def test_doubt_happens_in_the_simulation_of_faults() -> None:
    assert any(count >= 4 for count in accumulate(run_seed(seed).doubts for seed in range(200, 225)))
