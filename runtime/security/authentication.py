"""The authenticator hook of cluster-client.md §4.1 and archive.md A3.

It decides who may open a session with a cluster or an archive, and what it may do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Flag, auto
from typing import Protocol

from ordo.runtime.errors import ConfigurationError

PRINCIPAL_LENGTH_BYTES_MAX = 4096
KEY_NAME_MARK = "#"
"""The separator of the address and the key's name in the source identity of an encrypted stream."""


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
    TOPICS = auto()
    """Read topics of the feeds, those that `Authenticator.topics_of` names, and nothing else of a node's archive."""
    RECORD = auto()
    """Record, extend and replicate, in an archive of its own; nobody may in that of a node."""
    DELETE = auto()
    """Truncate, purge, and move segments, in an archive of its own."""


EVERYTHING = ~Right.OPERATOR
"""All that a client needs. The operator's right is given by name only."""
TOPIC_ROLE = "topic:"
ALL_TOPICS = ("*",)
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}\*?|\*")


def rights_of_roles(roles: Iterable[str]) -> Right:
    """Return the rights of roles, which are names of rights in lower case, or `topic:` and a topic.

    Raises ConfigurationError for an unknown role.
    """
    rights = Right(0)
    for role in roles:
        if role.startswith(TOPIC_ROLE):
            check_topic_role(role)
            rights |= Right.TOPICS
            continue
        if role.upper() not in Right.__members__ or role != role.lower():
            allowed = ", ".join(name.lower() for name in Right.__members__)
            raise ConfigurationError(f"role {role!r}: must be one of {allowed}, topic:<name>")
        rights |= Right[role.upper()]
    return rights


def check_topic_role(role: str) -> None:
    """Raise ConfigurationError unless the role is `topic:` and a topic, or the beginning of topics followed by `*`."""
    if _TOPIC_PATTERN.fullmatch(role.removeprefix(TOPIC_ROLE)) is None:
        raise ConfigurationError(
            f"role {role!r}: after topic: must come the name of a topic (letters, digits, '.', '_', '-'), or the "
            "beginning of names and *, such as topic:desk7.*"
        )


def topics_of_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that roles name: all with `topics`, otherwise what follows `topic:`."""
    named = tuple(roles)
    if Right.TOPICS.name.lower() in named:
        return ALL_TOPICS
    return tuple(role.removeprefix(TOPIC_ROLE) for role in named if role.startswith(TOPIC_ROLE))


def has_topic(patterns: Iterable[str], topic: str) -> bool:
    """Return whether a topic is among the named ones.

    A name that ends in `*` stands for all topics that begin like it.
    """
    return any(topic.startswith(pattern[:-1]) if pattern.endswith("*") else topic == pattern for pattern in patterns)


class SessionProxy(Protocol):
    """What an authenticator may do with a session that asks to be opened."""

    @property
    def session_id(self) -> int:
        """The session's id, drawn at random for each request."""

    @property
    def key_name(self) -> str:
        """The name of the key that its client encrypts with; empty where datagrams are not encrypted."""

    def challenge(self, encoded_challenge: bytes) -> None:
        """Ask the client to answer; the answer comes through `on_challenge_response`."""

    def authenticate(self, encoded_principal: bytes) -> None:
        """Let the session in, under a principal of at most PRINCIPAL_LENGTH_BYTES_MAX bytes."""

    def reject(self) -> None:
        """Refuse the session, and tell its client so."""


class Authenticator(Protocol):
    """A policy that decides about sessions.

    It is called on the leader, once per slow tick for each session that waits, until it decides; for operators on
    any member, where a challenge is a refusal.

    It runs on the node's own thread, where nothing may take long: a slow check delays heartbeats.
    """

    def on_connect_request(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        """Take the credentials of a client that asks for a session; the decision is given later, through a proxy."""

    def on_challenge_response(self, session_id: int, encoded_credentials: bytes, now_ms: int) -> None:
        """Take a client's answer to its challenge."""

    def on_connected_session(self, proxy: SessionProxy, now_ms: int) -> None:
        """Challenge, let in or reject a session whose client can be reached now."""

    def on_challenged_session(self, proxy: SessionProxy, now_ms: int) -> None:
        """Let in or reject a session that was challenged, and has perhaps answered."""

    def rights_of(self, encoded_principal: bytes) -> Right:
        """Return what the sessions of a principal may do; asked on every member, so it must return the same on all."""

    def topics_of(self, encoded_principal: bytes) -> tuple[str, ...]:
        """Return the topics that a principal with Right.TOPICS may read.

        `desk7.*` stands for all that begin with `desk7.`.
        """


def key_name_of(source_identity: str) -> str:
    """Return the name of the key in the source identity of a stream; empty if it is not encrypted."""
    return source_identity.partition(KEY_NAME_MARK)[2]


class AcceptAll:
    """The default authenticator, which lets every session in with an empty principal."""

    checks_credentials = False

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

    def topics_of(self, encoded_principal: bytes) -> tuple[str, ...]:
        return ALL_TOPICS
