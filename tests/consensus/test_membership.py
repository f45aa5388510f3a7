"""Membership changes and learners, rule by rule (Raft dissertation, chapter 4)."""

import pytest

from ordo.consensus.state import commands
from ordo.consensus.state.configuration import Configuration, ConfigurationTable, changed, count_changed_members
from ordo.consensus.state.messages import (
    CanvassPosition,
    CommitPosition,
    NewLeadershipTerm,
    RequestVote,
    TimeoutNow,
    Vote,
)
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.errors import ConfigurationError, ConsensusError
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.consensus.harness import FIRST_RECORD, Harness

# -- §4.1 safety ------------------------------------------------------------------------------------------------------


def test_4_1_a_configuration_is_in_force_once_durable_before_it_is_committed() -> None:
    leader = Harness(3).serving().configured((0, 1, 2), (3,)).configured((0, 1, 2, 3))
    assert leader.core.commit_position < leader.core.configuration_position
    leader.ack_from(1, leader.core.append_position)
    assert leader.core.commit_position < leader.core.append_position, "two of four are no quorum"
    leader.ack_from(2, leader.core.append_position)
    assert leader.core.commit_position == leader.core.append_position


def test_4_1_a_follower_takes_it_up_when_its_own_log_has_it() -> None:
    follower = Harness(3).following()
    assert follower.core.configuration == Configuration((0, 1, 2))
    follower.configured((0, 1, 2), (3,))
    assert follower.core.configuration == Configuration((0, 1, 2), (3,))
    assert follower.core.commit_position < follower.core.configuration_position


def test_4_1_a_truncation_brings_the_configuration_before_back() -> None:
    follower = Harness(3).following()
    kept = follower.core.append_position
    follower.configured((0, 1))
    follower.core.on_log_lost("gone", False, follower.now_ns)
    follower.tick()
    follower.announce(1, 3, kept, log_term=-1, next_term=0, next_base=0, next_end=kept, position=kept)
    follower.announce(1, 3, kept, log_term=0, next_term=3, next_base=kept, position=kept)
    assert follower.of(commands.TruncateLog) == [commands.TruncateLog(kept)]
    follower.core.on_truncated(kept, follower.now_ns)
    follower.after()
    assert follower.core.configuration == Configuration((0, 1, 2))


def test_4_1_the_configuration_before_must_be_committed() -> None:
    leader = Harness(3).serving().configured((0, 1, 2), (3,))
    assert "not committed yet" in leader.refusal((0, 1, 2))
    leader.ack_from(1, leader.core.append_position)
    assert leader.refusal((0, 1, 2)) == ""


def test_4_1_corrected_a_leader_first_commits_a_record_of_its_own_term() -> None:
    leader = Harness(3).elected()
    assert "does not lead" in leader.refusal((0, 1, 2), (3,))
    leader.core.on_new_term(leader.term, 0)
    leader.appended(FIRST_RECORD)
    assert "does not lead" in leader.refusal((0, 1, 2), (3,))
    leader.ack_from(1, FIRST_RECORD).expect(ElectionState.CLOSED)
    assert leader.refusal((0, 1, 2), (3,)) == ""


def test_4_1_one_vote_at_a_time() -> None:
    leader = Harness(4, learner_ids=(3,)).serving()
    assert "more than one step" in leader.refusal((0, 1, 3), ())
    assert "more than one step" in leader.refusal((0, 1, 2), (4, 5))
    assert "more than one step" in leader.refusal((0, 1, 2, 3), (4,))
    assert "that is how it is" in leader.refusal((0, 1, 2), (3,))
    assert leader.refusal((0, 1, 2, 3)) == ""
    assert leader.refusal((0, 1), (2, 3)) == ""


def test_4_1_a_vote_is_given_to_a_candidate_that_the_own_configuration_does_not_name() -> None:
    member = Harness(2).canvassing()
    member.request_from(7, 5)
    assert not member.sent(Vote), "nobody knows where to answer"
    assert member.core.on_introduction(7)
    member.request_from(7, 5)
    assert member.sent(Vote) == [(7, Vote(5, -1, 0, 7, 0, True))]


