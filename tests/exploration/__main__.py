"""Explores: `python -m tests.exploration --states 50000 elections log`; all bounds where none are named.

Prints what was seen of each, and for a broken rule the shortest way to it. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.exploration.abstract import COUNTS
from tests.exploration.bounds import BOUNDS
from tests.exploration.checker import CheckerMissingError, build, find_differences, run
from tests.exploration.jobs import explore_timed


def main() -> int:
    """Explore what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.exploration", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="BOUNDS", help=f"of {', '.join(BOUNDS)}")
    parser.add_argument("--states", type=int, default=5_000, help="at most so many of each (default %(default)s)")
    parser.add_argument("--walks", type=int, default=20, help="so many random walks in each (default %(default)s)")
    parser.add_argument("--whole", action="store_true", help="go on from states that others cover, too")
    parser.add_argument("--model", action="store_true", help="count the states of the model in Rust, if Rust is here")
    parser.add_argument("--jobs", type=int, default=1, help="in so many processes (default %(default)s)")
    options = parser.parse_args()
    names = options.names or list(BOUNDS)
    if unknown := sorted(set(names) - set(BOUNDS)):
        parser.error(f"{', '.join(unknown)}: not among {', '.join(BOUNDS)}")
    broken, total = 0, 0
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        job = partial(explore_timed, states_max=options.states, walks=options.walks, is_reduced=not options.whole)
        reports = pool.map(job, names)
        for name, (report, walked, took_s, memory_bytes) in zip(names, reports, strict=True):
            total += report.states
            print(
                f"{name}: {report.describe()}; {walked.steps} steps of walks, {took_s:.1f} s, {memory_bytes >> 20} MiB",
                flush=True,
            )
            broken += bool(report.problem or walked.problem)
            for one in (report, walked):
                if one.problem:
                    print(f"  BROKEN: {one.problem}\n  after:", *one.path, sep="\n    ", flush=True)
    print(f"{total} states, {broken} of {len(names)} bounds broken")
    differences = _check_model(options.jobs) if options.model else []
    return 1 if broken or differences else 0


def _check_model(threads: int) -> list[str]:
    try:
        program = build()
    except CheckerMissingError as error:
        print(f"the model in Rust was not checked: {error}")
        return []
    lines = run(program, list(COUNTS), threads)
    differences = find_differences(lines)
    print("the model in Rust, MEMBERS-TERMS-RECORDS-CRASHES-CHANGES:", *lines, *differences, sep="\n  ")
    return differences


if __name__ == "__main__":
    sys.exit(main())
