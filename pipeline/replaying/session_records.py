"""What a record says that opens or closes a client's session; without Spark, for those that replay a log."""

from __future__ import annotations

import struct

CLOSE_REASONS = {0: "client action", 1: "service action", 2: "timeout"}
_BODY = 8


def parse_event(kind: str, payload: bytes) -> dict[str, object]:
    """Channel, principal and close reason of a session record, None where it has none."""
    if kind == "session_close":
        (reason,) = struct.unpack_from("<i", payload, _BODY + 24)
        return {"channel": None, "principal": None, "close_reason": CLOSE_REASONS.get(reason, str(reason))}
    channel, principal = parse_open(payload)
    return {"channel": channel, "principal": principal, "close_reason": None}


def parse_open(payload: bytes) -> tuple[str, bytes]:
    """Return the channel and the principal of a record that opens a session."""
    (block_length,) = struct.unpack_from("<H", payload)
    texts, offset = [], _BODY + block_length
    for _ in range(2):
        (length,) = struct.unpack_from("<I", payload, offset)
        texts.append(payload[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return texts[0].decode("ascii", "replace"), texts[1]
