"""Dates and times as people write them."""

from __future__ import annotations

from datetime import datetime


def parse_date_ms(text: str) -> int | None:
    """Return milliseconds since 1970 of a date and time with its offset; None for another text."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found.tzinfo is None else round(found.timestamp() * 1000)
