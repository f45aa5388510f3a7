"""Election states and roles, and which state may follow which: the one table that code, tests and documents read."""

from enum import IntEnum, unique


@unique
class Role(IntEnum):
    """What a member is to the cluster; the value of counter 201."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


@unique
class ElectionState(IntEnum):
    """The state of a member in an election; the value of counter 207 (cluster-consensus.md §5)."""

    INIT = 0
    CANVASS = 1
    NOMINATE = 2
    CANDIDATE_BALLOT = 3
    FOLLOWER_BALLOT = 4
    LEADER_INIT = 7
    LEADER_READY = 8
    FOLLOWER_CATCHUP_INIT = 11
    FOLLOWER_CATCHUP_AWAIT = 12
    FOLLOWER_CATCHUP = 13
    FOLLOWER_READY = 16
    CLOSED = 17


STATE_DOCS: dict[ElectionState, str] = {
    ElectionState.INIT: "no election yet, or the log is being truncated; messages are ignored",
    ElectionState.CANVASS: "tells its log's end to all, learns theirs, looks for a leader",
    ElectionState.NOMINATE: "would win; waits a random moment so that two members rarely stand at once",
    ElectionState.CANDIDATE_BALLOT: "stands for election in a new term and collects votes",
    ElectionState.FOLLOWER_BALLOT: "voted for another member and waits for it to lead",
    ElectionState.LEADER_INIT: "elected; the log publication and its recording are being set up",
    ElectionState.LEADER_READY: "announces its term; waits until the term's first record is on a quorum",
    ElectionState.FOLLOWER_CATCHUP_INIT: "its log is a prefix of the leader's; joining the leader's log begins",
    ElectionState.FOLLOWER_CATCHUP_AWAIT: "waits for the replay from its own position to arrive",
    ElectionState.FOLLOWER_CATCHUP: "copies what it missed",
    ElectionState.FOLLOWER_READY: "joined the live log; reports it to the leader",
    ElectionState.CLOSED: "no election is running: the member serves as leader or follows one",
}

_S = ElectionState
_FOLLOW = _S.FOLLOWER_CATCHUP_INIT

TRANSITIONS: dict[ElectionState, frozenset[ElectionState]] = {
    _S.INIT: frozenset({_S.CANVASS, _S.LEADER_INIT}),
    _S.CANVASS: frozenset({_S.INIT, _S.NOMINATE, _S.FOLLOWER_BALLOT, _FOLLOW}),
    _S.NOMINATE: frozenset({_S.INIT, _S.CANVASS, _S.CANDIDATE_BALLOT, _S.FOLLOWER_BALLOT, _FOLLOW}),
    _S.CANDIDATE_BALLOT: frozenset({_S.INIT, _S.CANVASS, _S.FOLLOWER_BALLOT, _S.LEADER_INIT, _FOLLOW}),
    _S.FOLLOWER_BALLOT: frozenset({_S.INIT, _S.CANVASS, _S.FOLLOWER_BALLOT, _FOLLOW}),
    _S.LEADER_INIT: frozenset({_S.INIT, _S.LEADER_READY}),
    _S.LEADER_READY: frozenset({_S.INIT, _S.CLOSED}),
    _S.FOLLOWER_CATCHUP_INIT: frozenset({_S.FOLLOWER_CATCHUP_AWAIT}),
    _S.FOLLOWER_CATCHUP_AWAIT: frozenset({_S.INIT, _S.FOLLOWER_CATCHUP}),
    _S.FOLLOWER_CATCHUP: frozenset({_S.INIT, _S.FOLLOWER_READY}),
    _S.FOLLOWER_READY: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset({_S.INIT}),
}

ELECTING_STATES = frozenset({_S.CANVASS, _S.NOMINATE, _S.CANDIDATE_BALLOT, _S.FOLLOWER_BALLOT})
LEADING_STATES = frozenset({_S.LEADER_INIT, _S.LEADER_READY})
JOINING_STATES = frozenset(
    {_S.FOLLOWER_CATCHUP_INIT, _S.FOLLOWER_CATCHUP_AWAIT, _S.FOLLOWER_CATCHUP, _S.FOLLOWER_READY}
)


def describe_transitions() -> str:
    """Return the states and transitions as a Markdown table, one row a state."""
    lines = ["| state | code | what a member does in it | next |", "|---|---|---|---|"]
    for state, targets in TRANSITIONS.items():
        names = ", ".join(target.name for target in sorted(targets))
        lines.append(f"| {state.name} | {state.value} | {STATE_DOCS[state]} | {names} |")
    return "\n".join(lines)
