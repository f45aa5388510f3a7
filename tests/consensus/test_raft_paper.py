"""One test for each rule of the Raft paper (Ongaro and Ousterhout, extended version; "D" marks the dissertation)."""

import pytest

from ordo.consensus.state.commands import (
    Commit,
    JoinLog,
    LeaveLog,
    PersistCandidateTerm,
    PersistTerm,
    Send,
    TruncateLog,
)
from ordo.consensus.state.messages import (
    AppendPosition,
    CanvassPosition,
    CommitPosition,
    NewLeadershipTerm,
    RequestVote,
    Vote,
)
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.errors import ConsensusError
from tests.consensus.harness import FIRST_RECORD, Harness

LOG = ((0, 0), (2, 400))


# -- §5.1 terms --------------------------------------------------------------------------------------------------------


def test_5_1_leader_steps_down_when_it_meets_a_higher_term() -> None:
    node = Harness().serving()
    node.announce(1, node.term + 1, 500, log_term=0)
    node.expect(ElectionState.INIT)
    assert node.core.role is Role.FOLLOWER
    assert len(node.of(LeaveLog)) == 1


def test_5_1_leader_steps_down_when_a_member_is_bound_to_a_higher_term() -> None:
    node = Harness().serving().canvass_from(1, bound=9)
    node.expect(ElectionState.INIT)
    node.tick().canvass_from(1, 2, log_term=0, position=50).tick(501).canvass_from(1, 2).tick(1).tick(1)
    assert node.term == 10, "the next term is above every term met"


def test_5_1_candidate_becomes_follower_of_a_leader_of_its_term() -> None:
    node = Harness().balloting()
    node.announce(2, node.term, 0)
    node.expect(ElectionState.FOLLOWER_CATCHUP_AWAIT)
    assert node.core.leader_member_id == 2


def test_5_1_leaders_of_lower_terms_are_refused_in_every_electing_state() -> None:
    for node in (Harness(candidate_term_id=5).canvassing(), Harness(candidate_term_id=5).balloting()):
        state = node.state
        node.announce(1, 4, 0)
        assert node.state is state
        assert not node.of(JoinLog)


def test_5_1_follower_ignores_a_leader_of_a_lower_term() -> None:
    node = Harness(terms=LOG, append_position=800).following(leadership_term_id=5)
    node.announce(2, 4, 0).commit_from(2, 5000, leadership_term_id=4)
    assert node.core.leader_member_id == 1
    assert node.core.commit_position == 0


def test_5_1_candidates_of_lower_terms_are_refused() -> None:
    node = Harness(candidate_term_id=5).canvassing().request_from(1, 4, 4, 9000)
    assert not [vote for _, vote in node.sent(Vote) if vote.vote]
    assert not node.of(PersistCandidateTerm)
    node.expect(ElectionState.CANVASS)


def test_5_1_terms_do_not_go_back_over_a_restart() -> None:
    node = Harness(candidate_term_id=7).balloting()
    assert node.term == 8
    assert Harness(terms=LOG, append_position=800, candidate_term_id=1).term == 2, "bound to the log's last term"


# -- §5.2 leader election ----------------------------------------------------------------------------------------------


def test_5_2_candidate_makes_its_term_durable_before_it_asks_for_votes() -> None:
    node = Harness().balloting()
    kinds = [type(command) for command in node.taken]
    assert kinds.index(PersistCandidateTerm) < kinds.index(Send)
    assert node.of(PersistCandidateTerm)[0].candidate_term_id == 0
    assert [target for target, _ in node.sent(RequestVote)] == [1, 2]


def test_5_2_voter_makes_its_vote_durable_before_it_answers() -> None:
    node = Harness().canvassing().request_from(1, 3)
    assert [type(command) for command in node.taken[:2]] == [PersistCandidateTerm, Send]
    assert node.sent(Vote) == [(1, Vote(3, -1, 0, 1, 0, True))]


def test_5_2_one_vote_a_term_first_come_first_served() -> None:
    node = Harness().canvassing().request_from(1, 3).request_from(2, 3)
    assert node.sent(Vote) == [(2, Vote(3, -1, 0, 2, 0, False))]


def test_5_2_a_repeated_request_gets_the_same_vote() -> None:
    node = Harness().canvassing().request_from(1, 3).request_from(1, 3)
    assert node.sent(Vote) == [(1, Vote(3, -1, 0, 1, 0, True))]
    assert not node.of(PersistCandidateTerm)


