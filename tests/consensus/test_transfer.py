"""Handing the leadership over: Raft §3.10 (dissertation)."""

from itertools import accumulate

import pytest

from ordo.consensus.state.commands import LeaveLog, PersistCandidateTerm, PrepareLog
from ordo.consensus.state.messages import AppendPosition, RequestVote, TimeoutNow, Vote
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from tests.consensus.failover import CALM
from tests.consensus.harness import FIRST_RECORD, Harness
from tests.consensus.test_simulation import run_seed
from tests.consensus.world import World

END = FIRST_RECORD + 128


def transferring(target_id: int | None = 1) -> Harness:
    """A leader whose log ends at END, durable at itself and nowhere else."""
    node = Harness().serving().appended(END)
    assert node.core.transfer_leadership(target_id, END, node.now_ns)
    return node.after()


def flagged(leadership_term_id: int = 1, position: int = FIRST_RECORD, candidate_id: int = 2) -> RequestVote:
    return RequestVote(0, position, leadership_term_id, candidate_id, is_transfer=True)


# -- the leader --------------------------------------------------------------------------------------------------------


def test_target_is_asked_once_it_has_the_whole_log() -> None:
    node = transferring()
    assert node.core.is_transferring and not node.sent(TimeoutNow)
    assert not node.ack_from(1, END - 32).sent(TimeoutNow)
    assert not node.ack_from(2, END).sent(TimeoutNow), "another member's position counts for nothing"
    assert node.ack_from(1, END).sent(TimeoutNow) == [(1, TimeoutNow(0, END, 0, 1))]


def test_order_is_repeated_for_it_may_be_lost() -> None:
    node = transferring().ack_from(1, END)
    assert not node.tick(19).sent(TimeoutNow)
    assert node.tick(1).sent(TimeoutNow) == [(1, TimeoutNow(0, END, 0, 1))]


def test_positions_that_came_past_the_core_are_noticed_by_the_tick() -> None:
    node = transferring()
    node.core.progress.append_position_received(1, 0, END, node.now_ns)
    assert node.core.next_deadline_ns() <= node.now_ns + MILLISECOND_NS
    assert node.tick(1).sent(TimeoutNow)


def test_leader_goes_on_after_an_election_timeout() -> None:
    node = transferring().ack_from(1, END)
    node.ack_from(2, END).tick(249)
    assert node.core.is_transferring
    node.tick(1).expect(ElectionState.CLOSED)
    assert not node.core.is_transferring
    assert node.core.role is Role.LEADER
    assert not node.tick(20).sent(TimeoutNow)


def test_member_with_most_of_the_log_is_chosen() -> None:
    node = Harness(member_count=5).serving().appended(END).ack_from(3, END - 32).ack_from(2, END - 32)
    assert node.core.transfer_leadership(None, END, node.now_ns)
    assert not node.after().sent(TimeoutNow)
    assert node.ack_from(2, END).sent(TimeoutNow) == [(2, TimeoutNow(0, END, 0, 2))], "the lowest id of equals"


def test_what_cannot_be_is_refused() -> None:
    leader = Harness().serving()
    for target_id in (0, 7):
        assert not leader.core.transfer_leadership(target_id, FIRST_RECORD, leader.now_ns)
    for node in (Harness().following(), Harness().elected(), Harness().canvassing()):
        assert not node.core.transfer_leadership(None, FIRST_RECORD, node.now_ns)
    single = Harness(member_count=1).tick()
    assert not single.core.transfer_leadership(None, 0, 0)
    assert not transferring().core.transfer_leadership(2, END, 0), "one at a time"
    leader.core.begin_termination(500, leader.now_ns)
    assert not leader.core.transfer_leadership(1, FIRST_RECORD, leader.now_ns)


def test_silent_member_is_no_target() -> None:
    node = Harness().serving().tick(499)
    node.ack_from(2, FIRST_RECORD).tick(1)
    assert not node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)
    assert node.core.transfer_leadership(2, FIRST_RECORD, node.now_ns)


def test_only_the_appointed_leader_is_a_target() -> None:
    node = Harness(appointed_leader_id=0).serving()
    assert not node.core.transfer_leadership(None, FIRST_RECORD, node.now_ns)
    assert not node.core.transfer_leadership(1, FIRST_RECORD, node.now_ns)


def test_leader_gives_way_to_its_target_and_votes_for_it() -> None:
    node = transferring().ack_from(1, END)
    node.receive(flagged(position=END, candidate_id=1)).expect(ElectionState.INIT)
    assert node.of(LeaveLog) and not node.core.is_transferring
    node.tick().expect(ElectionState.FOLLOWER_BALLOT)
    assert node.sent(Vote) == [(1, Vote(1, 0, END, 1, 0, True))]


