"""The data after the fixed fields of a message of Ordo's own, up to its end."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ordo.cluster.wire.codecs import HEADER_LENGTH_BYTES

_BLOCK = struct.Struct("<H")


def tail_of(message: bytes) -> bytes:
    """Return everything after the fields of a decoded message, which is as long as its header says."""
    return message[HEADER_LENGTH_BYTES + _BLOCK.unpack_from(message)[0] :]


def split_tail(message: bytes, lengths: Sequence[int]) -> list[bytes] | None:
    """Return the parts after the fields, of these lengths in bytes, none below 0; None where they are not the whole."""
    tail = tail_of(message)
    if sum(lengths) != len(tail):
        return None
    ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
    return [tail[end - length : end] for end, length in zip(ends, lengths, strict=True)]
