"""What a node's archive tells clients of Ordo beside the control protocol, in schema 901 (ordo-messages.md).

Clients of Aeron would take a message of another schema for an error, so they are told nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from ordo.archive.protocol import codecs
from ordo.runtime.sbe import Message

SCHEMA_ID = 901
SCHEMA_VERSION = 3
IMPLEMENTATION = "ordo"

LOG_IDENTITY: Message[Any] = Message(
    "LogIdentity",
    85,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[
        ("session_id", "i64"),
        ("correlation_id", "i64"),
        ("identity_high", "i64"),
        ("identity_low", "i64"),
        ("identity_position", "i64"),
        ("executed_position", "i64"),
        ("has_index", "i32", 2),
        ("knows_past", "i32", 3),
    ],
    data=[("past", "bytes", 3)],
)
"""In a session with an archive or with a cluster: which cluster's log is there. `correlation_id`: of the request that
it is sent before the answer to; `identity_position`: from here on the log has the identity; `executed_position`: up to
here this node has read it; `has_index`: it answers FindLogPlace; `knows_past`: it answers FindPastIdentity; `past`: the
clusters whose log it was before, as `log_identity.pack_past` has them."""


class FindLogPlaceFields(Protocol):
    """The fields of a FindLogPlace."""

    control_session_id: int
    correlation_id: int
    kind: int
    value: int


class LogPlaceFields(Protocol):
    """The fields of a LogPlace."""

    control_session_id: int
    correlation_id: int
    position: int
    sequence: int
    timestamp: int
    is_kept: int


FIND_LOG_PLACE: Message[FindLogPlaceFields] = Message(
    "FindLogPlace",
    87,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[("control_session_id", "i64"), ("correlation_id", "i64"), ("kind", "i32"), ("value", "i64")],
)
"""A client asks a node's archive where the log has the message of a number, or the first record of a time."""
LOG_PLACE: Message[LogPlaceFields] = Message(
    "LogPlace",
    88,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[
        ("control_session_id", "i64"),
        ("correlation_id", "i64"),
        ("position", "i64"),
        ("sequence", "i64"),
        ("timestamp", "i64"),
        ("is_kept", "i32"),
    ],
)
"""The answer: a record begins there, after the message with this number and before the one that was asked for; or it is
the first record of the time. `position` -1: the node cannot tell."""


class FindPastIdentityFields(Protocol):
    """The fields of a FindPastIdentity."""

    control_session_id: int
    correlation_id: int
    position: int


class PastIdentityFields(Protocol):
    """The fields of a PastIdentity."""

    control_session_id: int
    correlation_id: int
    identity_high: int
    identity_low: int


FIND_PAST_IDENTITY: Message[FindPastIdentityFields] = Message(
    "FindPastIdentity",
    89,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[("control_session_id", "i64"), ("correlation_id", "i64"), ("position", "i64")],
)
"""A client asks a node's archive whose log its log was where a record of it ends."""
PAST_IDENTITY: Message[PastIdentityFields] = Message(
    "PastIdentity",
    90,
    SCHEMA_ID,
    SCHEMA_VERSION,
    fields=[
        ("control_session_id", "i64"),
        ("correlation_id", "i64"),
        ("identity_high", "i64"),
        ("identity_low", "i64"),
    ],
)
"""The answer: the identity that the log had there; both 0: the node does not know it, or its log ends before."""
ANSWERS = {FIND_LOG_PLACE: LOG_PLACE, FIND_PAST_IDENTITY: PAST_IDENTITY}
"""The messages that answer requests of Ordo's own."""
CLIENT_SCHEMAS = {
    **codecs.SCHEMAS,
    SCHEMA_ID: {one.template_id: one for one in (LOG_IDENTITY, LOG_PLACE, PAST_IDENTITY)},
}
"""What clients of an archive decode."""
REQUEST_SCHEMAS = {
    **codecs.SCHEMAS,
    SCHEMA_ID: {one.template_id: one for one in (FIND_LOG_PLACE, FIND_PAST_IDENTITY)},
}
"""What an archive decodes."""


class PlaceKind(IntEnum):
    """What a FindLogPlace asks for."""

    SEQUENCE = 0
    TIME = 1


class ToldPlace(NamedTuple):
    """What a node answers to FindLogPlace."""

    position: int
    sequence: int
    timestamp: int
    is_kept: bool


class PlaceFinder(Protocol):
    """Finds places of a node's log."""

    @property
    def is_there(self) -> bool:
        """Whether there is an index to look into."""

    def find(self, kind: PlaceKind, value: int) -> ToldPlace | None:
        """Return where the log has a number or a time; None where the node cannot tell."""


class ToldIdentity(NamedTuple):
    """Which cluster's log a node has, as it tells readers."""

    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int
    has_index: int = 0
    knows_past: int = 0
    past: bytes = b""


def is_set(flag: int) -> bool:
    """Return whether a field of a message is 1; where an earlier release has sent it without, it is the null value."""
    return flag == 1


def is_of_ordo(client_info: str) -> bool:
    """Return whether a client, of an archive or a cluster, that describes itself so understands schema 901."""
    return not {f"implementation={IMPLEMENTATION}", f"commit={IMPLEMENTATION}"}.isdisjoint(client_info.split())
