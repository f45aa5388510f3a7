"""The identity of a log: 128 bits that every member of one cluster knows, and no other cluster has.

A log begins with the NewLeadershipTermEvent of its first leader, which has the moment and a random number, the session
of the log's publication. The identity is the hash of both, or what a ClusterIdentityEvent says.
"""

from __future__ import annotations

import hashlib
import re
import struct
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ordo.cluster.wire import records
    from ordo.cluster.wire.ordo_codecs import IdentityFields
    from ordo.runtime.sbe import Message

IDENTITY_BYTES = 16
TERM_LEAP = 1 << 20
"""At least so far behind the last term of a log is the first one of a cluster that goes on with it as another one."""
EPOCH_RECORDS_MAX = 8
"""A restored, recovered or promoted cluster says whose its log is within this many of its records, from the first."""
PAST_ORIGINS_MAX = 16
"""A node tells its clients only the newest of the clusters whose log its own was before, at most this many."""
_FIRST_RECORD = struct.Struct("<qqqii")
_IDENTITY = struct.Struct("<qq")
_ORIGIN = struct.Struct(f"<{IDENTITY_BYTES}sq")


class Origin(NamedTuple):
    """Which cluster's log a member has: a random number that every member of that cluster knows."""

    identity: bytes
    position: int
    """From here on the log has it."""

    def __str__(self) -> str:
        return self.identity.hex()[:12]


class IdentityNumbers(TypedDict):
    """An identity as the two fields of a message."""

    identity_high: int
    identity_low: int


class LogIdentity(NamedTuple):
    """What a ClusterIdentityEvent of the log said, and where."""

    position: int
    identity: bytes


def pack_identity(values: IdentityFields) -> bytes:
    """Return the identity from the two numbers of a message; empty if there is none."""
    high, low = values.identity_high, values.identity_low
    return b"" if high == low == 0 else _IDENTITY.pack(high, low)


def unpack_identity(identity: bytes) -> IdentityNumbers:
    """Return the identity as the two fields of a message; both 0 for none."""
    high, low = _IDENTITY.unpack(identity) if identity else (0, 0)
    return {"identity_high": high, "identity_low": low}


def begin_of_identity(values: records.ClusterIdentityEvent, record_position: int) -> int:
    """Return from where on a log has the identity that a record of it names: from that record, or where it says.

    A restored log is another one from its first own record on, however many of them come before this one.
    """
    return int(values.log_position) if 0 <= values.log_position <= record_position else record_position


def is_first_record(table: Message, values: Any) -> bool:
    """Return whether a record is the one that the log began with."""
    return table is codecs.NEW_LEADERSHIP_TERM_EVENT and values.term_base_log_position == 0


def identity_of(values: records.NewLeadershipTermEvent) -> bytes:
    """Return the identity of a log with this first record."""
    row = _FIRST_RECORD.pack(
        values.leadership_term_id,
        values.log_position,
        values.timestamp,
        values.leader_member_id,
        values.log_session_id,
    )
    return hashlib.blake2b(row, digest_size=IDENTITY_BYTES).digest()


def find_origin(record: bytes) -> Origin | None:
    """Return the origin of a log that begins with a record; None if that is no leader's first record."""
    found = codecs.decode(record)
    if found is None or not is_first_record(*found):
        return None
    return Origin(identity_of(found[1]), found[1].log_position)


class Log(NamedTuple):
    """What a member, or who reads a log, knows of it."""

    identity: bytes
    """Empty: it has not come to it."""
    position: int
    """Where the identity begins; without one: from where on the log was read."""
    executed_position: int
    """Up to here it is committed, and read."""

    def __str__(self) -> str:
        return self.identity.hex()[:12] or "none"


def are_of_two_clusters(one: Log, other: Log) -> bool:
    """Return whether two logs cannot be one, by the identities that they have, and how far they were read.

    Where they differ, or one has none, it counts only if that one was read up to where the newer identity begins: what
    has not come so far may get it still.
    """
    if one.identity == other.identity:
        return False
    if one.identity and other.identity:
        older, newer = sorted((one, other), key=lambda log: log.position)
        return max(older.executed_position, older.position) >= newer.position
    lacking, known = (other, one) if one.identity else (one, other)
    return lacking.position < known.position <= lacking.executed_position


