"""Elections as the protocol has them: cluster-consensus.md §4 and §5, state by state."""

from pathlib import Path

import pytest

from ordo.consensus.state import transitions
from ordo.consensus.state.commands import (
    ChangeRole,
    JoinLog,
    LeaveLog,
    PersistCandidateTerm,
    PersistTerm,
    PrepareLog,
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
from ordo.consensus.state.settings import ConsensusSettings
from ordo.consensus.state.states import STATE_DOCS, TRANSITIONS, ElectionState, Role, describe_transitions
from ordo.runtime.errors import ConfigurationError, ConsensusError
from tests.consensus.failover import measure_ms
from tests.consensus.harness import FIRST_RECORD, Harness
from tests.consensus.one_no import measure as measure_one_no

LOG = ((0, 0), (2, 400))


# -- states ------------------------------------------------------------------------------------------------------------


def test_transition_table_is_total_and_connected() -> None:
    assert set(TRANSITIONS) == set(ElectionState) == set(STATE_DOCS)
    reached = {ElectionState.INIT}
    while True:
        further = reached.union(*(TRANSITIONS[state] for state in reached))
        if further == reached:
            break
        reached = further
    assert reached == set(ElectionState)
    for state in ElectionState:
        back = {other for other in ElectionState if ElectionState.INIT in TRANSITIONS[other]}
        assert state in back or TRANSITIONS[state] & back, f"{state.name} has no way back"


def test_illegal_transition_is_refused() -> None:
    node = Harness().canvassing()
    with pytest.raises(AssertionError, match="CANVASS -> CLOSED"):
        transitions.transition(node.core._ctx, ElectionState.CLOSED, "by force")


# -- start and canvass -------------------------------------------------------------------------------------------------


def test_single_member_leads_at_once_and_commits_what_is_durable() -> None:
    node = Harness(member_count=1, terms=LOG, append_position=800).tick()
    assert node.of(PrepareLog) == [PrepareLog(3, 800)]
    node.core.on_log_ready(5, 896, 0)
    node.core.on_new_term(3, 800)
    node.appended(896)
    assert node.core.is_serving
    assert node.appended(1000).core.commit_position == 1000


def test_single_member_is_not_shaken_by_a_stall() -> None:
    node = Harness(member_count=1).tick()
    node.core.on_log_ready(5, 96, 0)
    node.core.on_new_term(0, 0)
    node.appended(96)
    node.tick(3_600_000).expect(ElectionState.CLOSED)
    assert node.taken == []


def test_positions_are_canvassed_every_interval_before_anybody_stands() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    assert node.sent(CanvassPosition) == [(None, CanvassPosition(2, 800, 2, 0))]
    assert not node.tick(19).sent(CanvassPosition)
    assert node.tick(1).sent(CanvassPosition)
    node.canvass_from(1, 2).tick(1).expect(ElectionState.NOMINATE)


def test_all_positions_are_enough_at_once_but_a_quorum_waits_for_the_startup_timeout() -> None:
    node = Harness().canvassing()
    for _ in range(499):
        node.tick(10).canvass_from(1).expect(ElectionState.CANVASS)
    node.tick(10).expect(ElectionState.NOMINATE)


def test_a_better_log_elsewhere_is_not_challenged() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.canvass_from(1, log_term=2, position=832).canvass_from(2, log_term=0, position=100)
    node.tick(1).expect(ElectionState.CANVASS)
    node.tick(5000).canvass_from(1, log_term=2, position=832).canvass_from(2, log_term=0, position=100)
    assert node.tick(1).state is ElectionState.NOMINATE, "a quorum would vote for this log"


def test_after_the_loss_of_a_leader_a_quorum_is_enough_at_once() -> None:
    node = Harness().following().tick(500).tick()
    node.expect(ElectionState.CANVASS)
    node.canvass_from(2, log_term=0, position=FIRST_RECORD)
    node.tick(1).expect(ElectionState.NOMINATE)


def test_gracefully_closed_leader_is_not_waited_for() -> None:
    node = Harness().following()
    node.tick(40).commit_from(1, 96).tick(10)
    node.core.on_log_lost("image closed", True, node.now_ns)
    node.after().tick()
    node.expect(ElectionState.CANVASS)
    node.canvass_from(2, log_term=0, position=96).tick(1).expect(ElectionState.NOMINATE)
    assert node.tick(1).vote_from(2).state is ElectionState.LEADER_INIT, "no ballot timeout either"
    assert node.now_ns < 60e6


def test_leader_lost_without_end_of_stream_is_waited_for() -> None:
    node = Harness().following()
    node.core.on_log_lost("image closed", False, node.now_ns)
    node.after().tick().canvass_from(2, log_term=0, position=96)
    node.tick(1).expect(ElectionState.CANVASS)
    node.tick(498).canvass_from(2, log_term=0, position=96).expect(ElectionState.CANVASS)
    node.tick(2).expect(ElectionState.NOMINATE)


def test_a_leader_that_canvasses_has_given_up() -> None:
    node = Harness().following().canvass_from(1, bound=0)
    node.expect(ElectionState.INIT)
    assert node.of(LeaveLog)[0].reason == "leader member 1 looks for a leader"
    assert Harness().following(leadership_term_id=4).canvass_from(1, bound=3).state is ElectionState.CLOSED, (
        "from before its term"
    )


def test_only_the_appointed_leader_stands() -> None:
    node = Harness(appointed_leader_id=1).canvassing().canvass_from(1, 2)
    node.tick(1).expect(ElectionState.CANVASS)
    assert node.request_from(1, 0).sent(Vote)[0][1].vote is True
    node = Harness(appointed_leader_id=0).balloting().vote_from(1, 2)
    node.expect(ElectionState.LEADER_INIT)


@pytest.mark.parametrize("member_id", [0, 3, 99])
def test_strangers_and_echoes_are_ignored(member_id: int) -> None:
    node = Harness().canvassing()
    node.request_from(member_id, 5)
    assert node.taken == []
    assert node.term == -1


def test_init_is_deaf() -> None:
    node = Harness().request_from(1, 5).canvass_from(1, 2).announce(1, 5, 0)
    assert node.taken == []
    node.expect(ElectionState.INIT)


# -- nomination and ballots --------------------------------------------------------------------------------------------


def test_votes_for_an_earlier_candidate_during_nomination() -> None:
    node = Harness().canvassing().canvass_from(1, 2).tick(1)
    node.expect(ElectionState.NOMINATE)
    node.request_from(2, 0)
    node.expect(ElectionState.FOLLOWER_BALLOT)
    assert node.sent(Vote)[0][1].vote is True


def test_full_vote_elects_without_waiting() -> None:
    node = Harness().balloting().vote_from(1)
    node.expect(ElectionState.CANDIDATE_BALLOT)
    node.vote_from(2)
    assert node.of(PrepareLog) == [PrepareLog(0, 0)]
    assert node.of(ChangeRole) == [ChangeRole(Role.LEADER)]


def test_majority_elects_when_the_ballot_ends() -> None:
    node = Harness().balloting().vote_from(1)
    node.tick(249).expect(ElectionState.CANDIDATE_BALLOT)
    node.tick(1).expect(ElectionState.LEADER_INIT)


def test_members_that_did_not_canvass_are_not_waited_for() -> None:
    """The leader died: its vote cannot come, and the ballot does not wait for it."""
    node = Harness(member_count=5).following().tick(500).tick()
    node.canvass_from(2, 3, log_term=0, position=FIRST_RECORD).tick(1).tick(1)
    node.expect(ElectionState.CANDIDATE_BALLOT).vote_from(2).expect(ElectionState.CANDIDATE_BALLOT)
    node.vote_from(3).expect(ElectionState.LEADER_INIT)
    assert node.now_ns <= 502e6


def test_candidate_without_a_majority_canvasses_again() -> None:
    node = Harness().balloting()
    node.tick(250).expect(ElectionState.CANVASS)
    assert node.core.role is Role.FOLLOWER


def test_one_explicit_no_vetoes_no_quorum() -> None:
    """Nor does it take longer than a vote for the candidate: there is nothing left to wait for."""
    node = Harness(member_count=5).balloting().vote_from(1, 2, 3).expect(ElectionState.CANDIDATE_BALLOT)
    node.vote_from(4, vote=False).expect(ElectionState.LEADER_INIT)
    node = Harness(member_count=5).balloting().vote_from(4, vote=False).vote_from(1, 2)
    node.expect(ElectionState.CANDIDATE_BALLOT).tick(250).expect(ElectionState.LEADER_INIT)


@pytest.mark.parametrize("topology", ["one link", "bridge"])
def test_a_member_that_refuses_its_vote_does_not_delay_an_election(topology: str) -> None:
    """The only member that all others hear could not be elected while one with a newer log refused it its vote."""
    for seed in range(4):
        seconds, ballots = measure_one_no(seed, topology)
        assert ballots <= 4
        assert seconds < 5


def test_split_vote_succeeds_in_a_later_term() -> None:
    node = Harness().balloting().vote_from(1, 2, vote=False)
    first = node.term
    node.tick(250).canvass_from(1, 2, bound=first).tick(1).tick(1)
    assert node.of(PersistCandidateTerm)[0].candidate_term_id == first + 1
    node.vote_from(1, 2).expect(ElectionState.LEADER_INIT)


def test_requests_are_repeated_to_those_that_have_not_answered() -> None:
    node = Harness(member_count=4).balloting().vote_from(2)
    assert [target for target, _ in node.tick(20).sent(RequestVote)] == [1, 3]


def test_voter_canvasses_again_when_no_leader_emerges() -> None:
    node = Harness().canvassing().request_from(1, 3)
    node.tick(249).expect(ElectionState.FOLLOWER_BALLOT)
    node.tick(1).expect(ElectionState.CANVASS)


def test_refusing_candidate_moves_on_to_the_higher_term() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    node.canvass_from(1, 2, log_term=0, position=10).tick(1).tick(1)
    node.expect(ElectionState.CANDIDATE_BALLOT)
    node.request_from(1, 9, log_term=0, position=10)
    node.expect(ElectionState.CANVASS)
    assert node.term == 9


# -- leading -----------------------------------------------------------------------------------------------------------


def test_leader_that_cannot_prepare_its_log_gives_up() -> None:
    node = Harness().balloting().vote_from(1, 2)
    node.tick(499).expect(ElectionState.LEADER_INIT)
    node.tick(1).expect(ElectionState.INIT)
    assert node.of(LeaveLog)


def test_late_log_of_a_leadership_that_was_given_up_is_ignored() -> None:
    node = Harness().balloting().vote_from(1, 2).tick(500)
    node.core.on_log_ready(5, 96, node.now_ns)
    assert node.after().taken == []


def test_messages_of_one_term_never_name_another() -> None:
    node = Harness(terms=LOG, append_position=800).serving()
    node.appended(2000).ack_from(1, 2000).tick(60).canvass_from(2)
    assert {m.leadership_term_id for _, m in node.sent(NewLeadershipTerm) + node.sent(CommitPosition)} == {node.term}


def test_established_leader_announces_itself_only_to_those_that_have_not_joined() -> None:
    node = Harness().serving().canvass_from(2)
    assert [target for target, _ in node.tick(50).sent(NewLeadershipTerm)] == [2]


def test_leader_of_a_node_start_says_so_in_its_first_term_only() -> None:
    node = Harness().elected()
    assert node.sent(NewLeadershipTerm)[0][1].is_startup is True
    node = Harness().serving()
    node.core.on_log_lost("recording stopped", False, node.now_ns)
    node.after().tick().canvass_from(1, 2, log_term=0).tick(1).tick(1).vote_from(1, 2)
    node.core.on_log_ready(6, 2 * FIRST_RECORD, node.now_ns)
    assert node.after().sent(NewLeadershipTerm)[0][1].is_startup is False


def test_quorum_position_may_go_back_but_commit_does_not() -> None:
    node = Harness().serving()
    node.appended(900).ack_from(1, 900)
    node.canvass_from(1, log_term=0, position=900)
    assert node.core.progress.compute_quorum_position(node.now_ns) == FIRST_RECORD
    assert node.core.commit_position == 900
    assert node.ack_from(1, 700).core.commit_position == 900


def test_leader_whose_recording_stops_gives_up() -> None:
    node = Harness().serving()
    node.core.on_log_lost("recording stopped", False, node.now_ns)
    node.after().expect(ElectionState.INIT)


def test_higher_term_seen_natively_is_noticed_at_the_next_tick() -> None:
    node = Harness().serving()
    node.core.progress.append_position_received(1, 7, 100, node.now_ns)
    assert node.tick(1).of(LeaveLog)[0].reason == "term 7 was seen"


def test_steady_state_needs_ticks_only() -> None:
    node = Harness().serving()
    progress = node.core.progress
    progress.advance_leader_commit(5000, node.now_ns)
    progress.append_position_received(2, node.term, 4000, node.now_ns)
    assert progress.advance_leader_commit(5000, node.now_ns) == 4000
    progress.sent(4000, node.now_ns)
    node.tick(10)
    assert node.core.commit_position == node.core.append_position - 1000 == 4000
    assert not node.sent(CommitPosition), "the shell has sent it"
    assert node.tick(50).sent(CommitPosition)


# -- following ---------------------------------------------------------------------------------------------------------


def test_first_node_ever_joins_at_zero() -> None:
    node = Harness().canvassing().announce(1, 0, 0)
    assert node.of(JoinLog) == [JoinLog(0, 1, 77, 0, 0)]


def test_message_for_another_log_term_is_not_acted_on() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing().announce(1, 5, 300, log_term=0, next_term=1)
    node.expect(ElectionState.CANVASS)
    assert not node.of(TruncateLog)
    assert not node.of(JoinLog)
    assert node.of(PersistCandidateTerm)[0].candidate_term_id == 5


def test_joining_acknowledges_with_the_catchup_flag_until_live() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing().announce(1, 5, 1200, log_term=2)
    assert node.sent(AppendPosition) == [(1, AppendPosition(5, 800, 0, 1))]
    node.core.on_joined(800, node.now_ns)
    assert node.appended(1000).sent(AppendPosition) == [(1, AppendPosition(5, 1000, 0, 1))]
    node.core.on_live(node.now_ns)
    assert node.after().sent(AppendPosition) == [(1, AppendPosition(5, 1000, 0, 0))]
    node.expect(ElectionState.CLOSED)


def test_joining_without_progress_is_given_up() -> None:
    for is_joined in (False, True):
        node = Harness().canvassing().announce(1, 0, 0, position=5000)
        if is_joined:
            node.core.on_joined(0, node.now_ns)
        for _ in range(4):
            node.tick(100).announce(1, 0, 0, position=5000)
        assert node.core.is_leader_startup
        assert node.tick(100).of(LeaveLog)[0].reason == "no progress in joining the log"


def test_joining_goes_on_as_long_as_the_log_grows() -> None:
    node = Harness().canvassing().announce(1, 0, 0, position=50000)
    node.core.on_joined(0, node.now_ns)
    node.core.on_new_term(0, 0)
    for step in range(1, 30):
        node.tick(100).announce(1, 0, 0).appended(100 * step)
    node.expect(ElectionState.FOLLOWER_CATCHUP)


def test_notified_commit_position_does_not_go_back() -> None:
    node = Harness().following().appended(1000)
    node.commit_from(1, 800).commit_from(1, 300).announce(1, 0, 0, commit=200)
    assert node.core.progress.notified_position == 800
    assert node.core.commit_position == 800


def test_commit_position_of_another_member_is_ignored() -> None:
    node = Harness().following().appended(1000).commit_from(2, 900)
    assert node.core.commit_position == 0


def test_announcement_keeps_a_follower_alive() -> None:
    node = Harness().following()
    for _ in range(20):
        node.tick(100).announce(1, 0, 0)
    node.expect(ElectionState.CLOSED)


def test_leader_whose_known_terms_begin_too_late_stops_the_node() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    with pytest.raises(ConsensusError, match="restore this member from a peer"):
        node.announce(1, 9, 90000, log_term=-1, next_term=7, next_base=50000)


def test_clock_that_leaps_ends_in_a_new_election_not_in_an_error() -> None:
    for node in (Harness().serving(), Harness().following()):
        node.tick(3_600_000).tick().tick(3_600_000)
        node.expect(ElectionState.CANVASS)
        node.canvass_from(1, 2).tick(1).tick(3_600_000).tick(3_600_000)
        node.expect(ElectionState.CANVASS)


def test_clock_that_goes_back_is_held() -> None:
    node = Harness().following()
    node.core.tick(node.now_ns - 10**9)
    node.after().expect(ElectionState.CLOSED)


# -- the shell's mistakes are refused ----------------------------------------------------------------------------------


def test_log_that_grows_while_none_is_joined_is_refused() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing()
    with pytest.raises(ConsensusError, match="while no log is joined"):
        node.core.on_appended(900, node.now_ns)


def test_position_in_a_term_without_a_row_is_refused() -> None:
    node = Harness().elected()
    with pytest.raises(ConsensusError, match="report on_new_term before on_appended"):
        node.core.on_appended(FIRST_RECORD, node.now_ns)


@pytest.mark.parametrize(
    ("leadership_term_id", "base"), [(1, 800), (5, 700), (5, 1300), (3, 1200), (6, 1200), (3, 1300)]
)
def test_terms_that_cannot_be_in_the_leaders_log_are_refused(leadership_term_id: int, base: int) -> None:
    node = Harness(terms=LOG, append_position=800).canvassing().announce(1, 5, 1200, log_term=2)
    node.core.on_joined(800, node.now_ns)
    with pytest.raises(ConsensusError, match=f"record of leadership_term_id={leadership_term_id}"):
        node.core.on_new_term(leadership_term_id, base)


def test_position_that_goes_back_is_refused() -> None:
    node = Harness().serving()
    with pytest.raises(ConsensusError, match="went back"):
        node.core.on_appended(10, node.now_ns)


def test_join_at_another_position_is_refused() -> None:
    node = Harness(terms=LOG, append_position=800).canvassing().announce(1, 5, 1200, log_term=2)
    with pytest.raises(ConsensusError, match="position=700"):
        node.core.on_joined(700, node.now_ns)


def test_end_of_a_left_log_is_taken_until_the_next_tick() -> None:
    node = Harness().following().tick(500)
    node.appended(700)
    assert node.tick().sent(CanvassPosition)[0][1].log_position == 700


# -- what the disk holds at the start ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("known_position", "is_cut"), [(0, True), (300, True), (301, False), (800, False)])
def test_what_was_known_to_be_committed_is_not_cut_off(known_position: int, is_cut: bool) -> None:
    """A leader without it was elected by members that had lost it: the one that still has it keeps it."""
    node = Harness(terms=((0, 0),), append_position=800, known_position=known_position).canvassing()
    if is_cut:
        assert node.announce(1, 5, 300, log_term=0).of(TruncateLog) == [TruncateLog(300)]
    else:
        with pytest.raises(ConsensusError, match=f"up to {known_position} it was committed, and member 1 leads term 5"):
            node.announce(1, 5, 300, log_term=0)


def test_a_term_that_two_have_led_is_not_followed() -> None:
    """A member forgot its vote: the leader's log and the own one have nothing of that term in common."""
    node = Harness(terms=((0, 0), (5, 400)), append_position=800).canvassing()
    with pytest.raises(
        ConsensusError, match="leads term 5 from position=300 on, and this member's log has that term from 400"
    ):
        node.announce(1, 5, 300, log_term=5)


@pytest.mark.parametrize("last_lead", [(1, 77), None])
def test_a_term_of_the_leader_that_led_it_is_followed(last_lead: tuple[int, int] | None) -> None:
    node = Harness(terms=((0, 0), (5, 400)), append_position=800, last_lead=last_lead).canvassing()
    assert node.announce(1, 5, 400, log_term=5, next_term=-1, next_base=-1).of(JoinLog)


@pytest.mark.parametrize("last_lead", [(2, 77), (1, 78)])
def test_a_term_that_two_have_led_from_the_same_position_is_not_followed(last_lead: tuple[int, int]) -> None:
    """Their tables of terms are the same, and so would be the positions of other records."""
    node = Harness(terms=((0, 0), (5, 400)), append_position=800, last_lead=last_lead).canvassing()
    led = f"as member {last_lead[0]} led it" + (" with another log" if last_lead[0] == 1 else "")
    text = f"has that term from there on {led}: two members have led it"
    with pytest.raises(ConsensusError, match=text):
        node.announce(1, 5, 400, log_term=5, next_term=-1, next_base=-1)


def test_a_leader_that_leads_its_term_with_another_log_is_left() -> None:
    """Its process had come back with an older copy of its folder, was elected once more, and its commit position was
    taken for that of the log that this member follows."""
    node = Harness(terms=((0, 0),), append_position=400).following(1, 5)
    session_id = node.core.log_session_id
    assert node.announce(1, 5, 400, log_term=0, session_id=session_id).expect(ElectionState.CLOSED)
    node.announce(1, 5, 400, log_term=0, session_id=session_id + 1, commit=400).expect(ElectionState.INIT)
    assert node.core.commit_position == 0 and node.core.leader_member_id == -1


def test_a_leader_whose_process_has_started_again_is_left() -> None:
    node = Harness(terms=((0, 0),), append_position=400).following(1, 5)
    node.core.on_restarted(2)
    node.expect(ElectionState.CLOSED)
    node.core.on_restarted(1)
    node.expect(ElectionState.INIT)
    assert not node.core._ctx.leader_was_heard_lately()
    node.core.on_restarted(1)
    node.expect(ElectionState.INIT)


def test_row_whose_record_did_not_survive_is_removed_first() -> None:
    node = Harness(terms=((0, 0), (3, 800)), append_position=800)
    assert node.core.log_term_id == 0
    assert node.tick().of(TruncateLog) == [TruncateLog(800)]
    node.core.on_truncated(800, 0)
    assert node.tick().sent(CanvassPosition)[0][1] == CanvassPosition(0, 800, 3, 0)
    assert node.core.terms == [(0, 0)]


@pytest.mark.parametrize(
    ("terms", "append", "commit"), [((), 100, 0), (((0, 100),), 100, 0), (((0, 0),), 100, 101), (((0, 0),), 100, -1)]
)
def test_contradictions_on_disk_are_refused(terms: tuple[tuple[int, int], ...], append: int, commit: int) -> None:
    with pytest.raises(ConsensusError, match="restore this member from a peer"):
        Harness(terms=terms, append_position=append, commit_position=commit)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"member_ids": ()}, "member_ids"),
        ({"member_ids": tuple(range(8))}, r"voter_ids=\(0, 1, .*at most 7$"),
        ({"member_ids": tuple(range(11)), "learner_ids": tuple(range(2, 11))}, "learner_ids=.*at most 8$"),
        ({"member_ids": (1, 1)}, "different"),
        ({"member_id": 4}, "member_id=4"),
        ({"appointed_leader_id": 9}, "appointed_leader_id=9"),
        ({"election_timeout_ns": 0}, "election_timeout_ns=0"),
        ({"leader_heartbeat_interval_ns": 300_000_000}, "at most half of leader_heartbeat_timeout_ns"),
        ({"election_status_interval_ns": 200_000_000}, "at most half of election_timeout_ns"),
    ],
)
def test_settings_that_cannot_work_are_refused(change: dict[str, int], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        ConsensusSettings(**{"member_id": 1, "member_ids": (0, 1, 2), **change})  # type: ignore[arg-type]


def test_describe_is_one_stable_line() -> None:
    assert Harness(terms=LOG, append_position=800).core.describe() == (
        "member=0 state=INIT role=FOLLOWER term=2 leader=-1 candidateTerm=2 logTerm=2 append=800 commit=0"
    )


# -- catching up over terms --------------------------------------------------------------------------------------------


def test_follower_several_terms_behind_takes_over_every_term_on_the_way() -> None:
    node = Harness(terms=((0, 0),), append_position=300).canvassing()
    node.announce(1, 5, 1200, log_term=0, next_term=2, next_base=400, next_end=900, position=1500)
    assert node.of(JoinLog) == [JoinLog(5, 1, 77, 300, 1500)]
    node.core.on_joined(300, node.now_ns)
    for leadership_term_id, base in ((2, 400), (4, 900), (5, 1200)):
        node.core.on_new_term(leadership_term_id, base)
        assert node.appended(base + FIRST_RECORD).of(PersistTerm) == [PersistTerm(leadership_term_id, base)]
    node.core.on_live(node.now_ns)
    assert node.after().core.terms == [(0, 0), (2, 400), (4, 900), (5, 1200)]
    assert node.core.log_term_id == 5


def test_row_of_a_term_counts_only_once_its_record_is_durable() -> None:
    node = Harness(terms=((0, 0),), append_position=300).canvassing()
    node.announce(1, 5, 300, log_term=0, commit=0)
    node.core.on_joined(300, node.now_ns)
    node.core.on_new_term(5, 300)
    assert node.core.log_term_id == 0
    assert node.appended(300 + FIRST_RECORD).core.log_term_id == 5


def test_record_of_a_new_term_lost_with_the_log_is_forgotten_durably() -> None:
    node = Harness(terms=((0, 0),), append_position=300).canvassing().announce(1, 5, 300, log_term=0)
    node.core.on_joined(300, node.now_ns)
    node.core.on_new_term(5, 300)
    node.core.on_log_lost("image closed", False, node.now_ns)
    assert node.after().tick().of(TruncateLog) == [TruncateLog(300)]
    node.core.on_truncated(300, node.now_ns)
    assert node.tick().core.terms == [(0, 0)]


def test_startup_flag_comes_from_the_leader() -> None:
    node = Harness().canvassing()
    node.receive(NewLeadershipTerm(-1, 0, 0, -1, 0, 0, 0, -1, 0, 1, 77, 1, False, 0))
    assert node.core.is_leader_startup is False


def test_wiped_member_joins_a_leader_far_ahead() -> None:
    node = Harness().canvassing().announce(1, 9, 90_000, next_term=0, next_base=0, next_end=500, position=95_000)
    assert node.of(JoinLog) == [JoinLog(9, 1, 77, 0, 95_000)]


def test_documented_states_are_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "CONSENSUS.md"
    assert describe_transitions() in page.read_text()


@pytest.mark.parametrize("member_count", [3, 5])
def test_leader_that_closes_is_replaced_within_its_heartbeat_timeout(member_count: int) -> None:
    assert all(measure_ms(seed, member_count, "closed properly") < 300 for seed in range(5))
    assert all(500 <= measure_ms(seed, member_count, "killed") < 1200 for seed in range(5))
