"""When Python's garbage collector looks for cycles, in the processes that are Ordo's own."""

from __future__ import annotations

import gc

COLLECTION_THRESHOLD = 100_000
"""Requests under way and a service's state are no garbage: a collection every 700 or 2,000 objects, Python's default,
walks over them again and again, which took a seventh of a gateway's time."""

_frozen_at_start = 0


def settle_collector() -> None:
    """Leave what is loaded by now out of all collections, and collect seldom from now on.

    For a program of Ordo's, before it makes what may become garbage; a library leaves its user's collector alone.
    """
    global _frozen_at_start
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD)
    _frozen_at_start = gc.get_freeze_count()


def count_frozen_by_others() -> int:
    """Return how many more objects are frozen than `settle_collector` left out; 0 where they may all be of it."""
    return max(0, gc.get_freeze_count() - _frozen_at_start)
