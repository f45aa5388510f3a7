"""The encoding and sending of requests to the leader: a client's own, those of a gateway, and commands of consumers."""

from __future__ import annotations

from typing import Protocol

from ordo.cluster.client.connection.session_view import LeaderSession
from ordo.cluster.wire import ordo_codecs
from ordo.transport.streams.publication import RESULT_MAX_POSITION_EXCEEDED

RequestStamp = tuple[int, int, int, int]
"""Leadership term, session, time (0), and where the identity is opened: the first fields of each request."""


class RequestSession(LeaderSession, Protocol):
    """The view of their session that requests have."""

    def note_ingress_lost(self) -> None:
        """Note that the leader's ingress is lost."""

    def note_sent(self, count: int = 1) -> None:
        """Note that messages were sent, which keep the session alive by themselves."""


def encode_open(session: LeaderSession, identity: bytes, incarnation: int, known_position: int) -> bytes:
    """Return the message that opens an identity and asks which of its requests the cluster has executed."""
    message: bytes = ordo_codecs.OPEN_IDENTITY.encode(
        leadership_term_id=session.leadership_term_id,
        cluster_session_id=session.session_id,
        timestamp=0,
        incarnation=incarnation,
        known_position=known_position,
        **ordo_codecs.split_identity(identity),
    )
    return message


def offer_to_leader(session: RequestSession, message: bytes) -> bool:
    """Return whether the leader's ingress has taken a message."""
    ingress = session.leader_ingress
    if ingress is None:
        return False
    result = ingress.offer(message)
    if result > 0:
        session.note_sent()
        return True
    if not ingress.is_connected or result == RESULT_MAX_POSITION_EXCEEDED:
        session.note_ingress_lost()
    return False
