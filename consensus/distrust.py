"""What a member has lost, so that it may not vote (consensus.trust)."""

from enum import IntFlag


class Distrust(IntFlag):
    """Stored with the vote; NONE lets the member vote."""

    NONE = 0
    LOG = 1
    """The log lacks records that this member had acknowledged."""
    VOTE = 2
    """This member may have voted in a term that it no longer knows."""
    STATE = 4
    """The service's state is not that of the other members. Never stored: each start looks again."""
