"""Checks numbers that a member reports, which may be invalid."""

from __future__ import annotations

from typing import Any

INT64_MAX = (1 << 63) - 1


def parse_int64(value: Any) -> int:
    """Return the number. Raises TypeError, ValueError or OverflowError if it is not a number of 64 bits."""
    found = int(value)
    if abs(found) > INT64_MAX:
        raise ValueError(f"{str(found)[:40]} is no number of 64 bits")
    return found
