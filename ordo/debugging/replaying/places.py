"""Places of a log that a command line names: a position, a cluster time, its start or its end."""

from __future__ import annotations

from typing import NamedTuple

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.dates import parse_date_ms

TIME_SUFFIX = "ms"


class Place(NamedTuple):
    """One of the two, or, where there is neither, the start or the end."""

    position: int | None = None
    timestamp: int | None = None
    is_start: bool = False


def parse_place(text: str, option: str) -> Place:
    """Return what `POSITION|TIME|start|end` says. Raises ConfigurationError."""
    if text in ("start", "end"):
        return Place(is_start=text == "start")
    if text.isascii() and text.isdecimal():
        return Place(position=int(text))
    number = text.removesuffix(TIME_SUFFIX)
    if number != text and number.isascii() and number.isdecimal():
        return Place(timestamp=int(number))
    found = parse_date_ms(text)
    if found is None:
        raise ConfigurationError(
            f"{option} {text}: allowed is a position, a cluster time such as 2026-03-01T12:00:00Z (with its offset) or"
            " 1772366400000ms, start, or end"
        )
    return Place(timestamp=found)
