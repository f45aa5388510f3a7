"""How the instances of an application share the work: a choice of the command line, which needs no more than this."""

from __future__ import annotations

from enum import StrEnum


class AppMode(StrEnum):
    """How the instances of a group divide the writing."""

    ACTIVE_ACTIVE = "active-active"
    """All write, and the first copy of each output counts."""
    ACTIVE_PASSIVE = "active-passive"
    """One writes; the others follow, and one of them takes over."""
    CANARY = "canary"
    """Of this instance alone: it never writes, and is compared with what the group wrote."""
