"""Readers that have caught up share one stream of their node: nobody waits for the slowest, nobody misses anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.control.live_replays import LIVE_STREAM_ID, LiveReplays
from ordo.follow.entries import LogEntry
from ordo.follow.follower import LogFollower
from ordo.follow.recordings.live_stream import LiveStream
from ordo.runtime.errors import ArchiveError
from tests.sequencer.test_log_follower import LogWorld
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, S


class Reader:
    """A follower on a host of its own."""

    def __init__(self, world: SharedWorld, address: str) -> None:
        self.node = world.node(address, image_liveness_timeout_ns=2 * S)
        self.seen: list[LogEntry] = []
        self.is_paused = False
        response = f"aeron:udp?endpoint={address}:0"
        nodes = [replace(node.settings, response_channel=response) for node in world.nodes_of_log]
        self.follower = LogFollower(self.node.client, nodes, 0, 5.0, goes_live=True)
        self._world = world

    def work(self) -> None:
        if not self.is_paused:
            self.follower.work(self._world.clock.now())
            self.follower.poll(self.seen.append, 20)

    @property
    def numbers(self) -> list[int]:
        return [entry.timestamp for entry in self.seen]


class SharedWorld(LogWorld):
    """Three nodes of one log, and readers that all begin with the first of them."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.readers: list[Reader] = []
        self.sent = 0

    def begin(self, count: int) -> None:
        self.start()
        assert self.follower is not None
        self.follower.close()
        self.follower = None
        self.readers = [Reader(self, f"10.0.1.{number}") for number in range(1, count + 1)]

    def cycle(self) -> None:
        super().cycle()
        for reader in self.readers:
            reader.work()

    def log(self, count: int) -> None:
        """Appends and commits messages at the nodes that are left."""
        left = [index for index, node in enumerate(self.nodes_of_log) if node.server in self.servers]
        self.commit(self.append(range(self.sent, self.sent + count), nodes=left), nodes=left)
        self.sent += count

    def until_all_have(self) -> None:
        awake = [reader for reader in self.readers if not reader.is_paused]
        self.until(lambda: all(len(one.seen) >= self.sent for one in awake), timeout_ns=60 * S, step_ns=500_000)
        assert all(one.numbers == list(range(self.sent)) for one in awake)

    def until_live(self) -> None:
        self.until(lambda: all(reader.follower.is_live for reader in self.readers), timeout_ns=20 * S, step_ns=1 * MS)

    def live_of(self, index: int) -> LiveReplays:
        return self.nodes_of_log[index].server.conductor.replays.live


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SharedWorld]:
    world = SharedWorld(tmp_path)
    yield world
    close(world)


def close(world: SharedWorld) -> None:
    for reader in world.readers:
        reader.follower.close()
    world.close()


def test_one_replay_feeds_all_readers_that_have_caught_up(world: SharedWorld) -> None:
    world.begin(6)
    world.log(100)
    world.until_all_have()
    world.until_live()
    archive = world.nodes_of_log[0].server.archive
    world.until(lambda: len(archive.replays()) == 1)
    assert world.live_of(0).client_count == 6
    for _ in range(3):
        world.log(40)
        world.until_all_have()
    assert len(archive.replays()) == 1
    assert all(reader.follower.is_live for reader in world.readers)
    for reader in world.readers:
        reader.follower.close()
    world.until(lambda: not archive.replays())
    assert not world.live_of(0).is_followed


def test_live_readers_see_nothing_before_it_is_committed(world: SharedWorld) -> None:
    world.begin(3)
    world.log(50)
    world.until_live()
    end = world.append(range(50, 90))
    world.run(500 * MS, step_ns=1 * MS)
    assert all(len(reader.seen) == 50 for reader in world.readers)
    world.commit(end)
    world.sent = 90
    world.until_all_have()


