"""The names that consumers and groups of applications may have, and the key that tells a consumer's members apart."""

from __future__ import annotations

from ordo.cluster.wire.sessions.consumer_codec import NAME
from ordo.cluster.wire.sessions.instance_codec import GROUP_BYTES_MAX
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.random import RandomSource

MEMBER_KEY_MAX = 2**62


def draw_member_key() -> int:
    """Return a random number that no other process has."""
    return RandomSource().secret("consumers").randint(1, MEMBER_KEY_MAX)


def check_name(name: str) -> None:
    """Raise ConfigurationError for a name that no consumer may have."""
    if NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"consumer name {name!r}: allowed are 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first"
        )


def check_group(group: str) -> None:
    """Raise ConfigurationError for what no group may be called."""
    if not group or len(group.encode()) > GROUP_BYTES_MAX:
        raise ConfigurationError(f"group={group!r}: must be 1 to {GROUP_BYTES_MAX} bytes long")
