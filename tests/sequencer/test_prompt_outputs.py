"""How soon an application answers: in the duty cycle that heard of its input."""

from __future__ import annotations

import pytest

from tests.simulation.options import Options
from tests.simulation.world import World

S = 1_000_000_000


def test_an_output_is_sent_in_the_duty_cycle_that_executed_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, Options(clients=1, applications=1))
    world.start()
    assert world.run(10 * S, lambda: world.is_steady())
    world.run(1 * S)
    application = world.applications[0].application
    assert application is not None and application._session is not None
    work, session, cluster = application.work, application._session, application.executor.cluster
    left: list[bool] = []

    def watch() -> int:
        made_before = cluster.outputs_made
        count = work()
        if cluster.outputs_made > made_before:
            left.append(session.outputs.has_unsent or session.unsent > 0)
        return count

    monkeypatch.setattr(application, "work", watch)
    world.run(1 * S)
    assert len(left) > 20 and not any(left)
