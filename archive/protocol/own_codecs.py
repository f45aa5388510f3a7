"""What a node's archive tells clients of Ordo beside the control protocol, in schema 901 (ordo-messages.md).

Clients of Aeron would take a message of another schema for an error, so they are told nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ordo.archive.protocol import codecs
from ordo.runtime.sbe import Message

SCHEMA_ID = 901
SCHEMA_VERSION = 1
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
    ],
)
"""In a session with an archive or with a cluster: which cluster's log is there. `correlation_id`: of the request that
it is sent before the answer to; `identity_position`: from here on the log has the identity; `executed_position`: up to
here this node has read it."""
CLIENT_SCHEMAS = {**codecs.SCHEMAS, SCHEMA_ID: {LOG_IDENTITY.template_id: LOG_IDENTITY}}
"""What clients of an archive decode."""


class ToldIdentity(NamedTuple):
    """Which cluster's log a node has, as it tells readers."""

    identity_high: int
    identity_low: int
    identity_position: int
    executed_position: int


def is_of_ordo(client_info: str) -> bool:
    """Return whether a client, of an archive or a cluster, that describes itself so understands schema 901."""
    return not {f"implementation={IMPLEMENTATION}", f"commit={IMPLEMENTATION}"}.isdisjoint(client_info.split())
