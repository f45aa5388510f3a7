"""The counters of an archive, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.archive.inspection.counters import REPLAYS, SESSIONS, WRITTEN, ArchiveCounters
from tests.archive.control_world import ControlWorld
from tests.archive.test_control import record
from tests.archive.test_control_storage import REPLAY_CHANNEL, REPLAY_STREAM, replay
from tests.archive.test_with_driver import payloads


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


def test_sessions_and_replays_are_counted_in_the_same_cycle(world: ControlWorld) -> None:
    """A program that sees its replay finds it counted; sums may be late."""
    server = world.server()
    shown = server.node.client.counters
    counters = ArchiveCounters(server.node.client, server.archive)
    counters.work(server.conductor, now_ns=0)
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(100))
    caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    caller.call(replay())
    counters.work(server.conductor, now_ns=1)
    assert [shown.get_value(shown.find(type_id)) for type_id in (SESSIONS, REPLAYS, WRITTEN)] == [1, 1, 0]
    counters.work(server.conductor, now_ns=10_000_000)
    assert shown.get_value(shown.find(WRITTEN)) > 0
    counters.close()
