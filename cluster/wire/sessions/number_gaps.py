"""Gaps in the numbers of a client's messages, as rows in messages and snapshots: first number, number after the gap."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_GAP = struct.Struct("<qq")


def encode_gaps(gaps: Iterable[tuple[int, int]]) -> bytes:
    """Return a row for each gap."""
    return b"".join(_GAP.pack(*gap) for gap in gaps)


def decode_gaps(data: bytes) -> list[tuple[int, int]]:
    """Return what `encode_gaps` has made; a cut row at the end is left out."""
    return list(_GAP.iter_unpack(data[: len(data) // _GAP.size * _GAP.size]))
