"""Messages of any schema whose fields are near values that mean something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordo.runtime.sbe import HEADER_LENGTH, Message
from tests.fuzz.engine import Fields

Known = Mapping[str, Sequence[Any]]
"""Values by the names of fields: numbers, texts and bytes."""
UNKNOWN = (0, 1, -1, 2, 7, 64)


def fill(message: Message, fields: Fields, known: Known) -> bytes:
    """Two bytes of a step decide about each number, one about each text; without any, it is the first value known."""
    numbers, texts = message._block.fields, message._data.names
    filled = bytearray(message.encode(**{name: fields.choose(known.get(name, (b"",))) for name in texts}))
    for number in numbers:
        value = fields.near(fields.choose(known.get(number.name, UNKNOWN)))
        at, width = HEADER_LENGTH + number.offset, number.layout.size
        filled[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(filled)