def test_a_slow_reader_holds_up_nobody_and_goes_back_to_a_replay_of_its_own(world: SharedWorld) -> None:
    world.begin(4)
    world.log(50)
    world.until_live()
    slow = world.readers[0]
    slow.is_paused = True
    for _ in range(6):
        world.log(60)  # several windows, and terms
        world.until_all_have()
    slow.is_paused = False
    world.until_all_have()
    assert "behind the live stream" in slow.follower.problem
    assert all(reader.follower.is_live for reader in world.readers[1:])
    world.until_live()
    world.log(30)
    world.until_all_have()


def test_readers_of_a_node_that_dies_share_the_stream_of_another(world: SharedWorld) -> None:
    world.begin(3)
    world.log(50)
    world.until_live()
    world.crash(world.nodes_of_log[0])
    world.log(50)
    world.until_all_have()
    world.until_live()
    assert world.live_of(1).client_count + world.live_of(2).client_count == 3


@pytest.mark.parametrize("seed", range(2))
def test_a_lossy_network(tmp_path: Path, seed: int) -> None:
    world = SharedWorld(tmp_path, seed=seed, faults=Faults(loss=0.02, duplication=0.02, reordering=0.05))
    world.begin(3)
    world.log(50)
    world.until_live()
    for turn in range(10):
        world.readers[turn % 3].is_paused = turn % 4 == 3
        world.log(30)
        world.run(300 * MS, step_ns=500_000)
    for reader in world.readers:
        reader.is_paused = False
    world.until_all_have()
    close(world)


def test_a_live_replay_goes_to_the_host_that_asks_for_it_only(world: SharedWorld) -> None:
    world.begin(0)
    world.log(10)
    caller = world.remote_caller(world.nodes_of_log[0].server, "10.0.0.8")
    with pytest.raises(ArchiveError, match="goes to the host that asks for it"):
        caller.call(control_requests.start_replay(0, "aeron:udp?endpoint=10.0.0.7:5000|live=true", 140))
    assert not world.live_of(0).is_followed


def test_a_client_has_one_place_in_the_stream_and_does_not_choose_its_id(world: SharedWorld) -> None:
    """One that asks a hundred times is sent one copy, and cannot keep others out by an id of its own."""
    world.begin(1)
    world.log(10)
    server = world.nodes_of_log[0].server
    caller = world.remote_caller(server, "10.0.0.8")
    with pytest.raises(ArchiveError, match="stream id 140, not 999"):
        caller.call(control_requests.start_replay(0, "aeron:udp?endpoint=10.0.0.8:5000|live=true", 999))
    for port in range(5000, 5010):
        caller.call(control_requests.start_replay(0, f"aeron:udp?endpoint=10.0.0.8:{port}|live=true", LIVE_STREAM_ID))
    world.until_live()
    assert world.live_of(0).client_count == 2
    before = len(world.packets)
    world.log(20)
    world.until_all_have()
    ports = {to[1] for _, _, to, data in world.packets[before:] if to[0] == "10.0.0.8" and len(data) > 100}
    assert ports == {5009}


def test_a_client_that_is_gone_is_sent_nothing(world: SharedWorld) -> None:
    """Its process died: nothing was said."""
    world.begin(2)
    world.log(10)
    world.until_live()
    gone = world.readers.pop()
    gone.node.crash()
    world.until(lambda: world.live_of(0).client_count == 1, timeout_ns=60 * S, step_ns=1 * MS)
    world.log(10)
    world.until_all_have()


# --- planted bugs -----------------------------------------------------------------------------------------------------


def test_a_gap_between_replay_and_live_stream_would_be_seen(
    world: SharedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that goes over before its replay has reached the place where the stream begins for it."""
    monkeypatch.setattr(LiveStream, "_has_reached", lambda *_: True)
    world.begin(1)
    reader = world.readers[0]
    patience = reader.follower._patience
    assert patience is not None
    patience.due_ns = world.clock.now() + 3600 * S
    world.log(50)
    world.until_all_have()
    world.run(50 * MS)
    monkeypatch.setattr(reader.follower, "poll", lambda *_: 0)
    world.log(40)
    patience.due_ns = 0
    world.until_live()
    monkeypatch.undo()
    world.log(40)
    world.until(lambda: reader.numbers[-1] == 129)
    assert reader.numbers != list(range(130))
