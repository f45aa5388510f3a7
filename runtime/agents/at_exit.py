"""What ends with the interpreter: threads that would meet what it has taken down already."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import partial

from ordo.runtime.agents.use import Origin


def end_at_exit(end: Callable[[], object]) -> Callable[[], object]:
    """Have `end` called when the interpreter ends, in this process and not in its forks.

    Returns what takes that back. Threads that are to end in a certain order are registered in the opposite one.
    """
    origin = Origin("at exit")

    def end_here() -> None:
        if not origin.is_forked:
            end()

    atexit.register(end_here)
    return partial(atexit.unregister, end_here)
