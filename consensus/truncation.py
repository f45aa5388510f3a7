"""Removing the part of the own log that the leader's log does not have (Raft §5.3; cluster-consensus.md §9)."""

from consensus.commands import TruncateLog
from consensus.context import Context
from consensus.messages import NULL_POSITION
from consensus.states import ElectionState, Role
from runtime.errors import ConsensusError


def begin_truncation(ctx: Context, position: int, reason: str) -> None:
    """Order the truncation and wait in INIT, deaf to messages, until it is done.

    Raises ConsensusError where something committed would be lost: then a Raft rule was broken, and the node must stop.
    """
    assert not ctx.log_is_open
    assert 0 <= position <= ctx.append_position, f"{position=} {ctx.append_position=}"
    if position < ctx.progress.commit_position:
        raise ConsensusError(
            f"refused to truncate the log to position={position}, below commit_position={ctx.progress.commit_position}"
            f" ({reason}): the logs of the members contradict each other; stop and compare them"
        )
    if ctx.state is not ElectionState.INIT:
        ctx.become(Role.FOLLOWER)
        ctx.transition(ElectionState.INIT, f"truncate from {ctx.append_position} to {position}: {reason}")
    ctx.pending_truncation = position
    ctx.emit(TruncateLog(position))


def on_truncated(ctx: Context, position: int) -> None:
    """The log ends at `position` now; its last term is that of the remaining prefix."""
    if position != ctx.pending_truncation:
        raise ConsensusError(f"log was truncated to position={position}, ordered was {ctx.pending_truncation}")
    ctx.pending_truncation = NULL_POSITION
    ctx.terms.truncate(position)
    ctx.unconfigure(position)
    ctx.progress.own_position = position
    assert not ctx.has_unwritten_term
