"""Invariants that must neither miss a wrong commit nor find one where there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.versions.version_log import VersionChange
from ordo.consensus.state.configuration import Configuration
from tests.simulation.history import Executed
from tests.simulation.invariants import CommitIsOnAQuorum, ServicesAgree

THREE = Configuration((0, 1, 2))
ALONE = Configuration((0,))
POSITION = 960


class World:
    """Three members, of which `holders` have acknowledged POSITION; collects what fails."""

    def __init__(self, holders: set[int]) -> None:
        self.failures: list[str] = []
        self.nodes = [
            SimpleNamespace(
                member_id=number,
                log_end_acknowledged=POSITION if number in holders else 0,
                acknowledged_before_loss=0,
            )
            for number in range(3)
        ]

    def fail(self, text: str) -> None:
        self.failures.append(text)


def commit(holders: set[int], *, in_force: Configuration, at_position: Configuration | None) -> list[str]:
    """What the invariant says when member 0, which began with THREE, leads and commits POSITION."""
    world: Any = World(holders)
    leader: Any = world.nodes[0]
    leader.name, leader.append_position, leader.commit_position, leader.leads_term = "node-0", POSITION, POSITION, 1
    leader.first_configuration = THREE
    core = SimpleNamespace(configuration=in_force, term_base_position=96, leadership_term_id=1)
    core.configuration_at = lambda position: at_position
    leader.module = SimpleNamespace(core=core)
    CommitIsOnAQuorum(world).on_moved(leader)
    failures: list[str] = world.failures
    return failures


@pytest.mark.parametrize("at_position", [None, THREE])
def test_a_commit_and_the_configuration_behind_it_in_one_duty_cycle(at_position: Configuration | None) -> None:
    """The leader commits by its old configuration, and has read the next one before anybody looks at it."""
    assert commit({0}, in_force=ALONE, at_position=ALONE) == []
    assert commit({0, 1}, in_force=Configuration((0, 1, 2, 3, 4)), at_position=at_position) == []


def test_a_commit_that_no_configuration_allows_is_found() -> None:
    (failure,) = commit({0}, in_force=THREE, at_position=None)
    assert "commits position 960, which is durable on members [0] only" in failure


def versions_found(executed: list[tuple[int, int]], *, snapshot_position: int) -> list[str]:
    """What the invariant says of a member whose log took version 2 at 192, which took a snapshot and began anew behind
    it, and then executed records with code: (position, version)."""
    changes = [VersionChange(96, 1), VersionChange(192, 2)]
    log = SimpleNamespace(changes=changes)
    rules = SimpleNamespace(versions=SimpleNamespace(log=log), skips=SimpleNamespace(known={}))
    world: Any = World(set())
    world.options = SimpleNamespace(services=2, upgrade_mean_ns=1, poison_chance=0, own_error_mean_ns=0, applications=0)
    node: Any = world.nodes[0]
    node.name, node.module = "node-0", SimpleNamespace(rules=rules)
    invariant = ServicesAgree(world)
    node.service = SimpleNamespace(version=1)
    invariant.on_executed(node, Executed(160, "", ""))
    invariant.on_snapshot(node, snapshot_position, "")
    changes.clear()
    for position, version in executed:
        node.service = SimpleNamespace(version=version)
        invariant.on_executed(node, Executed(position, "", ""))
    failures: list[str] = world.failures
    return failures


def test_a_version_that_a_snapshot_was_taken_behind_is_in_force() -> None:
    """The log went with what was known of it: the code of the new version was taken for the wrong one."""
    assert versions_found([(288, 2)], snapshot_position=192) == []
    (failure,) = versions_found([(288, 1)], snapshot_position=192)
    assert "executed 288 with code of version 1, and 2 is in force" in failure