def test_5_2_no_second_vote_after_a_restart() -> None:
    before = Harness().canvassing().request_from(1, 3)
    persisted = before.of(PersistCandidateTerm)[-1].candidate_term_id
    after = Harness(candidate_term_id=persisted).canvassing()
    for candidate_id in (1, 2):
        after.request_from(candidate_id, 3)
        assert after.sent(Vote)[0][1].vote is False


def test_5_2_candidate_votes_for_itself_only() -> None:
    node = Harness().balloting()
    node.request_from(1, node.term)
    assert node.sent(Vote)[0][1].vote is False


def test_5_2_candidate_yields_to_a_candidate_of_a_higher_term() -> None:
    node = Harness().balloting()
    node.request_from(1, node.term + 1)
    assert node.sent(Vote)[0][1].vote is True
    node.expect(ElectionState.FOLLOWER_BALLOT)
    assert node.core.role is Role.FOLLOWER


def test_5_2_majority_of_votes_makes_a_leader_and_a_minority_does_not() -> None:
    node = Harness(member_count=5).balloting().vote_from(1)
    node.tick(250).expect(ElectionState.CANVASS)
    node = Harness(member_count=5).balloting().vote_from(1, 2)
    node.tick(250).expect(ElectionState.LEADER_INIT)


def test_5_2_votes_for_another_term_or_candidate_do_not_count() -> None:
    node = Harness(member_count=5).balloting()
    node.receive(Vote(node.term - 1, -1, 0, 0, 1, True)).receive(Vote(node.term, -1, 0, 3, 2, True))
    node.tick(250).expect(ElectionState.CANVASS)


def test_5_2_a_repeated_vote_counts_once() -> None:
    node = Harness(member_count=5).balloting().vote_from(1).vote_from(1).vote_from(1)
    node.tick(250).expect(ElectionState.CANVASS)


def test_5_2_new_leader_announces_itself_to_all_at_once_and_every_interval() -> None:
    node = Harness().elected()
    assert [target for target, _ in node.sent(NewLeadershipTerm)] == [1, 2]
    assert not node.tick(49).sent(NewLeadershipTerm)
    assert [target for target, _ in node.tick(1).sent(NewLeadershipTerm)] == [1, 2]


def test_5_2_follower_without_a_leader_starts_an_election() -> None:
    node = Harness().following()
    node.tick(499).expect(ElectionState.CLOSED)
    node.tick(1).expect(ElectionState.INIT)
    assert node.of(LeaveLog)[0].reason == "leader heartbeat timeout"


