"""Sends notices to all open sessions, and keeps the sessions open while the member could not hear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.sessions.sessions import Leadership, session_event
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.succession import DISMISSED

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import ClusterSession, OpenSessions


class TimedLeadership(Leadership, Protocol):
    """The member that leads, and cluster time."""

    @property
    def cluster_time(self) -> int: ...


class SessionNotices:
    """Speaks to the clients of one member's sessions."""

    def __init__(self, leadership: TimedLeadership, sessions: OpenSessions) -> None:
        self._leadership = leadership
        self._sessions = sessions

    def touch(self) -> None:
        """Count every session as heard from now."""
        self._sessions.touch(self._leadership.cluster_time)

    def touch_stream(self, session_id: int) -> None:
        """Count a session as heard from now, and all others whose clients speak through the same stream."""
        self._sessions.touch_stream(session_id, self._leadership.cluster_time)

    def notify(self, session: ClusterSession, notice: str) -> None:
        """Queue a notice for one session."""
        self._sessions.notify(self._leadership, session, notice)

    def notify_all(self, notice: str) -> None:
        """Queue a notice for each open session."""
        for session in self._sessions:
            self._sessions.notify(self._leadership, session, notice)

    def dismiss_all(self) -> None:
        """Tell each client that its session ends here, though no record of the log says so: a standby goes on with it.

        The standby closes the sessions in its own log.
        """
        leadership = self._leadership
        for session in list(self._sessions):
            event = session_event(
                leadership, session.id, session.correlation_id, EventCode.CLOSED, DISMISSED, leadership.member_id
            )
            self._sessions.tell(session, event)

    def notify_all_now(self, notice: str) -> None:
        """Send a notice to each open session at once, if there is room."""
        for session in list(self._sessions):
            self._sessions.notify_now(self._leadership, session, notice)
