"""A campaign of seeds: what is through stays, whatever becomes of the run; seeds of other code are not mixed in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from ordo.runtime.processes import is_process_alive
from tests.cluster.integration.agreement import await_that
from tests.simulation import campaign
from tests.simulation.campaign_file import CampaignError, CampaignFile, Row
from tests.simulation.code import FILES, FOLDERS, LEFT_OUT, ROOT, SimulatedCode
from tests.simulation.options import Options
from tests.simulation.run import Outcome
from tests.thorough import few_of

FAILING, UNDECIDED = 3, 400
NOT_RUN = (
    *("deploy/", "ordo/__init__.py", "ordo/errors.py", "ordo/messages.py"),
    *("tests/__init__.py", "tests/cluster/", "tests/faults/"),
)
BESIDE = ("tests/forks.py", "tests/patience.py", "tests/spares.py")
"""What is imported beside, and does nothing in a seed: launchers of real processes, and packages of names."""


class Runs:
    """Stands in for `run_seeds`: each seed takes no time."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def __call__(self, seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
        for seed in seeds:
            self.ran.append(seed)
            violation = "one leader a term: two" if seed == FAILING else None
            yield Outcome(seed, Options(), 2_000_000_000, 1.0, 0.5, f"{seed:x}", 1, 1, 1, violation, True, [], {})


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs()
    monkeypatch.setattr(campaign, "run_seeds", stand_in)
    return stand_in


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name in ("consensus/core.py", "consensus/test_core.py", "docs/SIMULATION.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1\n")
    return folder


def go_on(checkout: Path, seeds: int, *options: str) -> int:
    return campaign.main(
        ["--seeds", str(seeds), "--folder", str(checkout.parent / "seeds"), *options], SimulatedCode(checkout)
    )


def file_of(checkout: Path) -> Path:
    return checkout.parent / "seeds" / f"{SimulatedCode(checkout).digest}.jsonl"


