"""Appends as a door sends them to the service, formed here in plain Python from payloads."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ordo.gateway.kafka.service.orders import Append, encode_parts
from ordo.gateway.kafka.service.payloads import unpack_payloads


def parts_of(payloads: Sequence[bytes], bytes_max: int) -> list[tuple[int, bytes]]:
    """Return payloads with their lengths, in parts of at most so many bytes, or of one payload."""
    parts: list[tuple[int, bytes]] = []
    for one in payloads:
        packed = len(one).to_bytes(4, "little") + one
        if parts and len(parts[-1][1]) + len(packed) <= bytes_max:
            parts[-1] = parts[-1][0] + 1, parts[-1][1] + packed
        else:
            parts.append((1, packed))
    return parts


def encode_appends(append: Append, bytes_max: int) -> list[bytes]:
    """Return the orders of an append; one that has no payloads is none that a door sends."""
    parts = parts_of(append.payloads, bytes_max) or [(0, b"")]
    return list(encode_parts(append.topic, append[1:4], parts))


def encode_append(append: Append) -> bytes:
    """Return an append as one order."""
    (order,) = encode_appends(append, sys.maxsize)
    return order


def payloads_in(parts: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """Return the payloads of parts of a batch."""
    found: list[bytes] = []
    for count, packed in parts:
        payloads, end = unpack_payloads(packed, 0)
        assert len(payloads) == count and end == len(packed)
        found += payloads
    return found
