"""Members that lost what they had acknowledged, or their vote (docs/CONSENSUS.md, Trust)."""

import pytest

from ordo.consensus.state.commands import JoinLog, PersistCandidateTerm, PersistDistrust
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import (
    FORGOTTEN_TERM,
    AppendPosition,
    CanvassPosition,
    RequestVote,
    TimeoutNow,
    TrustAnswer,
    TrustRequest,
    Vote,
)
from ordo.consensus.state.states import ElectionState, Role
from tests.consensus.harness import FIRST_RECORD, Harness

LOG, VOTE, BOTH = Distrust.LOG, Distrust.VOTE, Distrust.LOG | Distrust.VOTE
TERMS = ((0, 0),)


def damaged(distrust: Distrust = LOG, member_count: int = 3) -> Harness:
    """A member whose log ends at 96 in term 0, and which had acknowledged more."""
    return Harness(
        member_count, terms=TERMS, append_position=FIRST_RECORD, candidate_term_id=0, distrust=distrust
    ).canvassing()


def answer(node: Harness, member_id: int, bound: int = 1, leads: int = -1, end: int = -1) -> Harness:
    request_id = node.core._ctx.trust_request_id
    return node.receive(TrustAnswer(request_id, member_id, bound, leads, end))


def joined(node: Harness, leader_id: int = 1, leadership_term_id: int = 1) -> Harness:
    """Follows the leader of a term that begins where the own log ends."""
    base = node.core.append_position
    node.announce(leader_id, leadership_term_id, base, log_term=node.core.log_term_id).expect(
        ElectionState.FOLLOWER_CATCHUP_AWAIT
    )
    node.core.on_joined(base, node.now_ns)
    node.core.on_new_term(leadership_term_id, base)
    return node.after()


# -- no vote, no candidacy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distrust", [LOG, VOTE, BOTH])
def test_distrusted_member_neither_votes_nor_refuses(distrust: Distrust) -> None:
    """Raft §5.4.1 is about the log that was acknowledged, not what is left of it; a refusal would hold up others."""
    node = damaged(distrust)
    assert not node.request_from(1, 5, log_term=3, position=4096).sent(Vote)
    assert node.expect(ElectionState.CANVASS).term == 0


@pytest.mark.parametrize("distrust", [LOG, VOTE, BOTH])
def test_distrusted_member_does_not_stand(distrust: Distrust) -> None:
    node = damaged(distrust).canvass_from(1, 2)
    for _ in range(600):
        node.canvass_from(1, 2).tick(10)
        node.expect(ElectionState.CANVASS)
        assert not node.sent(RequestVote)


def test_distrusted_follower_does_not_stand_when_its_leader_asks_it() -> None:
    """Raft §3.10 (dissertation)."""
    node = joined(damaged())
    node.appended(2 * FIRST_RECORD)
    node.core.on_live(node.now_ns)
    node.after().receive(TimeoutNow(1, 2 * FIRST_RECORD, 1, 0)).expect(ElectionState.CLOSED)


def test_distrusted_member_says_so_beside_its_canvass() -> None:
    node = damaged()
    assert node.core.untrusted_members == [0]
    requests = node.tick(50).sent(TrustRequest)
    assert requests == [(None, TrustRequest(node.core._ctx.trust_request_id, 0))]
    assert node.sent(CanvassPosition)
    assert not Harness().canvassing().tick(50).sent(TrustRequest)


# -- the others do not wait for it -------------------------------------------------------------------------------------


def test_unanimity_does_not_wait_for_a_distrusted_member() -> None:
    """The start of a cluster with one damaged member is as quick as with three whole ones."""
    node = Harness().canvassing().receive(TrustRequest(9, 2)).canvass_from(1, 2).tick(1).tick(1)
    node.expect(ElectionState.CANDIDATE_BALLOT).vote_from(1).expect(ElectionState.LEADER_INIT)


def test_without_a_quorum_of_trusted_members_nobody_stands() -> None:
    node = Harness().canvassing()
    for _ in range(600):
        node.receive(TrustRequest(8, 1)).receive(TrustRequest(9, 2)).canvass_from(1, 2).tick(10)
        node.expect(ElectionState.CANVASS)
    assert node.core.untrusted_members == [1, 2]


def test_distrust_that_is_not_repeated_is_over() -> None:
    node = Harness().canvassing().receive(TrustRequest(9, 2)).tick(499)
    assert node.core.untrusted_members == [2]
    assert node.tick(1).core.untrusted_members == []


def test_distrusted_member_is_no_target_of_a_transfer() -> None:
    node = Harness().serving().receive(TrustRequest(9, 1))
    assert not node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)
    assert node.core.transfer_leadership(None, FIRST_RECORD, node.now_ns)
    assert node.core._ctx.transfer_target_id == 2


# -- the answers -------------------------------------------------------------------------------------------------------


def test_a_leader_answers_with_its_term_and_the_end_of_its_log() -> None:
    node = Harness().serving().receive(TrustRequest(9, 2))
    assert node.sent(TrustAnswer) == [(2, TrustAnswer(9, 0, 0, 0, FIRST_RECORD))]


def test_other_members_answer_with_the_term_they_are_bound_to() -> None:
    for node in (Harness(candidate_term_id=7).canvassing(), Harness().following(leadership_term_id=7)):
        assert node.receive(TrustRequest(9, 2)).sent(TrustAnswer) == [(2, TrustAnswer(9, 0, 7, -1, -1))]