def test_leader_stays_when_the_candidate_has_less_than_it_has() -> None:
    node = transferring().receive(flagged(position=END - 32, candidate_id=1)).expect(ElectionState.CLOSED)
    assert node.core.is_transferring


# -- the target --------------------------------------------------------------------------------------------------------


def test_target_stands_at_once_without_canvass_or_delay() -> None:
    node = Harness().following().receive(TimeoutNow(0, FIRST_RECORD, 1, 0)).expect(ElectionState.INIT)
    assert node.of(LeaveLog)
    node.tick().expect(ElectionState.CANDIDATE_BALLOT)
    assert node.of(PersistCandidateTerm) == [PersistCandidateTerm(1, FIRST_RECORD)]
    request = RequestVote(0, FIRST_RECORD, 1, 0, is_transfer=True)
    assert node.sent(RequestVote) == [(1, request), (2, request)]


def test_target_leads_with_a_quorum_and_waits_for_nobody_else() -> None:
    node = Harness().following().receive(TimeoutNow(0, FIRST_RECORD, 1, 0)).tick().vote_from(2)
    assert node.expect(ElectionState.LEADER_INIT).of(PrepareLog) == [PrepareLog(1, FIRST_RECORD)]


def test_target_that_finds_no_votes_canvasses_as_any_candidate() -> None:
    node = Harness().following().receive(TimeoutNow(0, FIRST_RECORD, 1, 0)).tick()
    node.tick(250).expect(ElectionState.CANVASS)
    node.tick(250).canvass_from(1, 2, log_term=0, position=FIRST_RECORD, bound=1).tick(1).tick(1)
    requests = node.expect(ElectionState.CANDIDATE_BALLOT).sent(RequestVote)
    assert requests and not any(request.is_transfer for _, request in requests)


def test_order_is_ignored_unless_it_is_the_own_leaders_for_this_log() -> None:
    for order in (
        TimeoutNow(1, FIRST_RECORD, 1, 0),
        TimeoutNow(0, FIRST_RECORD, 2, 0),
        TimeoutNow(0, FIRST_RECORD, 1, 2),
        TimeoutNow(0, FIRST_RECORD + 32, 1, 0),
    ):
        Harness().following().receive(order).expect(ElectionState.CLOSED)
    for node in (Harness().serving(), Harness().canvassing()):
        state = node.state
        node.receive(TimeoutNow(0, 0, 1, 0)).expect(state)


# -- the voters --------------------------------------------------------------------------------------------------------


def test_follower_that_hears_its_leader_votes_for_a_flagged_candidate_only() -> None:
    node = Harness().following()
    node.receive(flagged()._replace(is_transfer=False)).expect(ElectionState.CLOSED)
    node.receive(flagged()).expect(ElectionState.INIT)
    node.tick().expect(ElectionState.FOLLOWER_BALLOT)
    assert node.sent(Vote) == [(2, Vote(1, 0, FIRST_RECORD, 2, 0, True))]


def test_flag_does_not_make_up_for_an_older_log_or_term() -> None:
    node = Harness().following()
    node.receive(flagged(position=FIRST_RECORD - 32)).expect(ElectionState.CLOSED)
    node.receive(flagged(leadership_term_id=0)).expect(ElectionState.CLOSED)
    assert not node.sent(Vote)


def test_log_that_grew_while_it_was_left_keeps_the_vote() -> None:
    node = Harness().following().receive(flagged())
    node.appended(END)
    node.tick().expect(ElectionState.CANVASS)
    assert node.sent(Vote) == [(2, Vote(1, 0, END, 2, 0, False))]


def test_acknowledgement_between_members_is_as_before() -> None:
    node = Harness().following()
    assert node.appended(END).sent(AppendPosition)


# -- all together ------------------------------------------------------------------------------------------------------


def transfer_ms(seed: int, member_count: int) -> float:
    """Time from the order until the target serves."""
    world = World(seed, member_count, CALM)
    world.faults_on = False
    world.start()
    assert world.run_until(10 * SECOND_NS, lambda: world.serving_leader() is not None)
    world.run_until(world.now_ns + SECOND_NS + 7 * seed * MILLISECOND_NS)
    old = world.serving_leader()
    assert old is not None
    target = world.nodes[(old.member_id + 1) % member_count]
    begun_ns = world.now_ns
    assert old.transfer(target.member_id)
    assert world.run_until(begun_ns + SECOND_NS, lambda: target.is_serving)
    return (world.now_ns - begun_ns) / MILLISECOND_NS


def test_target_serves_long_before_any_timeout() -> None:
    for member_count in (3, 5):
        times = sorted(transfer_ms(seed, member_count) for seed in range(20))
        assert times[-1] < 150, times


@pytest.mark.thorough
def test_transfers_happen_in_the_simulation_of_faults() -> None:
    assert any(count >= 4 for count in accumulate(run_seed(seed).transfers for seed in range(200, 225)))
