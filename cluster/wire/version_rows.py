"""Which code members have, as rows of fixed length in messages between containers, members and tools."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

from runtime.errors import DecodeError

HANDS_OVER = 1
"""The code can give its state to that of another version: it implements on_take_snapshot."""
HASHES = 2
"""The code gives hashes of its state: it implements state_hash."""
ROWS_MAX = 256
_CODE = struct.Struct("<ii")
_MEMBER = struct.Struct("<iiiqi")
_LEVEL = struct.Struct("<ii")
LEVEL_UNKNOWN = -1


class Code(NamedTuple):
    """One version that a container has."""

    app_version: int
    flags: int


class MemberCode(NamedTuple):
    """One version that a member has; a member with none, or that has not said, has one row with `app_version` 0."""

    member_id: int
    is_voter: int
    app_version: int
    lack_position: int
    """Where its service stands still for want of `lack_version`; -1: it does not."""
    lack_version: int


class MemberLevel(NamedTuple):
    """The protocol level that a member's release knows; LEVEL_UNKNOWN where it has not said."""

    member_id: int
    level: int


def encode_codes(codes: Iterable[Code]) -> bytes:
    return b"".join(_CODE.pack(*code) for code in codes)


def decode_codes(data: bytes) -> list[Code]:
    """Raises DecodeError where these are no rows, or more than any container has."""
    if len(data) % _CODE.size or len(data) > ROWS_MAX * _CODE.size:
        raise DecodeError(f"versions: {len(data)} bytes are no rows of {_CODE.size}, or more than {ROWS_MAX}")
    return [Code(*row) for row in _CODE.iter_unpack(data)]


def shared_codes(services: Sequence[Sequence[Code]]) -> list[Code]:
    """What a member has that runs these services: the versions that all of them have, and what all of them can do."""
    by_version = [{code.app_version: code.flags for code in codes} for codes in services]
    versions = set.intersection(*(set(one) for one in by_version))
    return [Code(version, reduce(and_, (one[version] for one in by_version))) for version in sorted(versions)]


def encode_members(rows: Iterable[MemberCode]) -> bytes:
    return b"".join(_MEMBER.pack(*row) for row in rows)


def decode_members(data: bytes) -> list[MemberCode]:
    """Raises DecodeError where these are no rows."""
    if len(data) % _MEMBER.size:
        raise DecodeError(f"versions: {len(data)} bytes are no rows of {_MEMBER.size}")
    return [MemberCode(*row) for row in _MEMBER.iter_unpack(data)]


def encode_levels(rows: Iterable[MemberLevel]) -> bytes:
    return b"".join(_LEVEL.pack(*row) for row in rows)


def decode_levels(data: bytes) -> list[MemberLevel]:
    """Raises DecodeError where these are no rows."""
    if len(data) % _LEVEL.size:
        raise DecodeError(f"levels: {len(data)} bytes are no rows of {_LEVEL.size}")
    return [MemberLevel(*row) for row in _LEVEL.iter_unpack(data)]
