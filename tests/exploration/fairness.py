"""What a cluster does when nothing goes wrong any more: everything arrives, time passes for all, nobody crashes."""

from __future__ import annotations

from collections.abc import Callable

from ordo.consensus.state.messages import CanvassPosition, ReadHeartbeat, ReadHeartbeatAck
from ordo.consensus.state.states import ElectionState
from tests.exploration.space import Action, Space, Stage, State, View

ROUNDS_MAX = 60
ROUNDS_TO_A_TIMEOUT = 3
STEPS_MAX = 400


class Stuck(AssertionError):
    """A cluster that did not come to life although nothing kept it."""


def serving_leader(space: Space, state: State, present: tuple[int, ...] | None = None) -> int | None:
    """Return the one leader that all others of its configuration that are present follow, with all of its log."""
    present = space.bounds.members if present is None else present
    views = [space.views[one] for one in state.members]
    leaders = [one for one in present if views[one].leads]
    if len(leaders) != 1 or not views[leaders[0]].serves:
        return None
    leader = views[leaders[0]]
    is_whole = all(
        views[one].state is ElectionState.CLOSED
        and views[one].term_id == leader.term_id == views[one].bound_to
        and views[one].log == leader.log
        and views[one].durable_position == views[one].commit_position == leader.end_position
        for one in set(present) & set(leader.configuration.member_ids)
    )
    return leaders[0] if is_whole else None


def run_fairly(
    space: Space, state: State, is_done: Callable[[State], bool], present: tuple[int, ...] | None = None
) -> State:
    """Go on until something is so, among the members that are present. Raises Stuck where it does not come."""
    present = space.bounds.members if present is None else present
    for number in range(ROUNDS_MAX):
        state = deliver_all(space, state, is_done, present)
        if is_done(state):
            return state
        if number % ROUNDS_TO_A_TIMEOUT == ROUNDS_TO_A_TIMEOUT - 1:
            state = time_out_one(space, state, number // ROUNDS_TO_A_TIMEOUT, present)
        for member_id in present:
            state = space.apply(state, member_id, ("beat",))
    raise Stuck(f"no life after {ROUNDS_MAX} rounds: {[space.views[one].state.name for one in state.members]}")


def deliver_all(space: Space, state: State, is_done: Callable[[State], bool], present: tuple[int, ...]) -> State:
    """Let everything arrive that is on its way, and everything become durable.

    What members tell before an election arrives last: one of them is always the first to stand, as its random delay
    would have it.
    """
    for _ in range(STEPS_MAX):
        before = state
        due = [one for one in state.network if set(space.messages[one][:2]) <= set(present)]
        if due and not is_done(state):
            number = min(due, key=lambda one: (isinstance(space.messages[one][2], CanvassPosition), one))
            state = space.take(state._replace(network=state.network - {number}), ("deliver", number))
            continue
        for member_id in present:
            state = _go_on(space, state, member_id, present)
        if state == before or is_done(state):
            break
    return state


def _go_on(space: Space, state: State, member_id: int, present: tuple[int, ...]) -> State:
    view = space.views[state.members[member_id]]
    while view.follows and view.leader_id in present and space.next_data(state, view) is not None:
        state = space.take(state, ("data", member_id))
        view = space.views[state.members[member_id]]
    if view.end_position > view.durable_position:
        state = space.take(state, ("sync", member_id))
    return state


def time_out_one(space: Space, state: State, turn: int, present: tuple[int, ...]) -> State:
    """Let the timeout of one member pass that has nobody to hear from."""
    views = [space.views[one] for one in state.members]
    lonely = [one for one in present if not _is_content(views[one], [views[other] for other in present], views)]
    if not lonely:
        return state
    return space.apply(state, lonely[turn % len(lonely)], ("timeout",))


def _is_content(view: View, present: list[View], views: list[View]) -> bool:
    if view.state is not ElectionState.CLOSED:
        return False
    if view.leads:
        followers = [one for one in present if one.follows and one.term_id == view.term_id]
        return len(followers) + 1 >= view.configuration.quorum_threshold
    leader = views[view.leader_id]
    return leader in present and leader.leads and leader.term_id == view.term_id


def begin(space: Space) -> State:
    """Return the state with which the bounds have the exploration begin."""
    state = space.begin()
    for stage in space.bounds.stages:
        state = _go_through(space, state, stage)
    return state


def _go_through(space: Space, state: State, stage: Stage) -> State:
    """Run the members that are present on their own until they have a leader, which then does what it is to do."""
    leaders = [member_id for _, member_id in state.leaders]
    absent = {leaders[one] for one in stage.without}
    present = tuple(one for one in space.bounds.members if one not in absent)
    first_term = max([-1, *(term_id for term_id, _ in state.leaders)]) + 1

    def is_done(now: State) -> bool:
        if stage.until is not None:
            return any(isinstance(space.messages[one][2], stage.until) for one in now.network)
        if stage.is_whole:
            return serving_leader(space, now, present) is not None
        return any(term_id >= first_term for term_id, _ in now.leaders)

    state = run_fairly(space, state, is_done, present)
    if stage.until is not None:
        return state
    leader_id = dict(state.leaders)[max(term_id for term_id, _ in state.leaders)]
    wanted: list[Action] = [("append", state.records)] * stage.appends
    if stage.changes:
        wanted.append(("change", space.bounds.wanted))
    for request in wanted:
        state = space.apply(state, leader_id, request)
        state = space.apply(state, leader_id, ("sync",))
    if stage.commits:
        goal = space.views[state.members[leader_id]].end_position
        state = run_fairly(
            space, state, lambda now: space.views[now.members[leader_id]].commit_position >= goal, present
        )
    if stage.is_whole and not stage.keeps:
        state = state._replace(network=frozenset())
    return _ask(space, state, leader_id) if stage.reads else state


def _ask(space: Space, state: State, leader_id: int) -> State:
    """Ask the leader for the read index, and let one of the answers arrive."""
    state = space.apply(state, leader_id, ("read", 0))
    for kind, count in ((ReadHeartbeat, len(space.bounds.members)), (ReadHeartbeatAck, 1)):
        found = [one for one in sorted(state.network) if isinstance(space.messages[one][2], kind)]
        for number in found[:count]:
            state = space.take(state, ("deliver", number))
    return state


def come_to_life(space: Space, state: State) -> None:
    """Check that a fair run from a state gets a leader, and that this commits a record. Raises Stuck if not."""
    state = run_fairly(space, state, lambda one: serving_leader(space, one) is not None)
    leader_id = serving_leader(space, state)
    assert leader_id is not None
    state = space.apply(state, leader_id, ("append", state.records))
    goal = space.views[state.members[leader_id]].end_position
    run_fairly(space, state, lambda one: space.views[one.members[leader_id]].commit_position >= goal)
