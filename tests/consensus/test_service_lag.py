"""Members whose service is far behind leave the leadership to members that are level (docs/CONSENSUS.md, Trust)."""

from ordo.consensus.state.messages import RequestVote, StandsBack
from ordo.consensus.state.states import ElectionState
from tests.consensus.harness import FIRST_RECORD, Harness

END = FIRST_RECORD


def alone() -> Harness:
    """A member whose service lags; it has canvassed since its leader fell silent."""
    node = Harness().following()
    node.core.lag(True)
    return node.after().tick(499).tick(2).expect(ElectionState.INIT).tick(1).expect(ElectionState.CANVASS)


def waited_ms(node: Harness, *, others_lag: bool) -> int:
    """How long the member canvasses beside member 2 before it asks for votes."""
    waited = 0
    while not node.sent(RequestVote):
        if others_lag:
            node.receive(StandsBack(2))
        node.canvass_from(2, log_term=0, position=END).tick(10)
        waited += 10
        assert waited < 60_000, "it never stands"
    return waited


def test_it_says_that_it_stands_back_until_it_is_level() -> None:
    node = Harness().following()
    node.core.lag(True)
    assert node.after().tick(50).sent(StandsBack) == [(None, StandsBack(0))]
    node.core.lag(False)
    assert not node.after().tick(50).sent(StandsBack)


def test_it_leaves_a_level_member_the_time_to_come_forward() -> None:
    assert waited_ms(alone(), others_lag=False) >= 750


def test_it_waits_no_longer_than_others_where_nobody_is_level() -> None:
    level = alone()
    level.core.lag(False)
    assert waited_ms(alone(), others_lag=True) <= waited_ms(level, others_lag=False) + 200


def test_a_leader_hands_over_to_level_members_only() -> None:
    node = Harness().serving()
    node.ack_from(1, FIRST_RECORD).ack_from(2, FIRST_RECORD)
    assert node.core.successors == [1, 2]
    node.receive(StandsBack(1))
    assert node.core.successors == [2]
    node.core.lag(True)
    node.tick(1).expect(ElectionState.CLOSED)
    assert node.core.is_serving, "lagging costs nobody the leadership by itself"
