"""Terms that two have led: told apart by who led them, whichever term has begun since."""

import pytest

from ordo.consensus.state.commands import JoinLog, PersistTerm, TruncateLog
from ordo.consensus.state.messages import Lead, NewLeadershipTerm
from ordo.consensus.state.term_table import TermTable
from ordo.runtime.errors import ConsensusError
from tests.consensus.harness import FIRST_RECORD, Harness

LOG = ((0, 0), (5, 400))
"""Behind it the leader has term 7, from 800 on."""


def announced(log_lead: Lead | None, base: int = 800, log_term: int = 5) -> NewLeadershipTerm:
    """Return what member 1, which leads term 7, says to a member whose log ends in term 5."""
    return NewLeadershipTerm(
        log_leadership_term_id=log_term,
        next_leadership_term_id=7,
        next_term_base_log_position=base,
        next_log_position=-1,
        leadership_term_id=7,
        term_base_log_position=base,
        log_position=900,
        leader_recording_id=-1,
        timestamp=0,
        leader_member_id=1,
        log_session_id=77,
        app_version=1,
        is_startup=False,
        commit_position=0,
        log_lead=log_lead,
    )


def node_with(last_lead: tuple[int, int] | None) -> Harness:
    return Harness(terms=LOG, append_position=800, last_lead=last_lead).canvassing()


@pytest.mark.parametrize("base", [800, 600, 900])
@pytest.mark.parametrize(
    ("own", "told", "text"),
    [((2, 33), Lead(0, 33), "as member 2 led it:"), ((2, 33), Lead(2, 34), "as member 2 led it with another log:")],
)
def test_a_log_with_an_earlier_term_of_another_lead_is_not_followed(
    own: tuple[int, int], told: Lead, text: str, base: int
) -> None:
    """It is not cut either: nothing says that the other one's records are those that were committed."""
    node = node_with(own)
    with pytest.raises(ConsensusError, match=f"has term 5 as member {told.member_id} led it, .* term {text} two"):
        node.receive(announced(told, base))
    assert not node.after().of(JoinLog) and not node.of(TruncateLog)


@pytest.mark.parametrize(("own", "told"), [((2, 33), Lead(2, 33)), ((2, 33), None), (None, None)])
def test_a_log_with_an_earlier_term_of_the_same_lead_is_followed(
    own: tuple[int, int] | None, told: Lead | None
) -> None:
    """As is one of which nobody knows it: of a release that did not write it down."""
    node = node_with(own).receive(announced(told))
    assert node.of(JoinLog) and not node.of(PersistTerm)
    assert node_with(own).receive(announced(told, 600)).of(TruncateLog) == [TruncateLog(600)]


def test_who_led_a_term_is_learned_from_the_leader_that_is_followed() -> None:
    node = node_with(None).receive(announced(Lead(2, 33)))
    assert node.of(PersistTerm) == [PersistTerm(5, 400, Lead(2, 33))] and node.of(JoinLog)
    assert not node_with(None).receive(announced(Lead(2, 33), 600)).of(PersistTerm), "not before it is cut"
    current = Harness(terms=LOG, append_position=800).canvassing()
    current.announce(1, 5, 400, log_term=5, next_term=-1, next_base=-1)
    assert current.of(PersistTerm) == [PersistTerm(5, 400, Lead(1, 77))]


def test_what_is_told_of_another_term_says_nothing_of_the_own_one() -> None:
    node = node_with((2, 33)).receive(announced(Lead(0, 9), 300, log_term=0))
    assert node.of(TruncateLog) == [TruncateLog(400)]


def test_an_empty_log_has_no_lead() -> None:
    node = Harness().canvassing().receive(announced(None, log_term=-1))
    assert node.of(JoinLog) and not node.of(PersistTerm)


def test_a_leader_tells_who_led_the_last_term_of_a_members_log_and_of_its_own_term_nothing() -> None:
    node = Harness(terms=LOG, append_position=800, last_lead=(2, 33)).elected()
    told = {member_id: message.log_lead for member_id, message in node.sent(NewLeadershipTerm)}
    assert told == {1: None, 2: None}, "their logs are empty"
    node.canvass_from(1, log_term=5, position=800)
    assert [message.log_lead for _, message in node.sent(NewLeadershipTerm)] == [Lead(2, 33)]
    node.core.on_new_term(node.term, 800, Lead(0, 55))
    node.appended(800 + FIRST_RECORD).canvass_from(1, log_term=node.term, position=800 + FIRST_RECORD)
    assert [message.log_lead for _, message in node.sent(NewLeadershipTerm)] == [None]


def test_who_led_a_term_goes_with_its_row() -> None:
    table = TermTable(LOG, {0: Lead(1, 11), 5: Lead(2, 33), 9: Lead(0, 1)})
    assert (table.lead_of(0), table.lead_of(5), table.lead_of(9)) == (Lead(1, 11), Lead(2, 33), None)
    table.append(9, 800)
    assert table.last_lead is None
    table.name_last_lead(Lead(0, 44))
    assert table.last_lead == Lead(0, 44)
    table.truncate(400)
    assert table.last_lead == Lead(1, 11)
    table.append(5, 400)
    assert table.last_lead is None
