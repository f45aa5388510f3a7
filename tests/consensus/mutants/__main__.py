"""`python -m tests.consensus.mutants`: runs the consensus unit tests against mutants, and prints those that survive.

Those of its conditions, all of them; `python -m tests.mutants` plants a sample of others in the whole product.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import pytest

from tests.consensus.mutants.equivalent import EQUIVALENT
from tests.mutants.hunt import Hunt, Outcome
from tests.mutants.mutate import modules, mutants_of

FOLDER = Path(__file__).resolve().parents[1]
SLOW = ("simulation", "mutants", "test_target_serves_long", "test_leader_that_closes", "does_not_delay_an_election")
"""They run whole clusters. What these find late, a unit test must find at once."""
SKIPPED = ("test_simulation.py", "test_canaries.py", "test_comparisons.py", "test_mutants.py")


def main() -> int:
    """Returns 1 if a mutant that is not in the list survived, or one that is in the list did not."""
    arguments = _arguments()
    mutants = [one for path in modules() if arguments.only in path for one in mutants_of(path)]
    unknown = set(EQUIVALENT) - {one.name for one in mutants} if not arguments.only else set()
    if arguments.sample:
        chosen = [one for one in mutants if one.name not in EQUIVALENT]
        mutants = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    survivors: set[str] = set()

    def say(outcome: Outcome) -> None:
        if not outcome.found_by:
            survivors.add(mutants[outcome.number].name)
            print(f"survived: {mutants[outcome.number].name}", file=sys.__stderr__, flush=True)

    hunt = Hunt(lambda: mutants, say)
    files = sorted(str(path) for path in FOLDER.glob("test_*.py") if path.name not in SKIPPED)
    fast = " and ".join(f"not {one}" for one in SLOW)
    pytest.main(["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", fast, *files], plugins=[hunt])
    for name in hunt.broken:
        print(f"fails without any mutant: {name}")
    if not hunt.tests or hunt.broken or not mutants:
        return 1
    stale = unknown | {one.name for one in mutants if one.name in EQUIVALENT} - survivors
    for name in sorted(stale):
        print(f"found, or no longer there; take it off the list: {name}")
    print(f"{len(mutants)} mutants, {len(mutants) - len(survivors)} found, {len(survivors - set(EQUIVALENT))} not")
    return 1 if stale or survivors - set(EQUIVALENT) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.consensus.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="files whose path has this text")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, chosen by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
