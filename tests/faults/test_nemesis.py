"""All kinds of fault at random, and each kind of accident between them, once in any run and once in each ROUND_S.

FAULT_SEED brings a schedule again. FAULT_MEMBERS and FAULT_SECONDS are its size: half of the seconds are for faults,
and accidents take about the other half.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ordo.deploy.launcher import ROOT
from tests.faults.disks import SIZE_BYTES
from tests.faults.hogs import BOUNDS, CLIENT_TOKEN, TOKENS
from tests.faults.lab import laboratory
from tests.faults.neighbours import STRANGERS
from tests.faults.nemesis import (
    KINDS_ALONE,
    KINDS_OF_DISKS,
    KINDS_OF_LOGS,
    KINDS_OF_NETWORKS,
    KINDS_WITHOUT_ROOT,
    bring,
    draw_schedule,
    with_all,
)
from tests.linearizability import porcupine

SECONDS = float(os.environ.get("FAULT_SECONDS", "16"))
MEMBERS = int(os.environ.get("FAULT_MEMBERS", "3"))
ROUND_S = 150.0
VERDICT = os.environ.get("FAULT_VERDICT", "")
"""A file for the verdict of a run that found nothing."""
HISTORIES = ROOT / "build" / "histories"
BYTES_PER_S = 2 * 1024 * 1024

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(6 * SECONDS + 300)]


def test_all_kinds_of_fault(tmp_path: Path) -> None:
    seed = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(1, 1_000_000)))
    print(f"\nFAULT_SEED={seed} FAULT_SECONDS={SECONDS:g} FAULT_MEMBERS={MEMBERS}")
    kinds = KINDS_WITHOUT_ROOT + KINDS_OF_NETWORKS + KINDS_OF_DISKS + KINDS_OF_LOGS
    schedule = draw_schedule(seed, SECONDS / 2, MEMBERS, kinds)
    for index in range(max(1, round(SECONDS / ROUND_S))):
        schedule = with_all(schedule, seed + index, (*KINDS_ALONE, *KINDS_OF_LOGS), MEMBERS)
    porcupine.prepare()
    with laboratory(
        tmp_path / "lab",
        seed=seed,
        member_count=MEMBERS,
        with_network=True,
        strangers=STRANGERS,
        disks_of=range(MEMBERS - 1),
        memory_disks_of=[MEMBERS - 1],
        log_disks_of=range(MEMBERS),
        disk_bytes=SIZE_BYTES + int(SECONDS * BYTES_PER_S),
        credentials=CLIENT_TOKEN.encode(),
        cluster=BOUNDS,
        tables={"tokens": TOKENS},
    ) as lab:
        lab.kept = HISTORIES / f"nemesis-{seed}.jsonl"
        verdict = bring(lab, schedule)
    if VERDICT:
        Path(VERDICT).parent.mkdir(parents=True, exist_ok=True)
        Path(VERDICT).write_text(f"seed {seed} passed: {verdict}\n")
