"""The view of a client's session that queries, requests and acknowledgements have.

Each time it may be another session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ordo.cluster.client.connection.loop import ClientLoop
    from ordo.transport.streams.publication import ExclusivePublication


class LeaderSession(Protocol):
    """A session as what is sent in it needs to know it; it may be a different one each time."""

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


class SessionOwner(Protocol):
    """The client that owns the session."""

    session_id: int
    leadership_term_id: int
    leader_member_id: int
    ingress_endpoints: dict[int, str]
    ingress_trouble: str
    _loop: ClientLoop

    @property
    def _leader_ingress(self) -> ExclusivePublication | None: ...


class SessionLink:
    """The view of the session that queries and requests have."""

    def __init__(self, client: SessionOwner, named_endpoints: dict[int, str]) -> None:
        self._client = client
        self.named_endpoints = named_endpoints

    @property
    def session_id(self) -> int:
        return self._client.session_id

    @property
    def leadership_term_id(self) -> int:
        return self._client.leadership_term_id

    @property
    def leader_member_id(self) -> int:
        return self._client.leader_member_id

    @property
    def ingress_endpoints(self) -> dict[int, str]:
        return self._client.ingress_endpoints

    @property
    def leader_ingress(self) -> ExclusivePublication | None:
        return self._client._leader_ingress

    @property
    def takes_messages(self) -> bool:
        return not self._client.ingress_trouble

    def note_ingress_lost(self) -> None:
        self._client._loop.note_ingress_lost()

    def note_sent(self, count: int = 1) -> None:
        self._client._loop.note_sent(count)
