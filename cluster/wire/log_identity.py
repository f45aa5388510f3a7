"""The identity of a log: 128 bits that every member of one cluster knows, and no other cluster has.

A log begins with the NewLeadershipTermEvent of its first leader, which has the moment and a random number, the session
of the log's publication. The identity is the hash of both, or what a ClusterIdentityEvent says.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.wire import codecs

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.cluster.wire.ordo_codecs import IdentityFields
    from ordo.runtime.sbe import Message

IDENTITY_BYTES = 16
_FIRST_RECORD = struct.Struct("<qqqii")
_IDENTITY = struct.Struct("<qq")


class Origin(NamedTuple):
    """Which cluster's log a member has: a random number that every member of that cluster knows."""

    identity: bytes
    position: int
    """From here on the log has it."""

    def __str__(self) -> str:
        return self.identity.hex()[:12]


class LogIdentity(NamedTuple):
    """What a ClusterIdentityEvent of the log said, and where."""

    position: int
    identity: bytes


def pack_identity(values: IdentityFields) -> bytes:
    """Return the identity that a message has as two numbers; empty where it has none."""
    high, low = values.identity_high, values.identity_low
    return b"" if high == low == 0 else _IDENTITY.pack(high, low)


def unpack_identity(identity: bytes) -> dict[str, int]:
    """As the two fields of a message; both 0 for none."""
    high, low = _IDENTITY.unpack(identity) if identity else (0, 0)
    return {"identity_high": high, "identity_low": low}


def is_first_record(table: Message, values: Any) -> bool:
    """Return whether a record is the one that the log began with."""
    return table is codecs.NEW_LEADERSHIP_TERM_EVENT and values.term_base_log_position == 0


def identity_of(values: records.NewLeadershipTermEvent) -> bytes:
    """Of a log whose first record says this."""
    row = _FIRST_RECORD.pack(
        values.leadership_term_id,
        values.log_position,
        values.timestamp,
        values.leader_member_id,
        values.log_session_id,
    )
    return hashlib.blake2b(row, digest_size=IDENTITY_BYTES).digest()


def find_origin(record: bytes) -> Origin | None:
    """Of a log that begins with a record; None where that is no leader's first one."""
    found = codecs.decode(record)
    if found is None or not is_first_record(*found):
        return None
    return Origin(identity_of(found[1]), found[1].log_position)
