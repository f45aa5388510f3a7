"""The rules for changing the members (Raft dissertation, §4.1 to §4.2.4).

They say which change a leader may append to the log, and when.

One vote at a time, each only when the configuration before is committed, and a record of the leader's own term with it
(Ongaro's correction of 2015: else two leaders may each count on a quorum of a configuration that the other's lacks).
"""

from ordo.consensus.state.configuration import Configuration, count_changed_members
from ordo.consensus.state.context import Context


def find_refusal(ctx: Context, wanted: Configuration, near_position: int) -> str:
    """Return why the leader may not append the configuration, in one line for the operator, or an empty string."""
    return _find_bad_moment(ctx) or _find_bad_change(ctx, wanted) or _find_unfit_member(ctx, wanted, near_position)


def _find_bad_moment(ctx: Context) -> str:
    if not (ctx.is_leading and ctx.is_closed):
        return f"member {ctx.own.member_id} does not lead"
    if ctx.is_transferring or ctx.is_terminating:
        return f"member {ctx.own.member_id} is about to give up the leadership; ask the next leader"
    if ctx.configurations.position > ctx.progress.commit_position:
        return "the change before this one is not committed yet; try again when it is"
    assert ctx.progress.commit_position >= ctx.progress.first_record_end
    return ""


def _find_bad_change(ctx: Context, wanted: Configuration) -> str:
    current = ctx.configuration
    if wanted == current:
        return f"that is how it is: {current.describe()}"
    if count_changed_members(current, wanted) > 1:
        return f"from {current.describe()} to {wanted.describe()} is more than one step; change one member at a time"
    if ctx.own.member_id not in wanted.voter_ids:
        return f"member {ctx.own.member_id} leads; transfer the leadership first (ordo cluster transfer)"
    return ""


def _find_unfit_member(ctx: Context, wanted: Configuration, near_position: int) -> str:
    progress, now_ns = ctx.progress, ctx.now_ns
    for member_id in set(wanted.voter_ids) - set(ctx.configuration.voter_ids):
        if member_id not in ctx.configuration.learner_ids:
            return f"member {member_id} is not in the cluster; add it as a learner first"
        if not progress.is_active(member_id, now_ns):
            return f"learner {member_id} was not heard lately; is its node running?"
        position = progress.member_position(member_id)
        if position < max(near_position, ctx.configurations.position):
            return f"learner {member_id} is at position={position} and has to reach {near_position}; wait until it does"
    active = sum(progress.is_active(member_id, now_ns) for member_id in wanted.voter_ids)
    if active < wanted.quorum_threshold:
        return (
            f"only {active} of the voters {list(wanted.voter_ids)} are heard, fewer than a quorum of"
            f" {wanted.quorum_threshold}: the cluster would stand still"
        )
    return ""
