"""Which code members have, as rows of fixed length in messages between containers, members and tools."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

from ordo.cluster.wire.app_version import NO_VERSION
from ordo.runtime.errors import DecodeError

HANDS_OVER = 1
"""The code can give its state to that of another version: it implements on_take_snapshot."""
HASHES = 2
"""The code gives hashes of its state: it implements state_hash."""
CONVERTS_TIME = 4
"""The code converts the times of its state where the log's unit changes: it implements on_time_unit."""
ROWS_MAX = 256
_CODE = struct.Struct("<ii")
_MEMBER = struct.Struct("<iiiqi")
_SERVICE = struct.Struct("<iiiqii")
_IN_FORCE = struct.Struct("<iq")
_LEVEL = struct.Struct("<ii")
LEVEL_UNKNOWN = -1


class Code(NamedTuple):
    """One version that a container has."""

    app_version: int
    flags: int


class MemberCode(NamedTuple):
    """One version that a service of a member has.

    One with none, or that has not said, has one row with `app_version` 0.
    """

    member_id: int
    is_voter: int
    app_version: int
    lack_position: int
    """Where the service stands still for want of `lack_version`; -1: it does not."""
    lack_version: int
    service_id: int = 0
    """Not in rows that are of what all services of a member have."""


class InForce(NamedTuple):
    """The version of a service that is in force; NO_VERSION while the log is empty."""

    app_version: int
    since_position: int
    """-1: since before the snapshot that the member started from."""


class MemberLevel(NamedTuple):
    """The protocol level that a member's release knows; LEVEL_UNKNOWN if it has not reported it."""

    member_id: int
    level: int


def encode_codes(codes: Iterable[Code]) -> bytes:
    return b"".join(_CODE.pack(*code) for code in codes)


def decode_codes(data: bytes) -> list[Code]:
    """Raise DecodeError where these are no rows, or more than any container has."""
    if len(data) % _CODE.size or len(data) > ROWS_MAX * _CODE.size:
        raise DecodeError(f"versions: {len(data)} bytes are no rows of {_CODE.size}, or more than {ROWS_MAX}")
    return [Code(*row) for row in _CODE.iter_unpack(data)]


def shared_codes(services: Sequence[Sequence[Code]]) -> list[Code]:
    """Return the codes that all of these services have.

    The versions that all of them have, and what all of them can do.
    """
    by_version = [{code.app_version: code.flags for code in codes} for codes in services]
    versions = set.intersection(*(set(one) for one in by_version))
    return [Code(version, reduce(and_, (one[version] for one in by_version))) for version in sorted(versions)]


def shared_rows(rows: Sequence[MemberCode]) -> list[MemberCode]:
    """Return the versions that all services of a member have, and where the first of them is halted.

    What releases say, and show, in which one version is in force for all services.
    """
    by_member: dict[int, list[MemberCode]] = {}
    for row in rows:
        by_member.setdefault(row.member_id, []).append(row)
    return [row for found in by_member.values() for row in _shared_rows(found)]


def _shared_rows(rows: list[MemberCode]) -> list[MemberCode]:
    """Return the rows of one member that all its services share."""
    codes: dict[int, list[Code]] = {}
    for row in rows:
        codes.setdefault(row.service_id, []).append(Code(row.app_version, 0))
    first = min(rows, key=lambda row: (row.lack_position < 0, row.lack_position))._replace(service_id=0)
    shared = [code.app_version for code in shared_codes(list(codes.values()))]
    return [first._replace(app_version=number) for number in shared or [NO_VERSION]]


def encode_members(rows: Iterable[MemberCode]) -> bytes:
    return b"".join(_MEMBER.pack(*row[:-1]) for row in rows)


def decode_members(data: bytes) -> list[MemberCode]:
    """Raise DecodeError where these are no rows."""
    return [MemberCode(*row) for row in _rows(_MEMBER, data)]


def encode_services(rows: Iterable[MemberCode]) -> bytes:
    """Return the rows encoded like those of `encode_members`, with the services' ids."""
    return b"".join(_SERVICE.pack(*row) for row in rows)


def decode_services(data: bytes) -> list[MemberCode]:
    """Raise DecodeError where these are no rows."""
    return [MemberCode(*row) for row in _rows(_SERVICE, data)]


def encode_in_force(rows: Iterable[InForce]) -> bytes:
    """Encode rows in order of service id."""
    return b"".join(_IN_FORCE.pack(*row) for row in rows)


def decode_in_force(data: bytes) -> list[InForce]:
    """Raise DecodeError where these are no rows."""
    return [InForce(*row) for row in _rows(_IN_FORCE, data)]


def _rows(row: struct.Struct, data: bytes, what: str = "versions") -> Iterator[tuple[int, ...]]:
    if len(data) % row.size:
        raise DecodeError(f"{what}: {len(data)} bytes are no rows of {row.size}")
    return row.iter_unpack(data)


def encode_levels(rows: Iterable[MemberLevel]) -> bytes:
    return b"".join(_LEVEL.pack(*row) for row in rows)


def decode_levels(data: bytes) -> list[MemberLevel]:
    """Raise DecodeError where these are no rows."""
    return [MemberLevel(*row) for row in _rows(_LEVEL, data, "levels")]
