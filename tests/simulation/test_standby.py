"""A simulated standby: what it has is committed, and what it goes on with is what was told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ordo.cluster.module.log.cluster_control import ClusterControl
from ordo.cluster.module.log.ingress_gate import IngressGate
from ordo.cluster.module.state.folder_rows import FolderRows
from ordo.consensus.standby import StandbyCore
from tests.simulation.history import Violation
from tests.simulation.options import Options
from tests.simulation.standby import run_standby
from tests.simulation.switch import run_switch

pytestmark = pytest.mark.timeout(600)
MS = 1_000_000
S = 1_000_000_000
LOSSY = Options(
    nodes=3,
    duration_ns=S,
    operation_mean_ns=4 * MS,
    snapshot_every_bytes=40 * 1024,
    levels=True,
    loss=0.02,
    duplication=0.01,
    reordering=0.02,
)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_standby_goes_on_with_what_was_told(seed: int) -> None:
    run_standby(seed, LOSSY)


def test_a_copy_that_any_node_takes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fencing forgotten: a node starts with the primary's log and identity, and would go on as the primary."""
    monkeypatch.setattr(FolderRows, "is_standby", False)
    with pytest.raises(Violation, match="started with a copy that was not promoted"):
        run_standby(1, LOSSY)


def test_a_promotion_that_keeps_the_identity_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fencing forgotten: nothing tells the new cluster from the former one."""
    monkeypatch.setattr(FolderRows, "begin_epoch", lambda self, txn, origin: txn.delete(b"standby"))
    with pytest.raises(Violation, match="cannot be told from the former cluster"):
        run_standby(1, LOSSY)


def test_a_standby_that_takes_part_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands for election with the primary's log, as the only voter it knows, and appends to it."""
    for name in ("tick", "on_appended", "start"):
        monkeypatch.delattr(StandbyCore, name)
    with pytest.raises((Violation, AssertionError)):
        run_standby(1, LOSSY)


# -- a planned switch --------------------------------------------------------------------------------------------------

BUSY = replace(LOSSY, duration_ns=60 * S)
"""Clients ask all the time, before the switch and behind it."""


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_switch_loses_nothing_and_leaves_one_that_serves(seed: int) -> None:
    assert run_switch(seed, BUSY).end_position > 0


def test_ingress_that_is_taken_behind_the_mark_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate looks at the order to suspend alone, which an operator may take back."""
    monkeypatch.setattr(IngressGate, "_is_closed", property(lambda self: not self._control.successor and self._ends))
    monkeypatch.setattr(ClusterControl, "is_suspended", property(lambda self: self.successor == 0))
    with pytest.raises(Violation, match=r"behind the end|record at .* of a suspended cluster"):
        _switch_until_found()


def test_a_promotion_before_the_end_is_reached_is_noticed() -> None:
    with pytest.raises(Violation, match="behind the end"):
        _switch_until_found(waits_for_end=False)


def test_a_primary_that_can_be_resumed_behind_its_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fencing forgotten: the end is known while it is executed only, and a later leader takes the order to go on."""
    original = ClusterControl.lead

    def lead(self: ClusterControl) -> None:
        self.successor = 0
        original(self)

    monkeypatch.setattr(ClusterControl, "lead", lead)
    with pytest.raises(Violation, match="behind the end of its log"):
        _switch_until_found()


def _switch_until_found(**options: bool) -> None:
    for seed in range(1, 13):
        run_switch(seed, BUSY, **options)
