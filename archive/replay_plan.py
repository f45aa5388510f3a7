"""A replay request that was checked, before its publication exists."""

from __future__ import annotations

from typing import NamedTuple


class ReplayPlan(NamedTuple):
    """A replay that was checked. Positions and lengths in bytes."""

    recording_id: int
    position: int
    length_bytes: int | None  # None: to the stop position, following a recording that is live
    channel: str  # of the publication: continues the recording's terms at `position`