def test_a_leader_whose_first_record_is_not_appended_does_not_answer_as_one() -> None:
    node = Harness().balloting().vote_from(1, 2).expect(ElectionState.LEADER_INIT)
    assert node.receive(TrustRequest(9, 2)).sent(TrustAnswer) == [(2, TrustAnswer(9, 0, 0, -1, -1))]


def test_a_member_that_forgot_its_vote_tells_no_term() -> None:
    (told,) = damaged(BOTH).receive(TrustRequest(9, 2)).sent(TrustAnswer)
    assert told == (2, TrustAnswer(9, 0, FORGOTTEN_TERM, -1, -1))
    (told,) = damaged(LOG).receive(TrustRequest(9, 2)).sent(TrustAnswer)
    assert told == (2, TrustAnswer(9, 0, 0, -1, -1))


# -- a log that was lost -----------------------------------------------------------------------------------------------


def test_log_is_trusted_once_all_that_the_leader_had_published_is_committed() -> None:
    node = joined(damaged())
    answer(node, 1, leads=1, end=500)
    node.appended(480).commit_from(1, 480)
    assert not node.of(PersistDistrust)
    node.appended(600).commit_from(1, 499)
    assert not node.of(PersistDistrust) and not node.core.may_vote
    node.commit_from(1, 500)
    assert node.of(PersistDistrust) == [PersistDistrust(Distrust.NONE)]
    assert node.core.may_vote
    assert not node.tick(50).sent(TrustRequest)


def test_log_is_not_trusted_without_an_answer_of_its_leader_to_this_start() -> None:
    """What the leader had committed when it announced itself may be less than what this member acknowledged in its
    term before it was damaged."""
    node = joined(damaged()).appended(600).commit_from(1, 600)
    assert not node.core.may_vote
    node.receive(TrustAnswer(node.core._ctx.trust_request_id + 1, 1, 1, 1, 400)).tick(1)
    assert not node.core.may_vote, "an answer to an earlier start"
    answer(node, 2, leads=-1).tick(1)
    assert not node.core.may_vote, "not from the leader"
    answer(node, 1, leads=0, end=400).tick(1)
    assert not node.core.may_vote, "of another term"
    answer(node, 1, leads=1, end=600).tick(1)
    assert node.core.may_vote


def test_the_end_of_one_leaders_log_says_nothing_about_the_next() -> None:
    node = joined(damaged())
    answer(node, 1, leads=1, end=200)
    node.appended(2 * FIRST_RECORD).tick(499).tick(2).expect(ElectionState.INIT)
    node.canvassing()
    joined(node, 2, 2).appended(600).commit_from(2, 600)
    assert not node.core.may_vote
    answer(node, 2, bound=2, leads=2, end=600).tick(1)
    assert node.core.may_vote


def test_distrusted_follower_acknowledges() -> None:
    """A distrusted member acknowledges the leader's log, which it has, so a cluster with one whole follower commits."""
    node = joined(damaged()).appended(600)
    assert (1, AppendPosition(1, 600, 0, 1)) in node.sent(AppendPosition)


# -- a vote that was forgotten -----------------------------------------------------------------------------------------


def test_member_without_its_vote_follows_nobody_until_all_others_told_their_terms() -> None:
    """The member may have voted for member 2 in term 4; acknowledging to the leader of term 1 lets both commit."""
    node = Harness(distrust=BOTH).canvassing()
    assert not node.announce(1, 1, 0).of(JoinLog)
    answer(node, 1, bound=1, leads=1, end=96)
    assert node.core.unknown_terms == [2]
    assert not node.announce(1, 1, 0).of(JoinLog)
    answer(node, 2, bound=4)
    assert node.of(PersistCandidateTerm) == [PersistCandidateTerm(4, 0)]
    assert node.of(PersistDistrust) == [PersistDistrust(LOG)], "the log still has to be copied"
    assert not node.announce(1, 1, 0).of(JoinLog), "bound to term 4 now"
    assert node.announce(1, 5, 0).of(JoinLog)
    assert node.core.role is Role.FOLLOWER


@pytest.mark.parametrize(("members", "forgetful", "is_enough"), [(5, 1, True), (5, 2, False), (3, 1, False)])
def test_others_that_forgot_their_votes_are_fewer_than_a_quorum(members: int, forgetful: int, is_enough: bool) -> None:
    """Whoever was elected by forgotten votes is known to the rest of its quorum."""
    node = Harness(members, distrust=BOTH).canvassing()
    for member_id in range(1, members):
        answer(node, member_id, bound=FORGOTTEN_TERM if member_id <= forgetful else 4)
    assert node.of(PersistCandidateTerm) == ([PersistCandidateTerm(4, 0)] if is_enough else [])
    assert node.core.unknown_terms == ([] if is_enough else list(range(1, 1 + forgetful)))


def test_a_term_that_only_the_log_tells_is_stored() -> None:
    """A member that had lost its store found bit rot in its log, and cut away the only record that told the term."""
    node = Harness(terms=((0, 0), (4, 96)), append_position=192, distrust=BOTH).canvassing()
    answer(node, 1, bound=3)
    answer(node, 2, bound=4)
    assert node.of(PersistCandidateTerm) == [PersistCandidateTerm(4, 192)]


def test_terms_told_to_an_earlier_start_do_not_count() -> None:
    node = Harness(distrust=VOTE).canvassing()
    for member_id in (1, 2):
        node.receive(TrustAnswer(node.core._ctx.trust_request_id + 1, member_id, 4, -1, -1))
    assert node.core.unknown_terms == [1, 2]
    answer(node, 1)
    answer(node, 2)
    assert node.core.may_vote
