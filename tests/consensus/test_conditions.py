"""Conditions on which only edges depend: one test for each that no other test missed when it was off by one."""

from dataclasses import replace

import pytest

from ordo.consensus.core import STRANGERS_MAX, ConsensusCore
from ordo.consensus.deadlines import FAR_FUTURE_NS
from ordo.consensus.handlers.election import canvass_deadline_ns
from ordo.consensus.read_index import ReadIndex
from ordo.consensus.state.commands import TruncateLog
from ordo.consensus.state.configuration import Configuration, ConfigurationTable
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import AppendPosition, RequestVote, StandsBack, TimeoutNow
from ordo.consensus.state.quorum import Member, is_unanimous_leader
from ordo.consensus.state.settings import ConsensusSettings, DurableState
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import ConfigurationError, ConsensusError
from tests.consensus.harness import FIRST_RECORD, MS, FixedInts, Harness


def test_a_position_has_one_configuration_before_the_start_as_well() -> None:
    core = ConsensusCore(ConsensusSettings(0, (0, 1, 2)), DurableState(-1, [(0, 0)], 96, 0), FixedInts())
    core.on_configuration(64, Configuration((0, 1)))
    with pytest.raises(ConsensusError, match="after the one at 64"):
        core.on_configuration(64, Configuration((0, 2)))


def test_strangers_are_bounded_and_those_that_are_known_stay_so() -> None:
    core = Harness().core
    assert all(core.on_introduction(100 + number) for number in range(STRANGERS_MAX))
    assert not core.on_introduction(999)
    assert 999 not in core.known_member_ids
    assert core.on_introduction(1) and core.on_introduction(100)
    assert len(core.known_member_ids) == 3 + STRANGERS_MAX


def test_a_stranger_that_was_removed_is_vouched_for_again_whatever_their_number() -> None:
    node = Harness(terms=((0, 0),), append_position=96)
    node.configured((0, 1))
    for number in range(STRANGERS_MAX):
        node.core.on_introduction(100 + number)
    assert node.core.on_introduction(2)
    assert 2 in node.core._ctx.vouched


def joining() -> Harness:
    """Between the replay and the live stream of a leader that is heard."""
    node = Harness().canvassing().announce(1, 0, 0)
    node.core.on_joined(0, node.now_ns)
    return node.after().expect(ElectionState.FOLLOWER_CATCHUP)


def test_a_log_that_does_not_grow_is_no_progress_in_joining() -> None:
    node = joining()
    for _ in range(4):
        node.tick(100).commit_from(1, 0, 0)
        node.appended(0).expect(ElectionState.FOLLOWER_CATCHUP)
    node.tick(99).commit_from(1, 0, 0).expect(ElectionState.FOLLOWER_CATCHUP)
    assert node.tick(1).state is not ElectionState.FOLLOWER_CATCHUP


def test_a_follower_that_stands_still_is_given_time_to_join() -> None:
    node = joining()
    for _ in range(8):
        node.tick(100).commit_from(1, 0, 0)
        node.core.bear_standstill(node.now_ns)
        node.after().expect(ElectionState.FOLLOWER_CATCHUP)


def test_a_member_without_a_leader_has_nothing_to_be_patient_with() -> None:
    node = Harness().canvassing()
    before_ns = node.core._ctx.progress_deadline_ns
    node.core.bear_standstill(node.now_ns + 100 * MS)
    assert node.core._ctx.progress_deadline_ns == before_ns


def test_a_target_with_the_whole_log_is_asked_at_once() -> None:
    node = Harness().serving()
    assert node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)
    assert node.after().sent(TimeoutNow)


def test_a_member_that_has_begun_nothing_is_due_now_and_one_that_truncates_never() -> None:
    assert Harness().core.next_deadline_ns() == 0
    node = Harness(terms=((0, 0), (1, 800)), append_position=800).tick()
    assert node.of(TruncateLog) == [TruncateLog(800)]
    assert node.core.next_deadline_ns() == FAR_FUTURE_NS


