"""What a record says that opens or closes a client's session; without Spark, for those that replay a log."""

from __future__ import annotations

import struct
from typing import Any

CLOSE_REASONS = {0: "client action", 1: "service action", 2: "timeout"}
_BODY = 8


def parse_event(kind: str, payload: bytes) -> dict[str, Any]:
    """Channel, principal and close reason of a session record, None where it has none."""
    if kind == "session_close":
        (reason,) = struct.unpack_from("<i", payload, _BODY + 24)
        return {"channel": None, "principal": None, "close_reason": CLOSE_REASONS.get(reason, str(reason))}
    (block_length,) = struct.unpack_from("<H", payload)
    texts, offset = [], _BODY + block_length
    for _ in range(2):
        (length,) = struct.unpack_from("<I", payload, offset)
        texts.append(payload[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return {"channel": texts[0].decode("ascii", "replace"), "principal": texts[1], "close_reason": None}