def test_4_1_a_leader_that_the_own_configuration_does_not_name_is_followed() -> None:
    member = Harness(2).canvassing()
    member.core.on_introduction(7)
    member.announce(7, 4, 0).expect(ElectionState.FOLLOWER_CATCHUP_AWAIT)
    assert member.core.leader_member_id == 7


def test_4_1_a_configuration_comes_before_the_positions_beyond_it() -> None:
    follower = Harness(3).following()
    with pytest.raises(ConsensusError, match="a configuration at position"):
        follower.core.on_configuration(follower.core.append_position, Configuration((0,)))


# -- §4.2.1 learners --------------------------------------------------------------------------------------------------


def test_4_2_1_a_learner_never_stands_for_election() -> None:
    learner = Harness(3, member_id=2, learner_ids=(2,)).canvassing()
    learner.canvass_from(0, 1)
    for _ in range(100):
        learner.tick(100).expect(ElectionState.CANVASS)
    assert learner.sent(CanvassPosition), "it looks for a leader all the same"


def test_4_2_1_a_learner_follows_and_acknowledges() -> None:
    learner = Harness(3, member_id=2, learner_ids=(2,)).following(leader_id=0)
    learner.receive(CommitPosition(0, FIRST_RECORD, 0)).tick(60)
    assert learner.core.commit_position == FIRST_RECORD
    learner.receive(TimeoutNow(0, FIRST_RECORD, 0, 2)).expect(ElectionState.CLOSED)


def test_4_2_1_a_learner_is_not_counted_for_commits() -> None:
    leader = Harness(4, learner_ids=(2, 3)).elected()
    leader.core.on_new_term(leader.term, 0)
    leader.appended(FIRST_RECORD)
    leader.ack_from(2, FIRST_RECORD).ack_from(3, FIRST_RECORD)
    assert leader.core.commit_position == 0
    leader.ack_from(1, FIRST_RECORD)
    assert leader.core.commit_position == FIRST_RECORD


def test_4_2_1_a_learner_keeps_no_leader_in_office() -> None:
    leader = Harness(3, learner_ids=(2,)).serving()
    for _ in range(12):
        leader.tick(100)
        if leader.core.state is ElectionState.CLOSED:
            leader.ack_from(2, FIRST_RECORD)
    assert leader.core.role is Role.FOLLOWER


def test_4_2_1_nobody_waits_for_a_learner_at_start_up() -> None:
    member = Harness(3, learner_ids=(2,)).canvassing()
    member.canvass_from(1).tick(1).expect(ElectionState.NOMINATE)
    member.tick(1).expect(ElectionState.CANDIDATE_BALLOT)
    assert [target for target, _ in member.sent(RequestVote)] == [1]
    member.vote_from(2).expect(ElectionState.CANDIDATE_BALLOT)
    member.vote_from(1).expect(ElectionState.LEADER_INIT)


def test_4_2_1_the_only_voter_leads_at_once_with_learners_beside_it() -> None:
    leader = Harness(2, learner_ids=(1,)).tick().expect(ElectionState.LEADER_INIT)
    leader.core.on_log_ready(5, FIRST_RECORD, 0)
    leader.after()
    assert [target for target, _ in leader.sent(NewLeadershipTerm)] == [1]


def test_4_2_1_a_member_called_a_learner_by_its_settings_gives_no_vote() -> None:
    """The member may be a voter whose disk was replaced, and its votes with it."""
    learner = Harness(3, member_id=2, learner_ids=(2,)).canvassing()
    learner.request_from(0, 1)
    assert not learner.sent(Vote)
    assert not learner.core.may_vote


