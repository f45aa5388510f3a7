"""Several simulated standbys: see tests.simulation.standbys."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.module.state.folder_rows import FolderRows, Hold
from ordo.standby import holds
from ordo.standby.holds import Order, Seen
from tests.simulation.history import Violation
from tests.simulation.standbys import run_standbys
from tests.simulation.test_standby import BUSY
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", few_of(range(1, 9), [1]))
def test_one_is_promoted_and_those_that_held_follow_it(seed: int) -> None:
    assert run_standbys(seed, BUSY).promoted


def test_a_hold_that_a_restart_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies on from a primary that lives, and has more than the one that it was counted for."""
    monkeypatch.setattr(FolderRows, "hold", None)
    with pytest.raises(Violation, match=r"more than|was counted|does not follow|promoted beside|died of Other"):
        _run_until_found(lives_on=True)


def test_positions_that_are_compared_before_the_hold_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "holds_for", lambda self, _: self.is_standby)
    with pytest.raises(Violation, match=r"and was counted for"):
        _run_until_found(lives_on=True)


def test_a_promotion_without_a_majority_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = holds.find_refusal
    monkeypatch.setattr("tests.simulation.standbys.find_refusal", lambda own, others, _: original(own, others, 1))
    with pytest.raises(Violation, match="is promoted beside"):
        _run_until_found()


def test_a_standby_that_holds_for_whoever_asks_last_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = holds.next_hold

    def next_hold(own_id: int, held: Hold | None, order: Order | None, seen: Any, **more: Any) -> Hold | None:
        is_own = held is not None and held.candidate_id == own_id
        return original(own_id, held if is_own else None, order, seen, **more) or held

    monkeypatch.setattr("ordo.standby.node.next_hold", next_hold)
    with pytest.raises(Violation, match=r"was counted|is promoted beside|more than"):
        _run_until_found()


def _run_until_found(**options: bool) -> None:
    for seed in range(1, 25):
        run_standbys(seed, BUSY, **options)
