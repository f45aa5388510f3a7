"""`python -m tests.simulation --seeds N --first K`: runs seeds, reports what they found and how fast time went by."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation import plants
from tests.simulation.jobs import run_seeds
from tests.simulation.options import Options
from tests.simulation.reports import failure_of, faults_of, line_of, summary_of
from tests.simulation.run import run_seed

EVENTS_SHOWN = 60
UNDECIDED_SHARE_MAX = 0.005
"""Of histories that nobody knows to be linearizable, or not: with more of them the run has shown too little."""
SPEED = Options(nodes=3, clients=3, duration_ns=60_000_000_000, padding_max=200)
SPEED_MEANS_NS = 90_000_000, 60_000_000, 30_000_000
"""Between two requests of a client: about 33, 50 and 100 a virtual second, each executed by three members."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when a seed failed, or too many could not be decided; 0 when all passed."""
    options = _parse(arguments)
    if options.speed:
        return _measure()
    outcomes = []
    failed = 0
    for outcome in run_seeds(range(options.first, options.first + options.seeds), options.jobs, options.plant):
        outcomes.append(outcome)
        if options.verbose or options.seeds == 1:
            print(line_of(outcome), flush=True)
        if outcome.violation is not None:
            failed += 1
            print(failure_of(outcome, options.plant, options.events), flush=True)
            if not options.keep_going:
                break
        elif len(outcomes) % options.progress_every == 0:
            so_far = f", {failed} failed" if failed else ""
            print(f"{len(outcomes)} of {options.seeds} seeds{so_far}: {summary_of(outcomes)}", flush=True)
    print(f"{len(outcomes)} seeds, {failed} failed: {summary_of(outcomes)}")
    print(f"faults: {faults_of(outcomes)}")
    undecided = [outcome.seed for outcome in outcomes if not outcome.is_decided]
    if undecided:
        print(f"linearizability undecided: {len(undecided)} of {len(outcomes)} seeds: {undecided}")
    return 1 if failed or len(undecided) > UNDECIDED_SHARE_MAX * len(outcomes) else 0


def _measure() -> int:
    """Numbers to compare: a cluster without faults under fixed loads."""
    outcomes = [run_seed(1, replace(SPEED, operation_mean_ns=mean_ns)) for mean_ns in SPEED_MEANS_NS]
    for outcome in outcomes:
        virtual_s = outcome.virtual_ns / 1e9
        print(
            f"speed: {SPEED.nodes} nodes, {SPEED.clients} clients, {outcome.answered / virtual_s:.0f} requests a "
            f"virtual second, no faults: {virtual_s:.1f} s of virtual time in {outcome.real_s:.2f} s, "
            f"{virtual_s / outcome.real_s:.0f}x ({virtual_s / outcome.cpu_s:.0f}x of processor time)"
        )
    return 1 if any(outcome.violation for outcome in outcomes) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first seed that fails")
    parser.add_argument("--verbose", action="store_true", help="one line for each seed")
    parser.add_argument("--events", type=int, default=EVENTS_SHOWN, help="events to print of a failing seed")
    parser.add_argument("--progress-every", type=int, default=10, help="seeds between two lines of progress")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default 1)")
    parser.add_argument("--speed", action="store_true", help="measure how fast time goes by, and nothing else")
    parser.add_argument("--plant", choices=sorted(plants.BY_NAME), metavar="BUG", help="run with a planted bug")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
