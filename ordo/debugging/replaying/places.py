"""Places of a log that a command line names: a position, a cluster time, its start or its end."""

from __future__ import annotations

from typing import NamedTuple

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.dates import parse_time

SEQUENCE_PREFIX = "sequence:"


class Place(NamedTuple):
    """One of the three, or, where there is none of them, the start or the end."""

    position: int | None = None
    timestamp: int | None = None
    is_start: bool = False
    sequence: int | None = None

    @property
    def is_end(self) -> bool:
        return self == Place()


def parse_place(text: str, option: str) -> Place:
    """Return what `POSITION|TIME|sequence:NUMBER|start|end` says. Raises ConfigurationError."""
    if text in ("start", "end"):
        return Place(is_start=text == "start")
    if text.isascii() and text.isdecimal():
        return Place(position=int(text))
    number = text.removeprefix(SEQUENCE_PREFIX)
    if number != text and number.isascii() and number.isdecimal() and int(number):
        return Place(sequence=int(number))
    found = parse_time(text)
    if found is None:
        raise ConfigurationError(
            f"{option} {text}: allowed is a position, a cluster time such as 2026-03-01T12:00:00Z (with its offset) or"
            " 1772366400000ms (us, ns), the number of a message such as sequence:1234567, start, or end"
        )
    return Place(timestamp=found)