def test_4_2_1_a_learner_of_the_log_votes_when_a_newer_configuration_makes_it_a_voter() -> None:
    learner = Harness(3, member_id=2, learner_ids=(2,)).following(leader_id=0).configured((0, 1), (2,))
    learner.tick(600).tick().expect(ElectionState.CANVASS)
    learner.request_from(1, 1, log_term=0, position=learner.core.append_position + 32)
    assert [vote.vote for _, vote in learner.sent(Vote)] == [True]


def test_4_2_1_a_learner_that_is_behind_or_silent_is_not_promoted() -> None:
    leader = Harness(4, learner_ids=(3,)).serving()
    for member_id in (1, 2, 3):
        leader.ack_from(member_id, FIRST_RECORD)
    leader.appended(FIRST_RECORD + 320)
    assert "has to reach" in leader.refusal((0, 1, 2, 3))
    leader.ack_from(3, FIRST_RECORD + 320)
    assert leader.refusal((0, 1, 2, 3)) == ""
    leader.now_ns += leader.config.leader_heartbeat_timeout_ns
    assert "not heard lately" in leader.refusal((0, 1, 2, 3))
    assert "learner first" in leader.refusal((0, 1, 2, 6), (3,))


# -- §4.2.2, §4.2.3 removing ------------------------------------------------------------------------------------------


def test_4_2_2_a_leader_does_not_take_its_own_vote_away() -> None:
    leader = Harness(3).serving()
    assert "transfer the leadership first" in leader.refusal((1, 2))
    assert "transfer the leadership first" in leader.refusal((1, 2), (0,))


def test_4_2_2_a_member_that_was_removed_is_told_and_then_stands_no_more() -> None:
    member = Harness(3).following().configured((1, 2))
    assert not member.core.is_removed, "not committed"
    member.commit_from(1, member.core.append_position)
    assert member.core.is_removed
    member.tick(600).tick().canvass_from(1, 2)
    for _ in range(60):
        member.tick(100).expect(ElectionState.CANVASS)
    member.request_from(1, 9, log_term=0, position=1000)
    assert not member.sent(Vote)


def may_have_lost_its_vote() -> Harness:
    """Member 0, whose leader 1 has demoted it, and fell silent before it said that this is committed."""
    member = Harness(2).following(leader_id=1).configured((1,), (0,))
    assert member.core.commit_position < member.core.configuration_position
    return member.tick(600).tick().expect(ElectionState.CANVASS)


def test_4_2_2_who_may_have_lost_its_vote_leads_where_nobody_else_can_until_that_is_committed() -> None:
    """Seed 32242: the leader's disk lost the record, so that it needed the vote of a member with a longer log."""
    member = may_have_lost_its_vote()
    for _ in range(4):
        member.canvass_from(1, log_term=0, position=FIRST_RECORD).tick(100)
    member.tick(1).expect(ElectionState.CANDIDATE_BALLOT)
    member.tick(1).expect(ElectionState.CANDIDATE_BALLOT)
    member.vote_from(1).expect(ElectionState.LEADER_INIT)
    base = member.core.append_position
    member.core.on_log_ready(55, base + FIRST_RECORD, member.now_ns)
    member.core.on_new_term(member.term, base)
    member.appended(base + FIRST_RECORD).expect(ElectionState.LEADER_READY)
    assert member.core.commit_position < base, "its own copy does not count"
    member.ack_from(1, base + FIRST_RECORD).expect(ElectionState.INIT)
    assert member.core.commit_position == base + FIRST_RECORD
    assert not any(one.new_state is ElectionState.CLOSED for one in member.of(commands.Transition))
    member.tick().canvass_from(1, log_term=0, position=FIRST_RECORD)
    for _ in range(60):
        member.tick(100).expect(ElectionState.CANVASS)


def test_4_2_2_who_may_have_lost_its_vote_leaves_the_election_to_voters_with_its_log() -> None:
    member = may_have_lost_its_vote()
    for _ in range(60):
        member.canvass_from(1, log_term=0, position=member.core.append_position)
        member.tick(100).expect(ElectionState.CANVASS)


