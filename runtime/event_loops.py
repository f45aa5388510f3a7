"""Objects that belong to one event loop, and who may close them."""

from __future__ import annotations

import asyncio

from ordo.runtime.errors import TransportError


def demand_own_loop(loop: asyncio.AbstractEventLoop | None, what: str) -> None:
    """Raise TransportError on a thread other than that of a running loop.

    Only that thread may touch the loop's objects.
    """
    if loop is None or not loop.is_running():
        return
    try:
        own: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        own = None
    if own is not loop:
        raise TransportError(
            f"{what}: it belongs to an event loop that another thread runs; close it there, with "
            "loop.call_soon_threadsafe(...)"
        )