def test_deadline_of_a_member_that_joins_is_that_of_its_progress() -> None:
    node = joining()
    node.tick(490).commit_from(1, 0, 0)
    assert node.core.next_deadline_ns() == 500 * MS
    node = Harness().following()
    for _ in range(12):
        node.tick(50).commit_from(1, 96, 0)
    assert node.core.next_deadline_ns() == node.now_ns + 50 * MS


def test_deadline_of_a_ballot_is_its_next_request_or_its_end() -> None:
    node = Harness().balloting()
    assert node.core.next_deadline_ns() == node.now_ns + 20 * MS
    node = Harness().canvassing().request_from(1, 4).expect(ElectionState.FOLLOWER_BALLOT)
    assert node.core.next_deadline_ns() == node.now_ns + 250 * MS


def test_a_leader_gives_up_when_a_commit_position_shows_a_later_term() -> None:
    node = Harness().serving().commit_from(1, 96, 7)
    assert not node.core.is_leading


def test_what_was_heard_a_heartbeat_timeout_ago_does_not_count() -> None:
    node = Harness().canvassing().tick(4500).canvass_from(1)
    node.tick(500).expect(ElectionState.CANVASS)
    node.canvass_from(1).tick().expect(ElectionState.NOMINATE)


def test_a_quorum_of_positions_is_enough_from_the_deadline_on() -> None:
    node = Harness().canvassing().tick(4900).canvass_from(1)
    node.tick(99).expect(ElectionState.CANVASS)
    node.tick(1).expect(ElectionState.NOMINATE)


def test_a_member_that_stands_back_stands_from_its_last_resort_on() -> None:
    node = Harness(distrust=Distrust.STATE).canvassing().tick(5600).canvass_from(1, 2)
    node.tick(149).expect(ElectionState.CANVASS)
    node.tick(1).expect(ElectionState.NOMINATE)


def test_a_repeated_answer_withdraws_no_vote() -> None:
    node = Harness(member_count=5).balloting().vote_from(1).vote_from(1, vote=False).vote_from(2)
    node.expect(ElectionState.CANDIDATE_BALLOT)
    node.tick(250).expect(ElectionState.LEADER_INIT)


def test_a_leader_that_had_closed_and_leads_again_is_asked_again() -> None:
    node = Harness().following()
    node.core.on_log_lost("closed", True, node.now_ns)
    node.after().tick()
    assert node.core._ctx.graceful_leader_id == 1
    node.announce(2, 1, 96, log_term=0)
    assert node.core._ctx.graceful_leader_id == 1
    node.announce(1, 2, 96, log_term=0).tick().announce(1, 2, 96, log_term=0)
    assert node.core._ctx.graceful_leader_id == -1


def test_an_acknowledgement_is_due_at_the_end_of_its_interval() -> None:
    node = Harness().following()
    assert not node.tick(49).sent(AppendPosition)
    assert node.tick(1).sent(AppendPosition)


def test_the_first_record_of_a_term_has_a_length() -> None:
    node = Harness().balloting().vote_from(1, 2).expect(ElectionState.LEADER_INIT)
    with pytest.raises(ConsensusError, match="must lie beyond"):
        node.core.on_log_ready(55, node.core.term_base_position, node.now_ns)


def test_a_leader_that_hears_nobody_gives_up_at_the_timeout() -> None:
    assert Harness().serving().tick(499).core.is_leading
    assert not Harness().serving().tick(500).core.is_leading


def test_a_leader_gives_way_to_voters_only_and_a_follower_to_whom_its_leader_asked() -> None:
    node = Harness(member_count=4, learner_ids=(3,)).serving()
    assert node.receive(RequestVote(0, FIRST_RECORD, 1, 3, is_transfer=True)).core.is_leading
    assert not node.receive(RequestVote(0, FIRST_RECORD, 1, 2, is_transfer=True)).core.is_leading
    node = Harness(member_count=4, learner_ids=(3,)).following()
    node.receive(RequestVote(0, FIRST_RECORD, 1, 3, is_transfer=True)).tick()
    assert node.core.candidate_term_id == 1