def test_a_campaign_goes_on_where_it_was(checkout: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert go_on(checkout, 2) == 0 and go_on(checkout, 2) == 0
    assert runs.ran == [1, 2]
    capsys.readouterr()
    assert go_on(checkout, 5) == 1 and runs.ran == [1, 2, 3, 4, 5]
    assert "5 of 5 seeds through, 1 failed; a seed takes 0.50 s of processor time, 4.0x" in capsys.readouterr().out


def test_a_seed_that_failed_is_told_by_every_run(
    checkout: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert go_on(checkout, 4) == 1
        said = capsys.readouterr().out
        replay = f"python -m tests.simulation --seeds 1 --first {FAILING}"
        assert f"seed {FAILING} FAILED: one leader a term: two\n  replay: {replay}" in said
    assert runs.ran == [1, 2, 3, 4]


def test_no_seed_begins_when_the_minutes_are_over(
    checkout: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go_on(checkout, 4, "--minutes", "0") == 0
    assert runs.ran == [] and "0 of 4 seeds through" in capsys.readouterr().out


@pytest.mark.parametrize("step", few_of([1, 7], [7]))
def test_a_line_that_was_cut_anywhere_does_not_count(checkout: Path, runs: Runs, step: int) -> None:
    go_on(checkout, 2)
    path = file_of(checkout)
    whole = path.read_bytes()
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        runs.ran.clear()
        go_on(checkout, 2)
        through = max(0, whole[:length].count(b"\n") - 1)
        assert runs.ran == [1, 2][through:], f"after {length} bytes"
        assert path.read_bytes() == whole


def test_a_line_that_cannot_be_read_is_run_again(checkout: Path, runs: Runs) -> None:
    go_on(checkout, 2)
    path = file_of(checkout)
    head, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + b"\0" * len(first) + b"\n" + b'{"seed": 7}\n' + second)
    runs.ran.clear()
    go_on(checkout, 2)
    assert runs.ran == [1]


def test_other_code_begins_anew_and_docs_and_tests_do_not(checkout: Path, runs: Runs) -> None:
    go_on(checkout, 2)
    for name in ("docs/SIMULATION.md", "consensus/test_core.py"):
        (checkout / name).write_text("2\n")
        assert go_on(checkout, 2) == 0 and runs.ran == [1, 2]
    (checkout / "consensus/core.py").write_text("2\n")
    go_on(checkout, 1)
    assert runs.ran == [1, 2, 1] and len(list((checkout.parent / "seeds").iterdir())) == 2
    (checkout / "consensus/core.py").write_text("1\n")
    go_on(checkout, 2)
    assert runs.ran == [1, 2, 1]


def test_seeds_of_other_code_are_refused(checkout: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    go_on(checkout, 2)
    former = file_of(checkout)
    (checkout / "consensus/core.py").write_text("2\n")
    former.rename(file_of(checkout))
    assert go_on(checkout, 3) == 2 and runs.ran == [1, 2]
    assert f"has seeds of other code: code={former.stem} commit=" in capsys.readouterr().err
    file_of(checkout).write_text("{}\n")
    assert go_on(checkout, 3) == 2
    assert "does not say whose seeds it has: remove it" in capsys.readouterr().err


def test_a_seed_does_not_count_when_the_code_changed_meanwhile(
    checkout: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change_after_two(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
        for outcome in runs(seeds, jobs):
            if outcome.seed == 2:
                (checkout / "consensus/core.py").touch()
            if outcome.seed == FAILING:
                (checkout / "consensus/core.py").write_text("other\n")
            yield outcome

    monkeypatch.setattr(campaign, "run_seeds", change_after_two)
    code = SimulatedCode(checkout)
    assert campaign.main(["--seeds", "5", "--folder", str(checkout.parent / "seeds")], code) == 2
    assert f"the code was changed while seed {FAILING} ran, so it does not count" in capsys.readouterr().err
    with CampaignFile(checkout.parent / "seeds" / f"{code.digest}.jsonl", code.digest, "") as file:
        assert list(file.rows) == [1, 2]


def test_a_file_that_comes_or_is_compiled_meanwhile_changes_the_code(checkout: Path) -> None:
    code = SimulatedCode(checkout)
    for name in ("consensus/more.py", f"consensus/core{EXTENSION_SUFFIXES[0]}"):
        assert not code.is_changed()
        (checkout / name).write_text("2\n")
        assert code.is_changed() and code.is_changed()
        assert SimulatedCode(checkout).digest != code.digest
        (checkout / name).unlink()
    assert not code.is_changed()


def test_a_file_is_of_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "seeds" / "one.jsonl"
    with CampaignFile(path, "one", "commit"), pytest.raises(CampaignError, match="in use by another run"):
        CampaignFile(path, "one", "commit")
    with CampaignFile(path, "one", "another commit") as file:
        assert file.commit == "commit"


def test_too_many_undecided_seeds_fail_a_campaign() -> None:
    rows = {seed: Row(seed, None, seed != UNDECIDED, 1.0, 1.0, "") for seed in range(300, UNDECIDED + 1)}
    assert campaign.has_failed(rows)
    rows |= {seed: Row(seed, None, True, 1.0, 1.0, "") for seed in range(1, 300)}
    assert not campaign.has_failed(rows)


def test_a_campaign_that_is_killed_goes_on_and_leaves_no_process(tmp_path: Path, runs: Runs) -> None:
    """With two processes of its own, which look for more to do when they are through."""
    code = SimulatedCode()
    path = tmp_path / f"{code.digest}.jsonl"
    with CampaignFile(path, code.digest, "commit") as file:
        for seed in (1, 2):  # each takes seconds
            file.add(Row(seed, None, True, 1.0, 1.0, ""))
    program = [sys.executable, "-m", "tests.simulation.campaign", "--folder", str(tmp_path), "--jobs", "2"]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        await_that(lambda: path.read_bytes().count(b"\n") > 3, "a seed is through", timeout_s=60)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(process.pid, signal.SIGKILL)
    assert len(children) >= 2
    await_that(lambda: not any(is_process_alive(int(child)) for child in children), "its processes are gone")
    through = path.read_bytes().count(b"\n") - 1
    assert campaign.main(["--folder", str(tmp_path), "--seeds", str(through + 2)], code) in (0, 1)
    assert runs.ran == [through + 1, through + 2]


def test_all_code_of_a_seed_decides_whose_seeds_they_are() -> None:
    """What a simulation has imported when a seed is through is part of the digest, or named here."""
    program = (
        "import sys; from tests.simulation.options import Options; from tests.simulation.run import run_seed;"
        "assert run_seed(1, Options(duration_ns=10**8, snapshot_mean_ns=10**7)).violation is None;"
        "print(*(getattr(one, '__file__', None) for one in list(sys.modules.values())))"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    imported = {Path(path).resolve() for path in said.split() if path.startswith(str(ROOT))}
    known = {path.with_suffix("") for path in SimulatedCode().paths}
    unknown = [path for path in imported if path.with_name(path.name.split(".")[0]) not in known]
    places = {path.relative_to(ROOT).as_posix() for path in unknown}
    others = {place for place in places if not place.startswith((*NOT_RUN, *BESIDE, ".venv/"))}
    assert not others, "add them to FOLDERS or FILES, or say why they decide nothing"
    assert all((ROOT / name).exists() for name in (*FOLDERS, *FILES)) and LEFT_OUT
