"""Many seeds on one state of the code, collected over nights: `python -m tests.simulation.campaign --minutes 60`.

What is through is kept in build/seeds/, in a file of that state of the code: whatever becomes of a run, the next one
goes on with the seeds that are left. Other code begins anew, in a file of its own. A seed that fails ends nothing; the
exit status is 1 as long as one has failed, or too many could not be decided.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.simulation.__main__ import EVENTS_SHOWN, UNDECIDED_SHARE_MAX
from tests.simulation.campaign_file import CampaignError, CampaignFile, Row
from tests.simulation.code import ROOT, SimulatedCode
from tests.simulation.jobs import run_seeds
from tests.simulation.reports import failure_of, replay_of

FOLDER = ROOT / "build" / "seeds"
PROGRESS_EVERY = 50
MINUTE_S = 60


def main(arguments: Sequence[str] | None = None, code: SimulatedCode | None = None) -> int:
    """Run seeds that are left, until all are through or the minutes are over."""
    options = _parse(arguments)
    code = code or SimulatedCode()
    try:
        with CampaignFile(options.folder / f"{code.digest}.jsonl", code.digest, _commit()) as file:
            _run(file, code, options)
            print(describe(file, options.seeds), flush=True)
            return int(has_failed(file.rows))
    except CampaignError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(file: CampaignFile, code: SimulatedCode, options: argparse.Namespace) -> None:
    deadline_s = time.monotonic() + options.minutes * MINUTE_S
    left = _until(deadline_s, [seed for seed in range(1, options.seeds + 1) if seed not in file.rows])
    for outcome in run_seeds(left, options.jobs):
        if code.is_changed():
            raise CampaignError(
                f"the code was changed while seed {outcome.seed} ran, so it does not count: "
                f"run again, and leave the checkout alone meanwhile"
            )
        file.add(Row.of(outcome))
        if outcome.violation is not None:
            print(failure_of(outcome, None, EVENTS_SHOWN), flush=True)
        if len(file.rows) % PROGRESS_EVERY == 0:
            print(progress(file.rows, options.seeds), flush=True)


def _until(deadline_s: float, seeds: Sequence[int]) -> Iterator[int]:
    for seed in seeds:
        if time.monotonic() >= deadline_s:
            return
        yield seed


def has_failed(rows: Mapping[int, Row]) -> bool:
    """Whether the campaign has found something, or shown too little."""
    undecided = sum(not row.is_decided for row in rows.values())
    return any(row.violation for row in rows.values()) or undecided > UNDECIDED_SHARE_MAX * len(rows)


def describe(file: CampaignFile, seeds: int) -> str:
    """The whole campaign: what failed, what is not known, what a seed costs, and how many are through."""
    rows = sorted(file.rows.values())
    lines = [f"code {file.path.stem}, commit {file.commit}, {file.path}"]
    for row in rows:
        if row.violation is not None:
            lines += [f"seed {row.seed} FAILED: {row.violation}", f"  replay: {replay_of(row.seed)}"]
    if undecided := [row.seed for row in rows if not row.is_decided]:
        lines.append(f"linearizability undecided: {undecided}")
    return "\n".join([*lines, progress(file.rows, seeds)])


def progress(rows: Mapping[int, Row], seeds: int) -> str:
    """One line: how far it is, and what a seed costs."""
    failed = sum(row.violation is not None for row in rows.values())
    cpu_s, virtual_s = sum(row.cpu_s for row in rows.values()), sum(row.virtual_s for row in rows.values())
    through = sum(seed <= seeds for seed in rows)
    each_s = cpu_s / max(1, len(rows))
    return (
        f"{through} of {seeds} seeds through, {failed} failed; a seed takes {each_s:.2f} s of processor time, "
        f"{virtual_s / max(cpu_s, 1e-9):.1f}x virtual time; {each_s * (seeds - through) / 3600:.1f} hours left"
    )


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return said.strip() or "none"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="how many in all, from 1 on (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="begin no seed after so long (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where files are kept (default build/seeds)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
