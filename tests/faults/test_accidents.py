"""Each accident by itself, on real processes: what docs/ACCIDENTS.md says of it, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ordo.cluster.wire.counters.counter_types import CounterType
from tests.cluster.integration.agreement import counter_of
from tests.faults.hogs import BOUNDS, CLIENT_TOKEN, TOKENS
from tests.faults.lab import Lab, laboratory
from tests.faults.neighbours import STRANGERS
from tests.faults.nemesis import KINDS_ALONE, Fault, bring

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]
MISSING_EVENT = "log.lines_dropped"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One cluster for all of them: each must leave it whole."""
    with laboratory(
        tmp_path_factory.mktemp("accidents") / "lab",
        with_network=True,
        strangers=STRANGERS,
        disks_of=[0, 1],
        memory_disks_of=[2],
        log_disks_of=[0, 1, 2],
        credentials=CLIENT_TOKEN.encode(),
        cluster=BOUNDS,
        tables={"tokens": TOKENS},
    ) as started:
        yield started


@pytest.mark.parametrize("whom", ["leader", "follower"])
@pytest.mark.parametrize("kind", KINDS_ALONE)
def test_an_accident(lab: Lab, kind: str, whom: str) -> None:
    number = 20 if whom == "leader" else 21  # a copy of a running member, and one of a member that was killed
    bring(lab, [Fault(0.1, kind, lab.leader() if whom == "leader" else lab.follower(), 0.1, number)])


def test_a_full_log(lab: Lab) -> None:
    """Service goes on, lines are dropped and counted, and the log says later how many are missing."""
    for disk in lab.log_disks.values():
        disk.fill_to_the_last()
    lab.ask_for_lines()
    lab.run_answered(50, "answers without logs")
    members = lab.cluster.member_ids
    lab.run_until(
        lambda: all(counter_of(lab.cluster, one, CounterType.LOG_LINES_DROPPED) > 0 for one in members),
        "lines are dropped and counted",
    )
    lab.settle()
    lab.demand_everything()
    for one in members:
        missing = sum(int(str(found["count"])) for found in lab.cluster.log_events(one, MISSING_EVENT))
        assert 0 < missing <= counter_of(lab.cluster, one, CounterType.LOG_LINES_DROPPED)
