"""A leader that is told to end hands over first, and takes nothing from its successor that it would not wait for."""

from __future__ import annotations

from tests.scenarios.runner import Scenario

END_NS_MAX = 5_000_000_000


def test_a_leader_that_ends_asks_its_successor_for_no_replay_of_the_log() -> None:
    """The successor would wait for it five seconds in vain, and write that down as an error."""
    scenario = Scenario()
    try:
        for line in ("cluster nodes=3", "run until connected", "write 20 3000", "run 50ms"):
            scenario.run(line)
        former = scenario.world.leader()
        assert former is not None
        module = former.module
        joined = []

        def has_ended() -> bool:
            follows = module.core.leader_member_id not in (-1, former.member_id)
            joined.append(follows and module.log.is_open)
            return bool(module.member.has_ended)

        module.end()
        assert scenario.world.run(END_NS_MAX, has_ended)
        assert module.core.leader_member_id not in (-1, former.member_id), "it knows its successor"
        assert not any(joined)
    finally:
        scenario.close()
