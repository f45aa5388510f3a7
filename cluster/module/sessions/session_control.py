"""What clients ask about their sessions: to open one, to keep it alive, to close it, to have a snapshot taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.module.sessions.sessions import Leadership
from ordo.cluster.wire import codecs
from ordo.runtime.security.authentication import Right

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.session_requests import SessionRequests
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.runtime.sbe import Message
    from ordo.transport.streams.image import Image

SESSION_REQUESTS = (codecs.SESSION_KEEP_ALIVE, codecs.SESSION_CLOSE_REQUEST, codecs.ADMIN_REQUEST)
"""What a client asks of its session; each names it, and the term of the leader that it was sent to."""


class SessionControlHost(Leadership, Protocol):
    """The member that the clients ask."""

    @property
    def is_leader(self) -> bool: ...


class SessionControl:
    """Takes the requests of one member's clients; all but the first of a session are for the leader only."""

    def __init__(
        self,
        host: SessionControlHost,
        sessions: OpenSessions,
        requests: SessionRequests,
        *,
        ask_snapshot: Callable[[], bool] | None,
        on_rejected: Callable[[str], None],
    ) -> None:
        """Take the member's parts.

        `ask_snapshot` has the cluster take a snapshot; None where clients may not ask for one. `on_rejected` counts a
        refused request, and logs one line.
        """
        self._host = host
        self._sessions = sessions
        self._requests = requests
        self._ask_snapshot = ask_snapshot
        self._on_rejected = on_rejected

    def on_message(self, table: Message, values: Any, image: Image, cluster_time: int) -> None:
        """Take a message of a client that has connected, as its leader."""
        if not self._host.is_leader:
            return
        if table is codecs.CHALLENGE_RESPONSE:
            self._requests.on_challenge_response(values, image, cluster_time)
        elif table in SESSION_REQUESTS and values.leadership_term_id == self._host.leadership_term_id:
            self._on_session_request(table, values, image, cluster_time)

    def connect(self, values: Any, image: Image, leader_member_id: int, cluster_time: int) -> None:
        """Take a SessionConnectRequest; a follower's answer names the leader."""
        self._requests.on_connect_request(values, image, self._host, leader_member_id, cluster_time)

    def _on_session_request(self, table: Message, values: Any, image: Image, cluster_time: int) -> None:
        sessions, session_id = self._sessions, values.cluster_session_id
        if sessions.get(session_id) is None:
            return
        if not sessions.is_owner(session_id, image):
            self._on_rejected("ingress: a request for the session of another client")
        elif table is codecs.SESSION_KEEP_ALIVE:
            sessions.keep_alive(session_id, image, cluster_time)
        elif table is codecs.SESSION_CLOSE_REQUEST:
            sessions.close(session_id, codecs.CloseReason.CLIENT_ACTION)
        elif table is codecs.ADMIN_REQUEST:
            sessions.on_admin_request(
                values, self._ask_snapshot if sessions.may(session_id, Right.ADMINISTRATION) else None
            )

    def image_gone(self, image: Image) -> None:
        """Drop what hangs on an image of the ingress."""
        self._requests.image_gone(image)
        if self._host.is_leader:
            self._sessions.image_gone(image)
