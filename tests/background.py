"""Work beside a test, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs `work` until the block is left: it ends when the event that it is called with is set, and is waited for."""
    has_ended = threading.Event()
    thread = threading.Thread(target=work, args=(has_ended,))
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
