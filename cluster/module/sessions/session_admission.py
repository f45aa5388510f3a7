"""Which messages of a session go into the log, where more decides than the session table: rights and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.sequencer.hosts import SessionHost

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.identity_bounds import IdentityBounds
    from ordo.cluster.module.sessions.session_quotas import SessionQuotas
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.transport.streams.image import Image


class SessionAdmission(SessionHost):
    """Answers the Sequencer for the open sessions of one member."""

    def __init__(self, sessions: OpenSessions, identities: IdentityBounds, quotas: SessionQuotas) -> None:
        self._sessions = sessions
        self._identities = identities
        self._quotas = quotas

    def may_claim(self, session_id: int, image: Image) -> bool:
        return self._sessions.may_claim(session_id, image)

    def open_account(self, session_id: int, image: Image) -> int:
        return self._quotas.open_account(session_id, image)

    def admits_output(self, image: Image, session_id: int) -> bool:
        return self._sessions.admits_output(image, session_id)

    def admits_command(self, image: Image, message: bytes) -> bool:
        return self._sessions.admits_command(image, message)

    def admits_identity(self, image: Image, message: bytes, cluster_time: int) -> bool:
        return self._identities.admits(image, message, cluster_time)

    def on_message_mark(self, session_id: int, number: int, position: int) -> None:
        self._sessions.note_mark(session_id, number, position)
