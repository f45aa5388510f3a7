"""Dates and times as people write them."""

from __future__ import annotations

from datetime import datetime

SUFFIX_MS = "ms"


def parse_date_ms(text: str) -> int | None:
    """Return milliseconds since 1970 of a date and time with its offset; None for another text."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found.tzinfo is None else round(found.timestamp() * 1000)


def parse_time_ms(text: str) -> int | None:
    """Return milliseconds since 1970 of a date as `parse_date_ms` takes it, or of a number such as 1772366400000ms."""
    number = text.removesuffix(SUFFIX_MS)
    if number != text and number.isascii() and number.isdecimal():
        return int(number)
    return parse_date_ms(text)
