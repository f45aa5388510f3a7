"""Records that a SkipEvent of the log says are left out (docs/OPERATIONS.md, A message that stops services)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

ORDO_SCHEMA_ID, SKIP_EVENT_ID = 901, 90
_HEADER = struct.Struct("<HHHH")
_SKIPPED_POSITION = 24
_LEFT_OUT = "left out: "


def find_skips(records: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return what a service is told instead of executing the record that ends at each position.

    Of rows of kind `skip`.
    """
    found: dict[int, str] = {}
    for record in records:
        message = bytes(record["payload"])
        if len(message) < _HEADER.size:
            continue
        block_length, template_id, schema_id, _ = _HEADER.unpack_from(message)
        text_offset = _HEADER.size + block_length
        if (schema_id, template_id) != (ORDO_SCHEMA_ID, SKIP_EVENT_ID) or len(message) < text_offset + 4:
            continue
        (position,) = struct.unpack_from("<q", message, _SKIPPED_POSITION)
        (length_bytes,) = struct.unpack_from("<I", message, text_offset)
        text = message[text_offset + 4 :][:length_bytes]
        found.setdefault(position, _LEFT_OUT + text.decode("utf-8", "replace"))
    return found
