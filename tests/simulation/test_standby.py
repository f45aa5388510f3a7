"""A simulated standby: what it has is committed, and what it goes on with is what was told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from ordo.cluster.module.log.cluster_control import ClusterControl
from ordo.cluster.module.log.ingress_gate import IngressGate
from ordo.cluster.module.state.folder_rows import Claim, FolderRows, claim
from ordo.cluster.module.state.own_member import OwnMember
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import codecs
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.consensus.standby import StandbyCore
from ordo.salvage.holdings import Findings, Recordings
from ordo.standby import divergence
from tests.simulation.history import Violation
from tests.simulation.options import Options
from tests.simulation.rejoin import run_rejoin
from tests.simulation.standby import run_standby
from tests.simulation.switch import run_switch
from tests.simulation.twice import run_twice
from tests.thorough import few_of

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


@pytest.mark.parametrize("seed", few_of(range(1, 7), [1]))
def test_a_standby_goes_on_with_what_was_told(seed: int) -> None:
    run_standby(seed, LOSSY)


def test_a_standby_goes_on_with_a_snapshot_that_it_alone_took() -> None:
    faults = [run_standby(seed, LOSSY).trace.tally for seed in (1, 2, 3)]
    assert all(found["snapshot of standbys ordered"] for found in faults)
    assert any(found["snapshot of standbys taken"] for found in faults)


def test_a_member_that_takes_a_snapshot_of_standbys_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of its halves take the order for one to the members."""
    original = codecs.is_snapshot_order

    def is_snapshot_order(action: int, flags: int, *, is_standby: bool = False) -> bool:
        return original(action, flags, is_standby=True)

    monkeypatch.setattr(codecs, "is_snapshot_order", is_snapshot_order)
    with pytest.raises(Violation, match="which is for standbys alone"):
        for seed in (1, 2, 3):
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


@pytest.mark.parametrize("seed", few_of(range(1, 7), [1]))
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


def test_members_that_change_behind_the_end_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnMember, "is_log_over", False)
    with pytest.raises(Violation, match="changes its members behind the end"):
        _switch_until_found()


def _switch_until_found(**options: bool) -> None:
    for seed in range(1, 13):
        run_switch(seed, BUSY, **options)


# -- gone on with twice, while a standby was away ----------------------------------------------------------------------


@pytest.mark.parametrize("has_more", [True, False])
@pytest.mark.parametrize("seed", few_of(range(1, 7), [1]))
def test_a_standby_follows_only_a_log_that_goes_on_with_its_own(seed: int, has_more: bool) -> None:
    run_twice(seed, BUSY, has_more=has_more)


def test_a_proof_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest identities alone are compared: the second epoch begins behind the end of the standby's log."""
    monkeypatch.setattr(KnownCluster, "find_doubt", lambda self, told: None)
    with pytest.raises(Violation, match="of a log that does not go on with its own"):
        for seed in range(3, 6):  # where records of both logs end at one place, or it asks for ever
            run_twice(seed, BUSY, has_more=True)


# -- a former primary comes back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few_of(range(1, 7), [1]))
def test_a_former_primary_follows_and_nothing_that_was_dropped_is_untold(seed: int) -> None:
    run_rejoin(seed, BUSY)


def test_a_common_end_that_is_one_record_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record that differs is taken for one that both have."""
    original = divergence._walk

    def walk(findings: Findings, recordings: Recordings, successor: divergence.Successor, begin: int) -> int:
        end = original(findings, recordings, successor, begin)
        following = (one.position for one in divergence._messages(findings, recordings, begin) if one.position > end)
        return next(following, end)

    monkeypatch.setattr(divergence, "_walk", walk)
    with pytest.raises(Violation, match=r"is refused: .* both have the same|and the new cluster lacks"):
        _rejoin_until_found()


def test_a_record_of_the_former_primary_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told is right, and the log is cut off one record late."""
    original = divergence.compare_with

    def compare(*arguments: Any) -> divergence.Divergence:
        found = original(*arguments)
        late = found.records[0].position if found.record_count > 1 else found.position
        return found._replace(position=late)

    monkeypatch.setattr("tests.simulation.rejoin.compare_with", compare)
    with pytest.raises(Violation, match=r"executed .*, not|does not follow|has something else"):
        _rejoin_until_found()


def test_a_start_in_the_middle_of_a_rejoin_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fencing forgotten: the former primary's node starts with a log that ends before what it acknowledged."""

    def claim_all(rows: FolderRows, *arguments: Any, **options: Any) -> Claim:
        with mock.patch.object(FolderRows, "rejoining", None):
            return claim(rows, *arguments, **options)

    monkeypatch.setattr("ordo.cluster.node.node.claim", claim_all)
    with pytest.raises(Violation, match="started in the middle of its rejoin"):
        _rejoin_until_found()


def test_a_snapshot_of_what_was_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store forgets what was behind the cut but for the snapshots."""
    original = StateStore.become_standby

    def become_standby(self: StateStore, log_position: int) -> None:
        kept = [one for one in self.load().snapshots if one.is_valid]
        original(self, log_position)
        for one in kept:
            self.put_snapshot(one)

    monkeypatch.setattr(StateStore, "become_standby", become_standby)
    with pytest.raises(Violation):
        _rejoin_until_found()


def _rejoin_until_found() -> None:
    for seed in range(1, 13):
        run_rejoin(seed, BUSY)
