"""Devices that say yes and write nothing, or elsewhere, or give back what was there before."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ordo.runtime.native.clock import VirtualClock
from tests.simulation.options import Options
from tests.simulation.plants import BY_NAME
from tests.simulation.rot import KINDS
from tests.simulation.run import run_seed
from tests.simulation.storage import SimulatedDisk, SimulatedStorage

PAGE = 4096
SEEDS = 3
S = 1_000_000_000


def _options(kind: str) -> Options:
    return replace(Options(), scrub_ns=S // 2, padding_max=3000, rot_kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_mended_while_its_member_runs(kind: str) -> None:
    seen = 0
    for seed in range(1, 3):
        outcome = run_seed(seed, _options(kind))
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        seen += outcome.faults.get(kind, 0)
    assert seen > 0


@pytest.mark.parametrize(
    "kind",
    ["write misdirected", *(pytest.param(one, marks=pytest.mark.soak) for one in ("write lost", "page reads old"))],
)
def test_a_fault_that_is_not_mended_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_NAME["what_is_mended_is_not_written"](monkeypatch.setattr)
    violations = (run_seed(seed, _options(kind)).violation for seed in range(1, 1 + SEEDS))
    assert any(found is not None and "are not mended" in found for found in violations)


def test_pages_of_the_simulated_disk() -> None:
    disk = SimulatedDisk(Random(1))
    file = SimulatedStorage(disk, VirtualClock()).open_segment("/disk/file", 4 * PAGE, create=True)
    for page, letter in enumerate((b"a", b"b", b"c", b"d")):
        file.write_bytes(letter * PAGE, page * PAGE)
    simulated = disk.files["/disk/file"]
    simulated.lose_write(100)
    simulated.misdirect(PAGE + 7, 2 * PAGE)
    simulated.make_stale(3 * PAGE + 1)
    read = file.read_bytes(4 * PAGE, 0)
    assert [read[page * PAGE : (page + 1) * PAGE] for page in range(4)] == [
        bytes(PAGE),
        bytes(PAGE),
        b"b" * PAGE,
        bytes(PAGE),
    ]
    assert simulated.contents()[3 * PAGE :] == b"d" * PAGE
    file.write_bytes(b"e", 3 * PAGE)
    assert file.read_bytes(PAGE, 3 * PAGE) == b"e" + b"d" * (PAGE - 1)