def test_who_stands_back_says_so_once_an_interval() -> None:
    node = Harness(distrust=Distrust.STATE).canvassing()
    assert not node.tick(49).sent(StandsBack)
    assert node.tick(1).sent(StandsBack)


def test_reads_tell_of_each_kind_of_output() -> None:
    node = Harness().serving()
    reads: ReadIndex[str] = ReadIndex(node.core, 50 * MS, 1)
    assert not reads.has_outputs
    assert reads.add("first", node.now_ns)
    reads.tick(node.now_ns)
    assert reads.has_outputs and reads.take_messages() and not reads.has_outputs
    node.tick(500)
    reads.tick(node.now_ns)
    assert reads.has_outputs and reads.take_failed() == ["first"] and not reads.has_outputs
    alone = Harness(member_count=1).tick()
    alone.core.on_log_ready(5, 96, 0)
    alone.core.on_new_term(0, 0)
    alone.appended(96)
    reads = ReadIndex(alone.core, 50 * MS, 1)
    assert reads.add("second", 0)
    reads.tick(0)
    assert reads.has_outputs and reads.take_confirmed() and not reads.has_outputs


def test_an_only_voter_in_doubt_leads_and_contradicts_nothing() -> None:
    node = Harness(member_count=1, distrust=Distrust.STATE).tick()
    node.core.on_log_ready(5, 96, 0)
    node.core.on_new_term(0, 0)
    assert node.appended(96).core.is_serving


def test_a_leader_that_serves_before_its_first_record_contradicts_itself() -> None:
    node = Harness().serving()
    node.core.progress.first_record_end = 10_000
    with pytest.raises(AssertionError):
        node.core.invariants()


def test_times_are_above_zero_and_an_interval_is_at_most_half_of_its_timeout() -> None:
    config = ConsensusSettings(0, (0, 1, 2))
    for name in ("leader_heartbeat_interval_ns", "election_status_interval_ns", "termination_timeout_ns"):
        with pytest.raises(ConfigurationError, match="must be above 0"):
            replace(config, **{name: 0})  # type: ignore[arg-type]
    half = replace(config, leader_heartbeat_timeout_ns=200 * MS, leader_heartbeat_interval_ns=100 * MS)
    assert half.leader_heartbeat_interval_ns == 100 * MS


def test_records_name_members_and_what_one_was_set_up_with_does_not() -> None:
    table = ConfigurationTable(Configuration((0, 5)))
    assert not table.names(5)
    table.append(64, Configuration((0, 6)))
    assert table.names(6) and not table.names(5) and not table.names(7)


def test_a_record_that_ends_where_the_log_is_cut_stays() -> None:
    table = ConfigurationTable(Configuration((0, 1)), 32)
    table.append(64, Configuration((0, 2)))
    table.append(96, Configuration((0, 3)))
    table.truncate(64)
    assert table.position == 64
    with pytest.raises(AssertionError, match="below the base"):
        table.truncate(16)


def test_members_that_a_newer_configuration_left_out_are_known() -> None:
    assert 2 in Harness(configuration=Configuration((0, 1))).core.known_member_ids


def test_a_member_that_asks_to_be_trusted_has_a_number_for_its_requests() -> None:
    assert Harness(distrust=Distrust.LOG).core._ctx.trust_request_id == 1
    assert Harness().core._ctx.trust_request_id == 0


def test_a_level_voter_counts_for_a_heartbeat_timeout() -> None:
    node = Harness().canvassing().canvass_from(1)
    node.core.lag(True)
    assert node.tick(499).core._ctx.stands_back
    assert not node.tick(1).core._ctx.stands_back


def outsider(learner_ids: tuple[int, ...] = (), named: tuple[int, ...] = ()) -> Harness:
    """Member 2 joins a leader whose log ends where its own does, in a cluster of members 0 and 1."""
    configuration = Configuration((0, 1), named)
    log = {"terms": ((0, 0),), "append_position": 96, "commit_position": 96, "configuration": configuration}
    node = Harness(member_id=2, learner_ids=learner_ids, **log).canvassing()  # type: ignore[arg-type]
    return node.announce(1, 1, 96, log_term=0, position=96, commit=96)


