"""Simulated standby nodes that become one cluster: see tests.simulation.standbys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ordo.backup.restore import close_log
from ordo.backup.survey import Survey
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.standby.feed import Feed
from ordo.standby.others import Standing
from tests.simulation.history import Violation
from tests.simulation.standbys import run_standbys
from tests.simulation.test_standby import BUSY
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", few_of(range(1, 9), [1]))
def test_one_is_promoted_and_the_others_join_it(seed: int) -> None:
    assert run_standbys(seed, BUSY).base_position > 0


def test_a_node_that_is_behind_and_chosen_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has more can join no cluster whose log begins before that ends."""

    def refuse(own: Standing, others: Sequence[Standing], _: int) -> str:
        return "it has more" if any(own.position > one.position for one in others) else ""

    monkeypatch.setattr("tests.simulation.standbys.find_refusal", refuse)
    with pytest.raises(Violation, match="died of OtherClusterError"):
        run_standbys(1, BUSY, is_one_behind=True)


def test_two_epochs_that_both_serve_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A promoted node needs none of the others, so a second one that is promoted serves beside it."""

    def close(survey: Survey, digest: bytes, length: int, members: NamedConfiguration, *rest: Any, **more: Any) -> Any:
        return close_log(survey, digest, length, NamedConfiguration(members.voters[:1], ()), *rest, **more)

    monkeypatch.setattr("ordo.salvage.new_epoch.close_log", close)
    with pytest.raises(Violation, match="two clusters of standby nodes have served"):
        run_standbys(1, BUSY, is_founder_lost=True)


def test_a_node_that_votes_without_what_the_cluster_began_with_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Feed, "has_joined", property(lambda self: bool(self._promoted)))
    with pytest.raises(Violation, match="has the log of a cluster that does not name it"):
        run_standbys(1, BUSY)
