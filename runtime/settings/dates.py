"""Dates and times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ordo.runtime.native.cluster_time import TimeUnit, timestamp_of_ns
from ordo.runtime.native.time_units import MICROSECOND_NS

_NUMBER = re.compile(r"([0-9]{1,19})(ms|us|ns)")
_BEYOND_MICROSECONDS = re.compile(r"\.[0-9]{6}([0-9]{1,3})(?![0-9])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_date_ns(text: str) -> int | None:
    """Return nanoseconds since 1970 of a date and time with its offset; None for another text."""
    rest = _BEYOND_MICROSECONDS.search(text)
    try:
        found = datetime.fromisoformat(text if rest is None else text[: rest.start(1)] + text[rest.end(1) :])
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    nanoseconds = 0 if rest is None else int(rest.group(1).ljust(3, "0"))
    return (found - _EPOCH) // _MICROSECOND * MICROSECOND_NS + nanoseconds


def parse_time(text: str) -> int | None:
    """Return the time of a date as `parse_date_ns` takes it, or of a number such as 1772366400000ms, or us or ns.

    It is a timestamp whose size tells its unit (ordo.runtime.native.cluster_time). None for another text.
    """
    number = _NUMBER.fullmatch(text)
    found_ns = parse_date_ns(text) if number is None else TimeUnit.named(number[2]).to_ns(int(number[1]))
    return None if found_ns is None else timestamp_of_ns(found_ns)