def test_who_is_left_out_by_what_is_committed_was_removed_with_the_leaders_log_at_hand() -> None:
    assert outsider().core.is_removed
    assert not outsider(learner_ids=(2,)).core.is_removed, "it was not added yet"
    node = outsider(learner_ids=(2,), named=(2,))
    node.core.on_joined(96, node.now_ns)
    node.core.on_new_term(1, 96)
    node.appended(192).configured((0, 1))
    assert not node.core.is_removed
    assert node.commit_from(1, 224, 1).core.is_removed, "it was added, and taken out"


def behind() -> Harness:
    """Joins a leader of term 5, which began at 500, with an own log that ends in term 0 at 96."""
    node = Harness(terms=((0, 0),), append_position=96).canvassing()
    node.announce(1, 5, 500, log_term=0, next_term=5, next_base=500, position=600)
    node.core.on_joined(96, node.now_ns)
    return node.after().expect(ElectionState.FOLLOWER_CATCHUP)


@pytest.mark.parametrize(("term_id", "base_position"), [(0, 200), (5, 200), (5, 501), (6, 500), (4, 95)])
def test_terms_begin_one_after_the_other(term_id: int, base_position: int) -> None:
    with pytest.raises(ConsensusError, match="a record of"):
        behind().core.on_new_term(term_id, base_position)


def test_two_terms_do_not_begin_at_one_position() -> None:
    node = behind()
    node.core.on_new_term(3, 96)
    with pytest.raises(ConsensusError, match="a record of"):
        node.core.on_new_term(4, 96)


def test_a_log_reaches_into_the_leaders_term_with_its_first_record_only() -> None:
    assert behind().appended(500).core.append_position == 500
    with pytest.raises(ConsensusError, match="has no row"):
        behind().core.on_appended(501, 0)


def test_a_term_that_a_member_is_bound_to_takes_no_vote_away() -> None:
    node = Harness().canvassing().request_from(1, 4)
    node.core._ctx.raise_candidate_term(4)
    assert node.core._ctx.voted_for == 1
    assert not node.core.take_commands()


def test_all_but_a_leader_that_closed_are_enough_if_they_are_a_quorum() -> None:
    members = [Member(0, 0, 0, 5, True), Member(1, 0, 0, 5, True), Member(2)]
    assert is_unanimous_leader(members, 5, 2, graceful_leader_id=2)
    assert not is_unanimous_leader(members, 5, 3, graceful_leader_id=2)


def test_who_may_have_lost_its_vote_stands_from_the_deadline_on() -> None:
    node = Harness(2).following(leader_id=1).configured((1,), (0,))
    node.tick(10).canvass_from(1, log_term=0, position=FIRST_RECORD, bound=0).tick().expect(ElectionState.CANVASS)
    node.canvass_from(1, log_term=0, position=FIRST_RECORD)
    deadline_ns = canvass_deadline_ns(node.core._ctx)
    assert node.now_ns < deadline_ns - MS
    node.tick((deadline_ns - node.now_ns) / MS - 1).expect(ElectionState.CANVASS)
    node.tick(1).expect(ElectionState.NOMINATE)


def test_who_gives_way_remembers_when_its_leader_was_heard_and_a_leader_has_none() -> None:
    request = RequestVote(0, FIRST_RECORD, 1, 2, is_transfer=True)
    node = Harness().following().tick(40).commit_from(1, FIRST_RECORD, 0).receive(request)
    assert node.expect(ElectionState.INIT).core._ctx.last_leader_activity_ns == 40 * MS
    node = Harness().serving().tick(40)
    before_ns = node.core._ctx.last_leader_activity_ns
    assert node.receive(request).expect(ElectionState.INIT).core._ctx.last_leader_activity_ns == before_ns
