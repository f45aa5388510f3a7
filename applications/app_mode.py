"""How the instances of an application share the work: an option of the command line, without other imports."""

from __future__ import annotations

from enum import StrEnum


class AppMode(StrEnum):
    """How the instances of a group divide the writing."""

    ACTIVE_ACTIVE = "active-active"
    """All write, and the first copy of each output counts."""
    ACTIVE_PASSIVE = "active-passive"
    """One writes; the others follow, and one of them takes over."""
    CANARY = "canary"
    """This instance never writes; its outputs are compared with the group's."""
