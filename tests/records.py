"""Records of the wire for tests that call handlers: what a message decodes to, absent fields as null."""

from __future__ import annotations

from typing import Any

from ordo.runtime.sbe import Message, RecordT


def make_record(table: Message[RecordT], **values: Any) -> RecordT:
    """Return what a message with these fields decodes to."""
    return table.decode(table.encode(**values))
