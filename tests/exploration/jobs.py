"""What a process of `python -m tests.exploration` does."""

from __future__ import annotations

import resource
import time

from tests.exploration.bounds import explore, space_of
from tests.exploration.search import Report
from tests.exploration.walks import walk_often


def explore_timed(name: str, states_max: int, walks: int, is_reduced: bool) -> tuple[Report, Report, float, int]:
    """Explore some bounds, and walk in them; return both reports, the processor time in s, and the memory used."""
    begin_s = time.process_time()
    report = explore(name, states_max, is_reduced)
    walked = walk_often(space_of(name), walks)
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return report, walked, time.process_time() - begin_s, memory_bytes
