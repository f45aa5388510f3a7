"""A log that begins anew, where something comes between (see `renewed_log.txt`, `partly_renewed_log.txt`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ordo.cluster.admin.log_renewal import has_begun_anew, renew_log
from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.state_store import StoredState
from ordo.runtime.errors import ClusterError, StorageError
from tests.scenarios.runner import Scenario
from tests.simulation.damage import storage_of
from tests.simulation.history import Violation
from tests.simulation.nodes import SimulatedNode
from tests.simulation.renewals import set_lengths
from tests.simulation.storage import PowerLoss
from tests.thorough import few_of

ENDED = ("cluster nodes=3 appointed_leader_id=0", "run until connected", "write 10", "end shutdown")
CALLS_MAX = 1000


def ended_cluster() -> Scenario:
    """A cluster that was ended in order, with term lengths of 64k."""
    scenario = Scenario()
    for command in ENDED:
        scenario.run(command)
    return scenario


def stored(node: SimulatedNode) -> StoredState:
    with node.readable_disk(), open_stored(node.config, storage_of(node)) as store:
        return store.load()


def demand_lengths(scenario: Scenario, wanted: str) -> None:
    """All members come to life, execute the same, and have logs of these lengths."""
    scenario.run("boot all")
    assert scenario.run("run until steady") == scenario.run("run until connected") == []
    assert scenario.run("write 3") == ["answered 3 of 3"]
    scenario.run("run 200ms")
    assert set(scenario.run("lengths")) == {wanted}
    scenario.finish()
    scenario.close()


def test_a_member_that_kept_its_log_does_not_follow_one_that_was_begun_anew() -> None:
    """It ends without harm, and joins once its log was begun anew, too."""
    scenario = ended_cluster()
    kept = scenario.world.nodes[2]
    before = stored(kept)
    assert scenario.run("renew 128k 1408 0 1") == ["begins anew"]
    scenario.run("boot all")
    with pytest.raises(Violation, match=r"log_term_length = 131072 .* that of this member 65536 .*renew-log"):
        scenario.run("run 5s")
    assert not kept.is_alive
    assert stored(kept).log_recording_id == before.log_recording_id
    scenario.world.violation, scenario.world.has_failed = None, False
    renew_log(kept.config, storage_of(kept))
    demand_lengths(scenario, "128k 1408 from a snapshot")


def test_a_member_that_lost_its_store_begins_its_log_anew_with_its_leader() -> None:
    """It ended at each start with a line that told to renew its log, which is refused while a member lacks data."""
    scenario = ended_cluster()
    lacking = scenario.world.nodes[2]
    del lacking.disk.stores[lacking.state_path]
    lacking.has_lost = True
    for invariant in scenario.world.invariants:
        invariant.on_wiped(lacking)
    assert scenario.run("renew 128k 1408 0 1") == ["begins anew"]
    demand_lengths(scenario, "128k 1408 from a snapshot")


def test_a_member_that_is_renewed_again_before_it_starts_is_renewed_already() -> None:
    scenario = ended_cluster()
    assert scenario.run("renew 128k 1408") == ["begins anew"]
    node = scenario.world.nodes[1]
    before = stored(node)
    said = renew_log(node.config, storage_of(node))
    assert f"begins its log anew already at {before.log_base_position:,}" in said
    assert stored(node) == before
    demand_lengths(scenario, "128k 1408 from a snapshot")


def lose_power_before(node: SimulatedNode, number: int) -> None:
    node.disk.transactions_until_loss, node.disk.loss_follows_commit = number - 1, False


def lose_power_after(node: SimulatedNode, number: int) -> None:
    node.disk.transactions_until_loss, node.disk.loss_follows_commit = number - 1, True


def fail(node: SimulatedNode, number: int) -> None:
    node.disk.metadata_until_failure = number


def fail_to_read(node: SimulatedNode, number: int) -> None:
    node.disk.reads_until_failure = number


@pytest.mark.parametrize("interrupt", [fail, fail_to_read, lose_power_before, lose_power_after])
def test_a_renewal_that_is_interrupted_anywhere_is_done_or_not_begun(
    interrupt: Callable[[SimulatedNode, int], None],
) -> None:
    """Each of its calls to the disk fails, or is its last: the member has its log, or begins anew; again is enough."""
    scenario = ended_cluster()
    set_lengths(scenario.world, 128 * 1024, 1408)
    interrupted = 0
    for node in scenario.world.nodes:
        before = stored(node)
        for number in range(1, CALLS_MAX):
            interrupt(node, number)
            try:
                renew_log(node.config, storage_of(node))
            except (ClusterError, StorageError):
                node.disk.heal()
                node.disk.kill()
            except PowerLoss:
                node.disk.heal()
                node.disk.crash()
            else:
                node.disk.heal()
                break
            interrupted += 1
            state = stored(node)
            assert has_begun_anew(state) or state == before
        assert has_begun_anew(stored(node))
    assert interrupted >= len(scenario.world.nodes)
    demand_lengths(scenario, "128k 1408 from a snapshot")


@pytest.mark.parametrize(
    "interrupt", few_of([fail, lose_power_before, lose_power_after], [lose_power_before, lose_power_after])
)
def test_a_first_start_that_is_interrupted_anywhere_goes_on_at_the_next(
    interrupt: Callable[[SimulatedNode, int], None],
) -> None:
    """With each call to the disk, up to the first log that all have: those that die begin anew all the same."""
    number = died = 0
    while died == number:
        number += 1
        scenario = ended_cluster()
        assert scenario.run("renew 128k 1408") == ["begins anew"]
        for node in scenario.world.nodes:
            node.has_disk_faults = True
            interrupt(node, number)
        scenario.run("boot all")
        scenario.run("run 3s")
        died += any(not node.is_alive for node in scenario.world.nodes)
        for node in scenario.world.nodes:
            if node.is_alive:
                node.kill()
            node.disk.heal()
        demand_lengths(scenario, "128k 1408 from a snapshot")
    assert died > 3
