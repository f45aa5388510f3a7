"""A member whose log has other lengths than that of its leader says so, and ends (see `renewed_log.txt`)."""

from __future__ import annotations

import pytest

from tests.scenarios.runner import Scenario
from tests.simulation.history import Violation


def test_a_member_that_kept_its_log_does_not_follow_one_that_was_begun_anew() -> None:
    scenario = Scenario()
    commands = ("cluster nodes=3 appointed_leader_id=0", "run until connected", "write 10", "end shutdown")
    for command in commands:
        scenario.run(command)
    kept = scenario.world.nodes[2]
    store = kept.disk.stores.pop(kept.state_path)
    assert scenario.run("renew 128k 1408") == ["begins anew"]
    kept.disk.stores[kept.state_path] = store
    scenario.run("boot all")
    with pytest.raises(Violation, match=r"log_term_length = 131072 .* that of this member 65536 .*renew-log"):
        scenario.run("run 5s")
    scenario.close()