def test_4_2_2_who_may_have_been_removed_votes_when_it_is_asked() -> None:
    member = Harness(3).following().configured((1, 2)).tick(600).tick().expect(ElectionState.CANVASS)
    member.request_from(2, 9, log_term=0, position=member.core.append_position)
    assert [vote.vote for _, vote in member.sent(Vote)] == [True]


def test_4_2_2_old_configurations_on_the_way_to_the_end_of_the_log_remove_nobody() -> None:
    """A learner that was added replays a time in which it was no member."""
    learner = Harness(3, member_id=2, learner_ids=(2,)).canvassing()
    learner.announce(0, 0, 0, position=FIRST_RECORD + 64, commit=FIRST_RECORD + 64)
    learner.core.on_joined(0, 0)
    learner.core.on_new_term(0, 0)
    learner.appended(FIRST_RECORD).configured((0, 1))
    assert learner.core.commit_position == learner.core.configuration_position
    assert not learner.core.is_removed
    learner.configured((0, 1), (2,))
    assert not learner.core.is_removed


def test_4_2_3_a_removed_member_does_not_disturb_the_leader_and_is_answered() -> None:
    leader = Harness(3).serving().configured((0, 1))
    leader.canvass_from(2, log_term=0, position=FIRST_RECORD, bound=9).expect(ElectionState.CLOSED)
    assert not leader.sent(NewLeadershipTerm)
    leader.canvass_from(2, log_term=0, position=FIRST_RECORD, bound=0).expect(ElectionState.CLOSED)
    assert [target for target, _ in leader.sent(NewLeadershipTerm)] == [2]


def test_4_2_3_a_removed_member_is_neither_voted_for_nor_followed() -> None:
    """Once its removal is committed; before, it may lead those that lack the record."""
    for is_committed in (False, True):
        member = Harness(3).following().configured((0, 1))
        member.core.on_log_lost("the log ended", True, member.now_ns)
        member.appended(member.core.append_position).canvassing()
        if is_committed:
            member.core.progress.commit_position = member.core.append_position
        member.request_from(2, 5, 4)
        assert len(member.sent(Vote)) == (not is_committed)
        assert member.core.may_introduce(2) == (not is_committed)
        member.announce(2, 6, member.core.append_position, log_term=member.core.log_term_id)
        assert (member.core.candidate_term_id == 6) == (not is_committed)
        assert member.core.may_introduce(1)


def test_4_2_3_a_removed_member_that_was_added_again_is_followed_on_the_word_of_another() -> None:
    """Its return is in log that this member lacks, and that only it can give: without that word, for ever."""
    member = Harness(3).following(leader_id=1).configured((0, 1))
    member.core.on_log_lost("the log ended", True, member.now_ns)
    member.appended(member.core.append_position).canvassing()
    member.core.progress.commit_position = member.core.append_position
    assert member.core.on_introduction(2) and member.core.may_introduce(2)
    member.announce(2, 6, member.core.append_position, log_term=member.core.log_term_id)
    assert (member.core.candidate_term_id, member.core.leader_member_id) == (6, 2)


def test_4_2_3_the_own_log_of_a_later_time_counts_more_than_the_word_of_another() -> None:
    member = Harness(3).following(leader_id=1).configured((0, 1))
    member.core.progress.commit_position = member.core.append_position
    assert member.core.on_introduction(2) and member.core.may_introduce(2)
    member.configured((0, 1), (3,))
    member.core.progress.commit_position = member.core.append_position
    assert not member.core.may_introduce(2)


def test_4_2_3_who_looks_for_a_leader_is_told_of_it_by_its_followers() -> None:
    follower = Harness(3).following(leader_id=1)
    follower.canvass_from(2, log_term=0, position=0)
    assert follower.of(commands.Introduce) == [commands.Introduce(2, 1)]


