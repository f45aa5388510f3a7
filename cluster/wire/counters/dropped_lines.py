"""What a process of a node does when its log cannot be written: it counts the lines, and keeps why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ordo.runtime.reporting.log_sink import dropped_line_count, watch_drops

if TYPE_CHECKING:
    from ordo.cluster.wire.counters.component_errors import ComponentErrors
    from ordo.runtime.native.counters import Counter


@contextmanager
def counted_drops(counter: Counter | None, errors: ComponentErrors) -> Iterator[None]:
    """Count into a counter that all processes of the node share, and record the first of a row as an error.

    Both must outlive the block.
    """

    def add(count: int) -> None:
        while counter is not None and not counter.compare_and_set(before := counter.value, before + count):
            pass

    def on_drop(trouble: str, is_first: bool) -> None:
        add(1)
        if is_first:
            errors.record_text(f"lines of the log are dropped: it cannot be written: {trouble}")

    if dropped_line_count():
        add(dropped_line_count())
        errors.record_text("lines of the log are dropped: it could not be written at the start")
    watch_drops(on_drop)
    try:
        yield
    finally:
        watch_drops(None)