def test_5_2_elections_use_a_random_delay() -> None:
    node = Harness().canvassing()

    class Highest:
        def uniform_int(self, low: int, high: int) -> int:
            assert (low, high) == (0, node.config.election_timeout_ns // 2)
            return high

    node.core._ctx.rng = Highest()
    node.canvass_from(1, 2).tick(1)
    node.tick(124).expect(ElectionState.NOMINATE)
    node.tick(1).expect(ElectionState.CANDIDATE_BALLOT)


# -- §5.3 log replication ----------------------------------------------------------------------------------------------


def test_5_3_leader_commits_what_a_majority_has() -> None:
    node = Harness(member_count=5).serving()
    node.appended(500)
    assert not node.ack_from(1, 500).of(Commit)
    assert node.ack_from(2, 400).of(Commit) == [Commit(400)]
    assert node.ack_from(3, 450).of(Commit) == [Commit(450)]


def test_5_3_leader_never_commits_beyond_its_own_durable_log() -> None:
    node = Harness().serving()
    node.ack_from(1, 900).ack_from(2, 900)
    assert node.core.commit_position == FIRST_RECORD


def test_5_3_acknowledgements_of_other_terms_do_not_count() -> None:
    node = Harness(terms=LOG, append_position=800).serving()
    node.appended(2000)
    node.ack_from(1, 2000, leadership_term_id=2).ack_from(2, 2000, leadership_term_id=0)
    assert node.core.commit_position == 800 + FIRST_RECORD


def test_5_3_commit_position_is_told_to_the_followers() -> None:
    node = Harness().serving()
    node.appended(500).ack_from(1, 500)
    assert node.sent(CommitPosition) == [(None, CommitPosition(node.term, 500, 0))]


def test_5_3_follower_commits_no_further_than_told_and_no_further_than_its_log() -> None:
    node = Harness().following()
    assert node.commit_from(1, 60).of(Commit) == [Commit(60)]
    assert node.commit_from(1, 900).of(Commit) == [Commit(FIRST_RECORD)]
    assert node.appended(400).of(Commit) == [Commit(400)]
    assert node.appended(1000).of(Commit) == [Commit(900)]


def test_5_3_follower_acknowledges_what_is_durable_at_once() -> None:
    node = Harness().following().appended(400)
    assert node.sent(AppendPosition) == [(1, AppendPosition(0, 400, 0, 0))]


def test_5_3_follower_with_more_than_the_leader_had_truncates() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.announce(1, 5, 640, log_term=2)
    assert node.of(TruncateLog) == [TruncateLog(640)]
    node.expect(ElectionState.INIT)
    node.core.on_truncated(640, node.now_ns)
    node.tick()
    assert node.sent(CanvassPosition)[0][1][:2] == (2, 640)


def test_5_3_follower_with_a_term_the_leader_lacks_removes_the_term() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.announce(1, 5, 600, log_term=0)
    assert node.of(TruncateLog) == [TruncateLog(400)]
    node.core.on_truncated(400, node.now_ns)
    node.tick()
    assert node.sent(CanvassPosition)[0][1][:2] == (0, 400)
    assert node.core.terms == [(0, 0)]


def test_5_3_follower_with_less_than_the_leader_joins_where_its_log_ends() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.announce(1, 5, 1200, log_term=2, position=1500)
    assert node.of(JoinLog) == [JoinLog(5, 1, 77, 800, 1500)]


def test_5_3_a_leader_never_truncates_its_own_log() -> None:
    """Leader append-only: neither followers with less nor leaders of other terms make it, even when it gives up."""
    node = Harness(terms=LOG, append_position=800).serving()
    end = node.appended(2000).core.append_position
    taken = node.canvass_from(1, log_term=0, position=100).of(TruncateLog)
    taken += node.ack_from(1, 100).of(TruncateLog)
    taken += node.announce(1, 1, 400, log_term=0).of(TruncateLog)
    taken += node.announce(1, node.term + 1, 640, log_term=2).of(TruncateLog)
    taken += node.tick(10).of(TruncateLog)
    assert taken == []
    assert node.core.append_position == end
    node.expect(ElectionState.CANVASS)


def test_5_3_leader_tells_each_member_the_rows_around_its_own_log_term() -> None:
    node = Harness(terms=((0, 0), (2, 400), (3, 600)), append_position=800).serving()
    answers = {}
    for log_term in (-1, 0, 1, 2, 3, node.term):
        node.canvass_from(1, log_term=log_term, position=100)
        answers[log_term] = node.sent(NewLeadershipTerm)[0][1][:4]
    assert answers == {
        -1: (-1, 0, 0, 400),
        0: (0, 2, 400, 600),
        1: (0, 2, 400, 600),
        2: (2, 3, 600, 800),
        3: (3, 4, 800, -1),
        4: (4, -1, -1, -1),
    }


# -- §5.4 safety -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_term", "position", "vote"),
    [(2, 800, True), (2, 801, True), (3, 100, True), (2, 799, False), (1, 9000, False), (-1, 0, False)],
)
def test_5_4_1_vote_only_for_a_log_at_least_as_up_to_date(log_term: int, position: int, vote: bool) -> None:
    node = Harness(terms=LOG, append_position=800).canvassing().request_from(1, 6, log_term, position)
    assert node.sent(Vote) == [(1, Vote(6, 2, 800, 1, 0, vote))]
    assert node.of(PersistCandidateTerm)[0].candidate_term_id == 6, "refusing binds to the term as well"


def test_5_4_2_nothing_of_an_earlier_term_is_committed_by_counting() -> None:
    """Figure 8: the old entries are on a quorum, but they are safe only once one of the leader's own term is."""
    node = Harness(terms=LOG, append_position=800).elected()
    node.ack_from(1, 800).ack_from(2, 800)
    assert node.core.commit_position == 0
    node.core.on_new_term(node.term, 800)
    node.appended(800 + FIRST_RECORD).ack_from(1, 800 + FIRST_RECORD - 32)
    assert node.core.commit_position == 0
    node.expect(ElectionState.LEADER_READY)
    node.ack_from(1, 800 + FIRST_RECORD)
    assert node.of(Commit) == [Commit(800 + FIRST_RECORD)]
    assert node.core.is_serving


