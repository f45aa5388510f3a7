"""One lead a term: a log that goes on from another lead of its last term is not the leader's, and is not followed.

Raft has one leader in each term (§5.2), so that a term says which log is meant. Where most members have forgotten their
votes, as with older copies of their folders, a term may be led twice; a member and the random session of the log that
its process wrote then still say which log is meant. docs/CONSENSUS.md, What was committed is not given up.
"""

from ordo.consensus.state import commands, transitions
from ordo.consensus.state.context import Context
from ordo.consensus.state.messages import Lead, NewLeadershipTerm
from ordo.runtime.errors import ConsensusError


def told_lead(ctx: Context, message: NewLeadershipTerm) -> Lead | None:
    """Return who led the last term of this member's log, as far as the leader has that term and says it."""
    if ctx.terms.last_term_id == message.leadership_term_id:
        return Lead(message.leader_member_id, message.log_session_id)
    return message.log_lead if ctx.terms.last_term_id == message.log_leadership_term_id else None


def learn_lead(ctx: Context, message: NewLeadershipTerm) -> None:
    """Store who led the last term of a log that goes on as the leader's, if this member has not known it."""
    lead = told_lead(ctx, message)
    if lead is not None and ctx.terms.last_lead is None:
        ctx.terms.name_last_lead(lead)
        ctx.emit(commands.PersistTerm(ctx.terms.last_term_id, ctx.terms.last_base_position, lead))


def demand_one_lead(ctx: Context, message: NewLeadershipTerm) -> None:
    """Raise ConsensusError if two have led the last term of this member's log, and the leader has that of the other.

    What the two have of the term are two logs, and nothing says which of them was committed.
    """
    found = find_difference(ctx, message)
    if found:
        raise ConsensusError(
            f"member {message.leader_member_id} leads term {message.leadership_term_id} from"
            f" position={message.term_base_log_position} on, {found}: two members have led it, since one forgot its"
            f" vote (an older copy of its folder?). {transitions.KEEPS}"
        )


def find_difference(ctx: Context, message: NewLeadershipTerm) -> str:
    """Return how the leader's log and this one have the last term of this one from two leads, or an empty string."""
    term_id, own, told = ctx.terms.last_term_id, ctx.terms.last_lead, told_lead(ctx, message)
    is_current = term_id == message.leadership_term_id
    if is_current and ctx.terms.last_base_position != message.term_base_log_position:
        return f"and this member's log has that term from {ctx.terms.last_base_position} on"
    if own is None or told is None or own == told:
        return ""
    led = f"as member {own.member_id} led it"
    if own.member_id == told.member_id:
        led = f"{led} with another log"
    if is_current:
        return f"and this member's log has that term from there on {led}"
    return f"its log has term {term_id} as member {told.member_id} led it, and this member's log has that term {led}"
