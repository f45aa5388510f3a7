"""A door's file descriptors, shared out by purpose, so that callers do not take those of sessions and readers."""

from __future__ import annotations

from typing import NamedTuple

from ordo.runtime.errors import ConfigurationError

DESCRIPTORS_OF_GATEWAY = 128
"""Its own files, its driver's sockets but those of sessions, and its looks at members."""
DESCRIPTORS_OF_SESSION = 2
DESCRIPTORS_OF_VISIT = 16
"""Descriptors of a subscription, of a call that reads recordings, of a watched token: a driver each, and sockets."""
WATCHES_MAX = 8
"""The number of tokens with which people may watch at the console at once."""
CONSOLE_CONNECTIONS_MAX = 256
CALLER_CONNECTIONS_MAX = 16_384
CALLER_CONNECTIONS_MIN = 16


def connections_left(limit: int, own: int, reserved: str, options: str) -> int:
    """Return how many connections a process may have that may open `limit` files and itself needs `own` of them.

    Raises ConfigurationError where too few are left, saying for what they are reserved and which options lower it.
    """
    if limit - own < CALLER_CONNECTIONS_MIN:
        raise ConfigurationError(
            f"this process may open {limit} files, and its {reserved} may need {own} of them: raise the limit "
            f"(ulimit -n), or lower {options}"
        )
    return limit - own


class DescriptorShares(NamedTuple):
    """How many connections each door takes."""

    callers: int
    console: int


def share_out(limit: int, sessions: int, visits: int) -> DescriptorShares:
    """Return the shares of a process that may open `limit` files, for this many sessions and visits at once.

    A quarter of what these leave is for connections to the console, at most 256, the rest for those of gRPC callers.
    Raises ConfigurationError where too few are left for callers.
    """
    own = DESCRIPTORS_OF_GATEWAY + DESCRIPTORS_OF_SESSION * sessions + DESCRIPTORS_OF_VISIT * visits
    options = "--sessions-max, --subscriptions-max or --archive-calls-max"
    left = connections_left(limit, own, "sessions and subscriptions", options)
    console = min(CONSOLE_CONNECTIONS_MAX, left // 4)
    return DescriptorShares(min(CALLER_CONNECTIONS_MAX, left - console), console)
