"""What the consensus core asks its shell to do.

The shell executes commands strictly in the order given; `PersistCandidateTerm`, `PersistTerm`, `PersistDistrust` and
`TruncateLog` are durable before the next command runs. An order it cannot carry out ends the node: it never skips one.
"""

from typing import NamedTuple

from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead, Message
from ordo.consensus.state.states import ElectionState, Role


class Send(NamedTuple):
    """Send `message` to one member; it may be lost."""

    member_id: int
    message: Message


class Broadcast(NamedTuple):
    """Send `message` to every other member that is known; any copy may be lost."""

    message: Message


class Introduce(NamedTuple):
    """Tell one member that another is a member of the log's configuration, and where it is; it may be lost."""

    member_id: int
    introduced_id: int


class PersistCandidateTerm(NamedTuple):
    """Store the durable vote state: no vote for a term at or below `candidate_term_id` is ever given again."""

    candidate_term_id: int
    log_position: int


class PersistTerm(NamedTuple):
    """Add a row to the durable term table, replacing any row with a term or a base at or above it.

    `lead` is who led the term; None if that is not known.
    """

    leadership_term_id: int
    base_position: int
    lead: Lead | None = None


class PersistDistrust(NamedTuple):
    """Store what this member still lacks before it may vote; NONE: it may vote from now on."""

    distrust: Distrust


class PrepareLog(NamedTuple):
    """Open the log publication at `base_position` and record it, as the elected leader.

    Append NewLeadershipTermEvent as its first record, then call `on_log_ready`.
    """

    leadership_term_id: int
    base_position: int


class JoinLog(NamedTuple):
    """Follow `leader_member_id`: join its log session, and ask for a replay from `from_position`.

    Then call `on_joined`. `leader_position` is where the leader's log ended when it announced itself, never below
    `from_position`.
    """

    leadership_term_id: int
    leader_member_id: int
    log_session_id: int
    from_position: int
    leader_position: int


class LeaveLog(NamedTuple):
    """Close the log publication or subscription, and stop the recording.

    Then report its end, scanned and durable, through `on_new_term` and `on_appended` before any other input.
    """

    reason: str


class TruncateLog(NamedTuple):
    """Remove the log from `position` on and the term rows that begin there or later, then call `on_truncated`."""

    position: int


class Commit(NamedTuple):
    """Everything below `position` is committed; positions never go back."""

    position: int


class ChangeRole(NamedTuple):
    """The member's role changed."""

    role: Role


class Transition(NamedTuple):
    """The election state changed; for logs, counters and tests."""

    old_state: ElectionState
    new_state: ElectionState
    reason: str


Command = (
    Send
    | Broadcast
    | Introduce
    | PersistCandidateTerm
    | PersistTerm
    | PersistDistrust
    | PrepareLog
    | JoinLog
    | LeaveLog
    | TruncateLog
    | Commit
    | ChangeRole
    | Transition
)
