"""How long processes were at work on a processor: what a contender costs, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

Groups = Mapping[str, Sequence[int]]
"""Names, and the processes that each has."""


def processor_s(pid: int) -> float:
    """Return the seconds that all threads of a process have run, those that have ended too."""
    return time.clock_gettime(~pid << 3 | 2)  # Linux: the processor clock of another process


def with_children(pid: int) -> list[int]:
    """Return a process and all that it has started, and that these have."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            with suppress(FileNotFoundError):
                found += map(int, (task / "children").read_text().split())
    return found


def seconds_of(groups: Groups) -> dict[str, float]:
    """Return the seconds that each group has run by now."""
    return {name: sum(map(processor_s, pids)) for name, pids in groups.items()}


def microseconds_each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """Return what one of `count` messages has cost each group."""
    return {name: (after[name] - before[name]) / count * 1e6 for name in before}
