"""Applications beside simulated clusters: each output once, whoever is killed or stopped, of committed log only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.app_service import check_outputs
from tests.simulation.options import Options
from tests.simulation.run import run_seed
from tests.simulation.test_planted import COMPARED, STANDING_BY, WRITTEN, WRITTEN_BY_ID, S
from tests.simulation.world import World
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("requests", ["", "journal"])
@pytest.mark.parametrize("seed", few_of(range(1, 4), [1]))
def test_every_request_has_its_output_once(requests: str, seed: int) -> None:
    outcome = run_seed(seed, replace(WRITTEN, requests=requests))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.faults["application kill"] > 0


@pytest.mark.parametrize("seed", few_of(range(1, 5), [1]))
def test_an_id_of_an_output_is_executed_once(seed: int) -> None:
    """Each output is written again with its id, by whichever instance, and after members and instances restarted."""
    outcome = run_seed(seed, replace(WRITTEN_BY_ID, requests="ids"))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.faults["application kill"] > 0


def test_outputs_with_ids_wait_for_the_level_of_the_log() -> None:
    """Nothing is executed twice, and nothing lost: the instances hold what they have made."""
    quiet = replace(WRITTEN_BY_ID, applications=1, nodes=1, clients=1, kill_mean_ns=0, power_loss_mean_ns=0)
    world = World(1, replace(quiet, application_mean_ns=0, client_mean_ns=0, levels=False))
    try:
        world.start()
        world.run(2 * S)
        (instance,) = world.applications
        assert instance.application is not None
        assert "protocol level 5" in instance.application.held
        assert instance.application.executor.cluster.outputs_made > 10
        assert instance.application.executor.outputs_accepted == 0
    finally:
        world.forget()


@pytest.mark.thorough
def test_one_instance_writes_and_others_take_over() -> None:
    elected = 0
    for seed in range(1, 7):
        outcome = run_seed(seed, replace(STANDING_BY))
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        elected += outcome.faults["application elected"]
    assert elected > 6, "in six runs with kills and pauses, more than the first one wrote"


@pytest.mark.parametrize("seed", few_of(range(1, 4), [1]))
def test_every_member_knows_what_a_canary_told(seed: int) -> None:
    outcome = run_seed(seed, replace(COMPARED))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert outcome.faults["application difference"] > 0


@pytest.mark.parametrize("seed", few_of(range(1, 4), [1]))
def test_all_instances_go_on_with_other_code_from_one_record_on(seed: int) -> None:
    outcome = run_seed(seed, replace(WRITTEN, application_upgrade=True))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"


def test_a_log_of_an_earlier_level_has_no_differences() -> None:
    quiet = replace(
        COMPARED, nodes=1, clients=1, levels=False, kill_mean_ns=0, application_mean_ns=0, duration_ns=S // 2
    )
    assert "has differences to tell" in str(run_seed(1, quiet).violation)


def test_one_instance_is_enough() -> None:
    outcome = run_seed(3, replace(WRITTEN, applications=1, nodes=1))
    assert outcome.violation is None


def test_an_idle_instance_keeps_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it answers queries, it says outside of the log, however often, which keeps no session alive."""
    monkeypatch.setattr("ordo.applications.app_queries.SERVES_INTERVAL_NS", S // 50)
    world = World(1, Options(applications=1, clients=1, session_timeout_ns=S))
    try:
        world.start()
        world.clients[0].is_working = False
        (instance,) = world.applications
        session_ids: set[int] = set()
        for _ in range(8):
            world.run(S)
            assert instance.application is not None
            session_ids.add(instance.application.session_id)
        assert len(session_ids) == 1 and min(session_ids) > 0
    finally:
        world.forget()


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = (run_seed(4, replace(WRITTEN)) for _ in range(2))
    assert first.violation is None
    assert first.digest == second.digest


def test_what_is_wrong_with_outputs_is_said() -> None:
    asked = ["WRITE session=1 client=0 number=1", "READ session=1 client=0 number=2"]
    assert check_outputs([*asked, "output 1 record 0 1", "output 2 timer 3 9", "output 3 record 0 2"]) == ""
    assert "2 requests, 1 outputs to them" in check_outputs([*asked, "output 1 record 0 1"])
    assert "differ at 0" in check_outputs([*asked, "output 1 record 0 2", "output 2 record 0 1"])