def test_4_2_3_strangers_are_not_heard_by_a_leader() -> None:
    leader = Harness(3).serving()
    leader.core.on_introduction(7)
    leader.canvass_from(7, bound=9).receive(RequestVote(9, 10**6, 9, 7, is_transfer=True)).expect(ElectionState.CLOSED)
    assert not leader.sent(NewLeadershipTerm)


def test_4_2_4_a_change_that_leaves_no_quorum_alive_is_refused() -> None:
    leader = Harness(3).serving()
    leader.now_ns += leader.config.leader_heartbeat_timeout_ns
    leader.core.tick(leader.now_ns - 1)
    leader.ack_from(1, FIRST_RECORD)
    assert "would stand still" in leader.refusal((0, 2))
    assert leader.refusal((0, 1)) == ""


def test_no_leadership_is_handed_to_a_learner() -> None:
    leader = Harness(4, learner_ids=(3,)).serving()
    assert not leader.core.transfer_leadership(3, FIRST_RECORD, leader.now_ns)
    assert leader.core.transfer_leadership(1, FIRST_RECORD, leader.now_ns)


# -- the table --------------------------------------------------------------------------------------------------------


def test_a_snapshot_says_who_is_in_the_cluster_whatever_the_settings_say() -> None:
    snapshot = Configuration((0, 1), (2,))
    member = Harness(3, terms=((0, 0),), append_position=200, commit_position=128, configuration=snapshot)
    assert (member.core.configuration, member.core.configuration_position) == (snapshot, 128)


def test_configurations_by_position() -> None:
    first, second, third = Configuration((0,)), Configuration((0,), (1,)), Configuration((0, 1))
    table = ConfigurationTable(first)
    assert table.position == NULL_POSITION
    table.append(64, second)
    table.append(128, third)
    assert [table.at(position) for position in (0, 63, 64, 127, 128, 999)] == [
        None, None, second, second, third, third
    ]  # fmt: skip
    table.truncate(127)
    assert (table.in_force, table.position) == (second, 64)
    table.truncate(0)
    assert table.rows == [(NULL_POSITION, first)]


def test_steps_between_configurations() -> None:
    start = Configuration((0, 1, 2), (3,))
    promoted, removed = changed(start, voters=[3]), changed(start, gone=[1])
    assert promoted == Configuration((0, 1, 2, 3))
    assert removed == Configuration((0, 2), (3,))
    assert changed(start, learners=[2]) == Configuration((0, 1), (2, 3))
    assert [count_changed_members(start, one) for one in (start, promoted, removed)] == [0, 1, 1]


@pytest.mark.parametrize(
    "voters, learners", [((), ()), ((), (1,)), ((1, 1), ()), ((1,), (1,)), (range(8), ()), ((-1,), ())]
)
def test_configurations_that_cannot_be(voters: tuple[int, ...], learners: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError):
        Configuration(tuple(voters), tuple(learners))


def test_4_2_1_seven_vote_and_eight_more_learn_without_being_counted() -> None:
    learner_ids = tuple(range(7, 15))
    leader = Harness(15, learner_ids=learner_ids).serving()
    leader.appended(leader.core.append_position + 64)
    end = leader.core.append_position
    for member_id in (*learner_ids, 1, 2):
        leader.ack_from(member_id, end)
    assert leader.core.commit_position < end, "eight learners and three of seven voters are no quorum"
    leader.ack_from(3, end)
    assert leader.core.commit_position == end


def test_4_2_1_an_eighth_voter_and_a_ninth_learner_are_refused() -> None:
    full = Configuration(tuple(range(7)), tuple(range(7, 15)))
    with pytest.raises(ConfigurationError, match=r"voter_ids=.*at most 7$"):
        changed(full, voters=[7])
    with pytest.raises(ConfigurationError, match=r"learner_ids=.*at most 8$"):
        changed(full, learners=[15])
    assert changed(full, gone=[0]).voter_ids == (1, 2, 3, 4, 5, 6)
