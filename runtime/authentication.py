"""Who may open a session with a cluster or an archive, and what it may do: the authenticator hook of cluster-client.md
§4.1 and archive.md A3."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag, auto
from typing import Protocol

from runtime.errors import ConfigurationError

PRINCIPAL_LENGTH_BYTES_MAX = 4096
KEY_NAME_MARK = "#"
"""Between the address and the name of the key in the source identity of an encrypted stream."""


class Right(Flag):
    """What the sessions of a principal may do. No replicated state depends on it."""

    INGRESS = auto()
    """Send messages and requests, which go into the log."""
    QUERIES = auto()
    """Ask the service what takes no log entry."""
    ADMINISTRATION = auto()
    """Ask for a snapshot (AdminRequest), where `admin_requests` allows it at all."""
    CONSUMERS = auto()
    """Be a member of durable consumers, and look at them; pausing, moving and removing them needs ADMINISTRATION. And
    have an application's outputs sent to other clients."""
    OPERATOR = auto()
    """Look into members and give them orders, as `ordo cluster ... --endpoints` does: also to end the cluster."""
    LOG = auto()
    """Read what an archive holds: the log and the snapshots of a node, for backups, log readers and replays."""
    RECORD = auto()
    """Record, extend and replicate, in an archive of its own; nobody may in that of a node."""
    DELETE = auto()
    """Truncate, purge, and move segments, in an archive of its own."""


EVERYTHING = (
    Right.INGRESS | Right.QUERIES | Right.ADMINISTRATION | Right.LOG | Right.CONSUMERS | Right.RECORD | Right.DELETE
)
"""All that a client needs. The operator's right is given by name only."""


def rights_of_roles(roles: Iterable[str]) -> Right:
    """The rights of roles, which are names of rights in lower case. Raises ConfigurationError for one that is none."""
    rights = Right(0)
    for role in roles:
        if role.upper() not in Right.__members__ or role != role.lower():
            allowed = ", ".join(name.lower() for name in Right.__members__)
            raise ConfigurationError(f"role {role!r}: must be one of {allowed}")
        rights |= Right[role.upper()]
    return rights


class SessionProxy(Protocol):
    """What an authenticator may do with a session that asks to be opened."""

    @property
    def session_id(self) -> int:
        """The session's id, drawn at random for each request."""

    @property
    def key_name(self) -> str:
        """The name of the key that its client encrypts with; empty where datagrams are not encrypted."""

    def challenge(self, encoded_challenge: bytes) -> None:
        """Asks the client to answer; the answer comes through `on_challenge_response`."""

    def authenticate(self, encoded_principal: bytes) -> None:
        """Lets the session in, under a principal of at most PRINCIPAL_LENGTH_BYTES_MAX bytes."""

    def reject(self) -> None:
        """Refuses the session; its client is told so."""


class Authenticator(Protocol):
    """Called on the leader, once a slow tick for each session that waits, until it decides; for operators on any
    member, where a challenge is a refusal.

    It runs on the node's own thread, where nothing may take long: a slow check delays heartbeats.
    """

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        """A client asks for a session and shows credentials; what is decided of them is said later, through a proxy."""

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        """A client has answered its challenge."""

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        """The client of a session can be reached: it may be challenged, let in, or rejected."""

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        """A session was challenged, and has perhaps answered: it may be let in, or rejected."""

    def rights_of(self, encoded_principal: bytes) -> Right:
        """What the sessions of a principal may do; asked on every member, so it must say the same on all."""


def key_name_of(source_identity: str) -> str:
    """The name of the key in the source identity of a stream; empty where it is not encrypted."""
    return source_identity.partition(KEY_NAME_MARK)[2]


class AcceptAll:
    """The default: every session is let in with an empty principal."""

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        pass

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        pass

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.authenticate(b"")

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        proxy.authenticate(b"")

    def rights_of(self, encoded_principal: bytes) -> Right:
        return EVERYTHING
