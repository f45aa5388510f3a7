"""Lengths of the parts of a snapshot that belong to the services 1, 2, ..., as a SnapshotOffer has them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ordo.cluster.wire.streams import SERVICES_MAX
from ordo.runtime.errors import DecodeError

_I64 = struct.Struct("<q")


def pack_lengths(lengths: Iterable[int]) -> bytes:
    return b"".join(map(_I64.pack, lengths))


def unpack_lengths(row: bytes) -> list[int]:
    """Raise DecodeError."""
    if len(row) % _I64.size or len(row) >= SERVICES_MAX * _I64.size:
        raise DecodeError(f"SnapshotOffer: more_lengths of {len(row)} bytes")
    found = [length for (length,) in _I64.iter_unpack(row)]
    if any(length < 0 for length in found):
        raise DecodeError(f"SnapshotOffer: more_lengths={found}")
    return found
