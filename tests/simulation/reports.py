"""What a run of seeds prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.simulation.run import Outcome


def line_of(outcome: Outcome) -> str:
    """One seed in two lines."""
    ratio = outcome.virtual_ns / 1e9 / outcome.real_s
    return (
        f"seed {outcome.seed}: {'FAILED' if outcome.violation else 'ok'} trace={outcome.digest} "
        f"virtual={outcome.virtual_ns / 1e9:.1f}s real={outcome.real_s:.2f}s ratio={ratio:.0f}x "
        f"executed={outcome.executed} answered={outcome.answered} terms={outcome.terms}\n"
        f"    {outcome.options.describe()}"
    )


def failure_of(outcome: Outcome, plant: str | None, events: int) -> str:
    """What did not hold, the last events before it, and the command that shows it again."""
    lines = [f"seed {outcome.seed} FAILED: {outcome.violation}", f"  options: {outcome.options.describe()}"]
    lines += [f"  last {events} of the events:", *(f"    {line}" for line in outcome.events[-events:])]
    return "\n".join([*lines, f"  replay: {replay_of(outcome.seed, plant)}"])


def replay_of(seed: int, plant: str | None = None) -> str:
    """The command that runs one seed again."""
    return f"python -m tests.simulation --seeds 1 --first {seed}" + (f" --plant {plant}" if plant else "")


def summary_of(outcomes: Sequence[Outcome]) -> str:
    """How fast time went by, and how much happened."""
    virtual_s = sum(outcome.virtual_ns for outcome in outcomes) / 1e9
    real_s = sum(outcome.real_s for outcome in outcomes)
    cpu_s = sum(outcome.cpu_s for outcome in outcomes)
    return (
        f"{virtual_s:.0f} s of virtual time in {real_s:.0f} s, {virtual_s / max(real_s, 1e-9):.0f}x "
        f"({virtual_s / max(cpu_s, 1e-9):.0f}x of processor time); "
        f"{sum(outcome.executed for outcome in outcomes)} records, {sum(outcome.terms for outcome in outcomes)} terms"
    )


def faults_of(outcomes: Sequence[Outcome]) -> str:
    """How often each kind of fault occurred."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.faults)
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(total.items()))
