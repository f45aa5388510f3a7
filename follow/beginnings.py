"""Where a reader of the log begins, if not at a position."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.cluster_time import TIMESTAMP_MAX


class AtSequence(NamedTuple):
    """With the message of a number (`header.sequence` of services), or with the next one that there is."""

    sequence: int


class AtTime(NamedTuple):
    """With the first entry of a cluster time, or of a later one: ms, us or ns since 1970, which the size tells."""

    timestamp: int


INT64_MAX = 2**63 - 1
Beginning: TypeAlias = int | Literal["live"] | AtSequence | AtTime


def check_beginning(begin: Beginning) -> None:
    """Raise ConfigurationError for a position, a number or a time that cannot be one."""
    if isinstance(begin, int) and begin > INT64_MAX:
        raise ConfigurationError(f"from_position: {begin}: allowed are positions up to {INT64_MAX}")
    if isinstance(begin, AtSequence) and not 1 <= begin.sequence <= INT64_MAX:
        raise ConfigurationError(f"from_position: {begin}: allowed are numbers from 1 to {INT64_MAX}")
    if isinstance(begin, AtTime) and not 0 <= begin.timestamp <= TIMESTAMP_MAX:
        raise ConfigurationError(f"from_position: {begin}: allowed are times from 0 to {TIMESTAMP_MAX}")
