"""Decides which clients may query the service: the session's own client, if its principal has the right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ordo.runtime.security.authentication import Right

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.transport.streams.image import Image


class QueryHost(Protocol):
    """The member that receives queries."""

    @property
    def is_leader(self) -> bool: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""


class QueryGate:
    """Checks each query before it is accepted."""

    def __init__(
        self,
        host: QueryHost,
        sessions: OpenSessions,
        lets_everybody_in: bool,
        on_proven: Callable[[Image], object] = lambda image: None,
    ) -> None:
        """Take the member's parts; `on_proven` takes each image that proved to be that of an open session's client."""
        self._on_proven = on_proven
        self._host = host
        self._sessions = sessions
        self._lets_everybody_in = lets_everybody_in

    def find_refusal(self, session_id: int, image: Image) -> str | None:
        """Return why a session may not query here, or None if it may.

        Empty where its client must not hear of what another did, or asks again by itself: its session is not known yet.
        """
        sessions, host = self._sessions, self._host
        if sessions.get(session_id) is None:
            return None if self._lets_everybody_in else ""
        is_its_own = sessions.may_ask if host.is_leader else sessions.may_claim
        if not is_its_own(session_id, image):
            host.on_invalid_request("ingress: a query for the session of another client")
            return ""
        self._on_proven(image)
        if sessions.may(session_id, Right.QUERIES):
            return None
        host.on_invalid_request("ingress: a query of a client that has no right to ask")
        return "this client has no right to ask (see roles of [[tokens]])"
