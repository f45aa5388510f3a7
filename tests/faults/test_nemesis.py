"""All kinds of fault at random. FAULT_SEED brings a schedule again, FAULT_SECONDS and FAULT_MEMBERS are its size."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.lab import laboratory
from tests.faults.nemesis import KINDS_OF_DISKS, KINDS_OF_NETWORKS, KINDS_WITHOUT_ROOT, bring, draw_schedule

SECONDS = float(os.environ.get("FAULT_SECONDS", "30"))
MEMBERS = int(os.environ.get("FAULT_MEMBERS", "3"))

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(SECONDS + 150)]


def test_all_kinds_of_fault(tmp_path: Path) -> None:
    seed = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(1, 1_000_000)))
    print(f"\nFAULT_SEED={seed} FAULT_SECONDS={SECONDS:g} FAULT_MEMBERS={MEMBERS}")
    kinds = KINDS_WITHOUT_ROOT + KINDS_OF_NETWORKS + KINDS_OF_DISKS
    with laboratory(
        tmp_path / "lab", seed=seed, member_count=MEMBERS, with_network=True, disks_of=range(MEMBERS)
    ) as lab:
        bring(lab, draw_schedule(seed, SECONDS, MEMBERS, kinds))
