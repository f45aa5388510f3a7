"""The view of a client's session that requests and acknowledgements have.

Each time it may be another session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ordo.transport.streams.publication import ExclusivePublication


class LeaderSession(Protocol):
    """The current session, as seen by code that sends in it; it may be a different one each time."""

    @property
    def session_id(self) -> int: ...
    @property
    def leadership_term_id(self) -> int: ...
    @property
    def leader_ingress(self) -> ExclusivePublication | None:
        """The publication to the leader; None while there is no leader to send to."""

    @property
    def takes_messages(self) -> bool:
        """False while the leader takes neither messages nor requests."""
