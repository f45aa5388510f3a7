"""The reasons for which a member may not vote, or not lead (ordo.consensus.handlers.trust)."""

from enum import IntFlag


class Distrust(IntFlag):
    """A set of reasons, stored with the vote. NONE lets the member vote and lead, STATE lets it vote."""

    NONE = 0
    LOG = 1
    """The log lacks records that this member had acknowledged."""
    VOTE = 2
    """This member may have voted in a term that it no longer knows."""
    STATE = 4
    """The service's state is not that of the other members: it votes with its log, and leads only until another can.
    Never stored: each start checks again."""

    @property
    def is_loss(self) -> bool:
        """Whether something is missing that the member had promised to keep."""
        return bool(self & ~Distrust.STATE)
