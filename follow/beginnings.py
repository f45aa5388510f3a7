"""Where a reader of the log begins, if not at a position."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ordo.runtime.errors import ConfigurationError


class AtSequence(NamedTuple):
    """With the message of a number (`header.sequence` of services), or with the next one that there is."""

    sequence: int


class AtTime(NamedTuple):
    """With the first entry of a cluster time, or of a later one: ms, us or ns since 1970, which the size tells."""

    timestamp: int


Beginning: TypeAlias = int | Literal["live"] | AtSequence | AtTime


def check_beginning(begin: Beginning) -> None:
    """Raise ConfigurationError for a number or a time that cannot be one."""
    if isinstance(begin, AtSequence) and begin.sequence < 1:
        raise ConfigurationError(f"from_position: {begin}: allowed are numbers from 1 on")
    if isinstance(begin, AtTime) and begin.timestamp < 0:
        raise ConfigurationError(f"from_position: {begin}: allowed are times from 0 on")