def epoch_bases(terms: Sequence[tuple[int, int]]) -> list[int]:
    """Return where a log was gone on with as another cluster's, by its terms (id, base position), oldest first."""
    return [base for (before, _), (term_id, base) in pairwise(terms) if term_id - before >= TERM_LEAP]


def identity_at(position: int, terms: Sequence[tuple[int, int]], origins: Iterable[Origin]) -> bytes:
    """Return whose log a log was where a record of it ends; empty if that is not known.

    `terms` are all of the log's, and `origins` those that are known. What a log is between two places where it was gone
    on with as another one's is one cluster's, whichever of its records says so. Where a leader drew an identity, since
    it did not know the one of the first record, the log has that one from its record on alone.
    """
    if terms and position <= terms[0][1]:
        return b""  # terms are lacking: an older place would not be seen
    bases = epoch_bases(terms)
    begin = max((one for one in bases if one < position), default=-1)
    end = min((one for one in bases if one >= position), default=None)
    within = [one for one in origins if begin < one.position and (end is None or one.position <= end)]
    said = max((one for one in within if one.position <= position), key=lambda one: one.position, default=None)
    found = said or min(within, key=lambda one: one.position, default=None)
    return b"" if found is None else found.identity


def read_origins(
    terms: Sequence[tuple[int, int]], start_position: int, records: Callable[[int], Iterator[tuple[int, bytes]]]
) -> list[Origin]:
    """Return what a log says of whose it is, where it was gone on with as another cluster's after its start.

    `records` yields where each record behind a position ends, and the record.
    """
    found = []
    for base in epoch_bases(terms):
        if base < start_position:
            continue
        for position, record in islice(records(base), EPOCH_RECORDS_MAX):
            decoded = ordo_codecs.decode_any(record)
            if decoded is not None and decoded[0] is ordo_codecs.CLUSTER_IDENTITY_EVENT:
                found.append(Origin(pack_identity(decoded[1]), begin_of_identity(decoded[1], position)))
                break
    return found


def told_log(values: Any) -> Log | None:
    """Return a node's log identity from its LogIdentity; None if the message is invalid."""
    if values is None or values.identity_position < 0 or values.executed_position < 0:
        return None
    identity = pack_identity(values)
    return Log(identity, values.identity_position, values.executed_position) if identity else None


def pack_past(origins: Iterable[Origin]) -> bytes:
    """Return the clusters whose log a log was, as a LogIdentity has them: oldest first, the newest alone if many."""
    newest = sorted(origins, key=lambda one: one.position)[-PAST_ORIGINS_MAX:]
    return b"".join(_ORIGIN.pack(*one) for one in newest)


def told_past(values: records.LogIdentity | None) -> list[Origin]:
    """Return the clusters whose log a node's was before, from its LogIdentity; none if it says none, or no valid ones.

    A node may not know all of them.
    """
    past = b"" if values is None else values.past
    if len(past) % _ORIGIN.size or len(past) > PAST_ORIGINS_MAX * _ORIGIN.size:
        return []
    return [Origin(*one) for one in _ORIGIN.iter_unpack(past)]


def told_beginning(values: records.LogIdentity | None) -> Origin | None:
    """Return what a LogIdentity says of a log that has not said its identity yet: what its first record says, or None.

    Such a message has no executed position.
    """
    if values is None or values.identity_position < 0 or values.executed_position != NULL_VALUE:
        return None
    identity = pack_identity(values)
    return Origin(identity, values.identity_position) if identity else None


def identity_text(origin: Origin) -> str:
    """Return an identity as files and outside programs keep it: its digits, and where it begins."""
    return f"{origin.identity.hex()}@{origin.position}"


def parse_identity(text: str) -> Origin:
    """Return what `identity_text` wrote. Raises ConfigurationError."""
    digits, _, position = text.partition("@")
    if not re.fullmatch(f"[0-9a-f]{{{2 * IDENTITY_BYTES}}}", digits) or not re.fullmatch(r"[0-9]{1,18}", position):
        raise ConfigurationError(
            f"{text[:100]!r} names no cluster: allowed are {2 * IDENTITY_BYTES} hexadecimal digits, @ and a position, "
            "as a reader's `cluster` says it"
        )
    return Origin(bytes.fromhex(digits), int(position))
