"""Simulated members that copy their snapshots from a standby: what they start from is their own state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ordo.cluster.module.snapshots import copied_snapshots
from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
from tests.simulation.copying import run_copying
from tests.simulation.history import Violation
from tests.simulation.test_standby import LOSSY, S
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(600)
BUSY = replace(LOSSY, duration_ns=60 * S, retention_bytes=0)
"""Clients ask all the time, and members let go of all the log that they may."""
COPIED = 1
"""A seed in which members start from copies."""


@pytest.mark.parametrize("seed", few_of(range(1, 5), [COPIED]))
def test_members_go_on_with_what_a_standby_took_for_them(seed: int) -> None:
    found = run_copying(seed, BUSY).trace.tally
    assert found["log purged"] and found["promoted"]
    if seed == COPIED:
        assert found["snapshot copied"] and found["started from a copy"]


def test_copies_of_a_standby_with_another_state_are_refused_and_members_take_their_own() -> None:
    found = run_copying(COPIED, BUSY, differs=True).trace.tally
    assert found["log purged"] and found["snapshot of members instead"]
    assert not found["snapshot copied"] and not found["started from a copy"]


def test_a_copy_that_is_installed_although_it_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is whole, and nobody compares it with the member's own state."""
    monkeypatch.setattr(copied_snapshots, "demand_alike", lambda captured, copied: None)
    with pytest.raises(Violation, match="from a state that no member had there"):
        run_copying(COPIED, BUSY, differs=True)


def test_log_that_goes_before_a_quorum_has_the_copy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member takes its own copy for what all have."""
    own = property(lambda self: self._shelf.newest_position)
    monkeypatch.setattr(SnapshotAgreement, "agreed_position", own)
    with pytest.raises(Violation, match="a quorum keeps what is needed"):
        run_copying(COPIED, BUSY)
