"""The core of a standby: it takes no part in consensus, since its log is copied from what a cluster has committed."""

from __future__ import annotations

from ordo.consensus.core import ConsensusCore
from ordo.consensus.state.messages import Message


class StandbyCore(ConsensusCore):
    """Commits all that its log has; never votes, follows or leads.

    It stays in INIT, in which a log may grow that nobody leads. A promotion makes the folder that of a cluster of one,
    and starts the node anew with a core that takes part.
    """

    @property
    def takes_part(self) -> bool:
        """Whether this node is a member of the cluster whose log it has: it is none."""
        return False

    def start(self, now_ns: int) -> None:
        """Start the core: what the log has is committed."""
        super().start(now_ns)
        self._commit_all()

    def tick(self, now_ns: int) -> None:
        """Let time pass: nothing becomes due."""
        self._at(now_ns)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Ignore what members say: this one is none of them."""

    def on_appended(self, append_position: int, now_ns: int) -> None:
        """Take note that the log is durable up to a position, and commit it: no more is copied than is committed."""
        super().on_appended(append_position, now_ns)
        self._commit_all()

    def _commit_all(self) -> None:
        ctx = self._ctx
        ctx.progress.commit_position = max(ctx.progress.commit_position, ctx.append_position)
        ctx.announce_commit()