def test_5_4_2_a_torn_first_record_of_the_own_log_does_not_establish_a_term() -> None:
    node = Harness(terms=LOG, append_position=800).elected()
    node.core.on_new_term(node.term, 800)
    node.appended(832).ack_from(1, 2000).ack_from(2, 2000)
    node.expect(ElectionState.LEADER_READY)
    assert node.core.commit_position == 0


def test_5_4_3_what_is_committed_is_never_truncated() -> None:
    node = Harness(terms=LOG, append_position=800, commit_position=700).canvassing()
    with pytest.raises(ConsensusError, match="up to 700 it was committed"):
        node.announce(1, 5, 640, log_term=2)


def test_5_4_3_two_leaders_of_one_term_stop_the_node() -> None:
    node = Harness().following()
    with pytest.raises(ConsensusError, match="both lead term 0"):
        node.announce(2, 0, 0)


# -- §5.5, §5.6, D §4.2.3, D §6.2, D §9.6 ------------------------------------------------------------------------------


def test_5_5_messages_may_be_repeated() -> None:
    node = Harness().serving()
    node.appended(500).ack_from(1, 500).ack_from(1, 500).ack_from(1, 300)
    assert node.core.commit_position == 500
    assert node.core.progress.member_position(1) == 500


def test_5_6_heartbeats_come_far_more_often_than_elections() -> None:
    node = Harness().serving()
    sent_at = [ms for ms in range(200) if node.tick(1).sent(CommitPosition)]
    assert len(sent_at) == 4


def test_d_4_2_3_follower_that_hears_its_leader_ignores_candidates() -> None:
    node = Harness().following()
    node.tick(300).commit_from(1, 0).tick(100).request_from(2, 9, 5, 9000)
    assert node.taken == []
    assert node.term == 0


def test_d_4_2_3_serving_leader_ignores_candidates() -> None:
    node = Harness().serving().request_from(2, 9, 5, 9000)
    assert node.taken == []
    node.expect(ElectionState.CLOSED)


def test_d_4_2_3_member_that_has_just_heard_a_leader_ignores_candidates() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.announce(1, 5, 9000, log_term=4, next_term=5)
    node.expect(ElectionState.CANVASS)
    assert not node.request_from(2, 9, 8, 90000).sent(Vote)
    assert node.tick(500).request_from(2, 9, 8, 90000).sent(Vote)[0][1].vote is True


def test_d_6_2_leader_without_a_quorum_steps_down() -> None:
    node = Harness().serving()
    for _ in range(9):
        node.tick(100).ack_from(1, 96)
    node.expect(ElectionState.CLOSED)
    while node.state is ElectionState.CLOSED:
        node.tick(10)
    assert 900 + 500 <= node.now_ns / 1e6 <= 900 + 1020
    assert node.of(LeaveLog)[0].reason == "no active quorum"


def test_d_9_6_no_term_is_opened_without_a_quorum_that_would_vote() -> None:
    """Pre-vote: the canvass does its work."""
    node = Harness(member_count=5).canvassing().canvass_from(1)
    for _ in range(1000):
        node.tick(20)
        node.expect(ElectionState.CANVASS)
        assert not node.of(PersistCandidateTerm)


def test_d_9_6_positions_heard_long_ago_do_not_make_a_quorum() -> None:
    node = Harness().canvassing().canvass_from(1)
    node.tick(5000).expect(ElectionState.CANVASS)
    node.canvass_from(1).tick(1).expect(ElectionState.NOMINATE)


def test_d_10_2_1_commit_waits_for_the_slowest_of_a_majority_only() -> None:
    node = Harness(member_count=7).serving()
    node.appended(1000)
    for member_id, position in ((1, 900), (2, 800), (3, 700), (4, 100)):
        node.ack_from(member_id, position)
    assert node.core.commit_position == 700


def test_term_row_is_durable_before_the_position_above_it_is_acknowledged() -> None:
    node = Harness().canvassing().announce(1, 0, 0)
    node.core.on_joined(0, node.now_ns)
    node.core.on_new_term(0, 0)
    node.core.on_appended(FIRST_RECORD, node.now_ns)
    node.after()
    kinds = [
        command.message.log_position
        if isinstance(command, Send) and isinstance(command.message, AppendPosition)
        else type(command).__name__
        for command in node.taken
        if isinstance(command, PersistTerm | Send)
    ]
    assert kinds == ["PersistTerm", FIRST_RECORD]
