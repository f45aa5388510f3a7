"""Readers that want a part of the log: the node leaves the rest out, and positions stay what they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.cluster.wire import codecs
from ordo.consumers.consumer_member import ConsumerSettings
from ordo.follow.entries import FILTERED_SESSIONS_MAX, EntryKind, LogEntry, record_filter
from ordo.follow.executions import DECIDING_KINDS
from ordo.follow.follower import LogFollower
from ordo.runtime.errors import ArchiveError
from tests.sequencer.test_log_follower import LogWorld
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, S


class FilteredWorld(LogWorld):
    """Nodes whose log has messages of three sessions, of every length, among timers and sessions that open."""

    def __init__(self, folder: Path, seed: int = 1, **options: Any) -> None:
        super().__init__(folder, seed=seed, **options)
        self.rng = random.Random(seed)
        self.appended: list[tuple[EntryKind, int, int]] = []

    def append_mix(self, count: int, *, sessions: tuple[int, ...] = (7, 8, 9)) -> int:
        """Appends records to the logs of all nodes; the position after the last."""
        position = 0
        for _ in range(count):
            kind, session_id, record = self._record(len(self.appended), self.rng.choice(sessions))
            self.appended.append((kind, session_id, len(self.appended)))
            for node in self.nodes_of_log:
                if node.server in self.servers:
                    self.send(node.publication, [record])
                    position = node.publication.position
        return position

    def _record(self, number: int, session_id: int) -> tuple[EntryKind, int, bytes]:
        common = {"leadership_term_id": 1, "timestamp": number}
        draw = self.rng.random()
        if draw < 0.1:
            return EntryKind.TIMER, -1, codecs.TIMER_EVENT.encode(correlation_id=number, **common)
        if draw < 0.2:
            opened = codecs.SESSION_OPEN_EVENT.encode(cluster_session_id=session_id, correlation_id=number, **common)
            return EntryKind.SESSION_OPEN, session_id, opened
        header = codecs.SESSION_MESSAGE_HEADER.encode(cluster_session_id=session_id, **common)
        return EntryKind.MESSAGE, session_id, header + bytes(self.rng.randrange(5000))

    def follow_part(self, kinds: list[EntryKind] | None, session_ids: list[int] | None) -> LogFollower:
        """A follower from the start, which hands out what the archives send."""
        nodes = [node.settings for node in self.nodes_of_log]
        chosen = record_filter(kinds, session_ids)
        self.follower = LogFollower(self.client_node.client, nodes, 0, 0.5, record_filter=chosen)
        return self.follower

    def wanted(self, is_wanted: Callable[[EntryKind, int], bool]) -> list[int]:
        return [number for kind, session_id, number in self.appended if is_wanted(kind, session_id)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FilteredWorld]:
    made: list[FilteredWorld] = [FilteredWorld(tmp_path)]
    yield made[0]
    close(made[0])


def close(world: FilteredWorld) -> None:
    if world.follower is not None:
        world.follower.close()
    world.close()


def start(world: FilteredWorld) -> None:
    world.start()
    assert world.follower is not None
    world.follower.close()
    world.follower = None


@pytest.mark.parametrize("seed", range(4))
def test_what_is_wanted_comes_whole_though_datagrams_and_nodes_are_lost(tmp_path: Path, seed: int) -> None:
    world = FilteredWorld(tmp_path, seed, faults=Faults(loss=0.01))
    start(world)
    choices: list[tuple[list[EntryKind] | None, list[int] | None, Callable[[EntryKind, int], bool]]] = [
        ([EntryKind.MESSAGE], [8], lambda kind, session_id: kind is EntryKind.MESSAGE and session_id == 8),
        ([EntryKind.TIMER], None, lambda kind, _: kind is EntryKind.TIMER),
        (None, [7, 9], lambda _, session_id: session_id in (7, 9)),
        ([EntryKind.MESSAGE, EntryKind.SESSION_OPEN], None, lambda kind, _: kind is not EntryKind.TIMER),
    ]
    kinds, session_ids, is_wanted = choices[seed]
    world.commit(world.append_mix(150))
    follower = world.follow_part(kinds, session_ids)
    world.until(lambda: len(world.seen) > 10)
    world.crash(world.node_that_is_read())
    end = world.append_mix(150)
    world.commit(end, nodes=[i for i, node in enumerate(world.nodes_of_log) if node.server in world.servers])
    world.until(lambda: follower.position == end, timeout_ns=60 * S, step_ns=200_000)
    assert world.numbers == world.wanted(is_wanted)
    close(world)


@pytest.mark.parametrize("kind", [EntryKind.MESSAGE, EntryKind.TIMER])
def test_another_reader_can_begin_wherever_one_stops(world: FilteredWorld, kind: EntryKind) -> None:
    """A position is never within a message that is wanted, nor within a frame."""
    start(world)
    end = world.append_mix(150)
    world.commit(end)
    wanted = world.wanted(lambda one, _: one is kind)
    follower = world.follow_part([kind], None)
    seen: list[LogEntry] = []
    places: dict[int, int] = {0: 0}
    world.follower = None
    while follower.position != end:
        world.cycle()
        follower.work(world.clock.now())
        follower.poll(seen.append, 1)
        assert follower.position is not None
        places.setdefault(follower.position, len(seen))
    follower.close()
    assert [entry.timestamp for entry in seen] == wanted
    nodes = [world.nodes_of_log[0].settings]
    for position, count in list(places.items())[:: max(1, len(places) // 12)]:
        world.seen = []
        world.follower = LogFollower(world.client_node.client, nodes, position, 0.5, record_filter={})
        world.until(lambda: world.follower and world.follower.position == end)
        assert [entry.timestamp for entry in world.seen if entry.kind is kind] == wanted[count:]
        world.follower.close()


def test_half_a_message_is_not_passed_over(world: FilteredWorld) -> None:
    start(world)
    before = world.append_mix(30)
    world.commit(before)
    follower = world.follow_part([EntryKind.MESSAGE], [8])
    world.until(lambda: follower.position == before)
    count = len(world.seen)
    header = codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=1, cluster_session_id=8, timestamp=99)
    for node in world.nodes_of_log:
        world.send(node.publication, [header + bytes(5000)])
    end = world.nodes_of_log[0].publication.position
    world.commit(before + 3000)
    world.run(300 * MS)
    assert follower.position == before
    world.commit(end)
    world.until(lambda: follower.position == end)
    assert world.numbers[count:] == [99]


def test_what_is_left_out_is_not_sent(world: FilteredWorld) -> None:
    """Its reader stays with a node that has nothing for it."""
    start(world)
    world.append_mix(300, sessions=(7, 7, 7, 7, 7, 7, 7, 7, 7, 8))
    end = world.append_mix(100, sessions=(7,))
    world.commit(end)
    sent_before = len(world.packets)
    follower = world.follow_part([EntryKind.MESSAGE], [8])
    world.until(lambda: follower.position == end)
    assert world.numbers == world.wanted(lambda kind, session_id: kind is EntryKind.MESSAGE and session_id == 8)
    assert 10 < len(world.seen) < 60
    wanted_bytes = sum(len(entry.payload) for entry in world.seen)
    bytes_to_reader = sum(len(packet[3]) for packet in world.packets[sent_before:] if packet[2][0] == "10.0.0.9")
    assert bytes_to_reader < wanted_bytes + end // 10
    node = world.node_that_is_read()
    world.commit(world.append_mix(50, sessions=(7,)))
    world.run(3 * S, step_ns=1 * MS)
    assert world.node_that_is_read() is node
    assert follower.problem == ""
    assert follower.position == world.nodes_of_log[0].publication.position


def test_an_unwanted_stretch_is_read_once(world: FilteredWorld) -> None:
    """One read for a block, though a PAD stands for 4 KiB at most."""
    start(world)
    end = world.append_mix(300, sessions=(7,))
    world.commit(end)
    follower = world.follow_part([EntryKind.MESSAGE], [8])
    world.until(lambda: follower.position == end)
    assert world.seen == []
    (replay,) = world.node_that_is_read().server.archive.replays()
    terms = end // (64 * 1024) + 1
    assert terms > 8 and replay.read_count <= 3 * terms  # a term's end is a block's


def test_a_filter_names_every_kind_and_is_refused_when_it_makes_no_sense(world: FilteredWorld) -> None:
    assert record_filter(None, None) == {}
    assert record_filter([EntryKind.TIMER], None) == {"records": "111:20"}
    assert record_filter([EntryKind.MESSAGE], [9, 8]) == {"records": "111:1:16", "sessions": "8,9"}
    assert "sessions" not in record_filter([EntryKind.MESSAGE], range(FILTERED_SESSIONS_MAX + 1))
    assert record_filter([EntryKind.TIMER], [8]) == {}
    for kind in EntryKind:
        assert record_filter([kind], None)["records"]
    start(world)
    caller = world.remote_caller(world.nodes_of_log[0].server)
    for wrong in (
        "records=1",
        "records=1:x",
        "records=70000:1",
        "records=1:2|sessions=x",
        "records=" + "1:2," * 40 + "1:2",
    ):
        with pytest.raises(ArchiveError, match="records"):
            caller.call(control_requests.start_replay(0, f"aeron:udp?endpoint=10.0.0.9:7000|{wrong}", 140))


def test_entries_are_handed_out_as_without_a_filter(world: FilteredWorld) -> None:
    start(world)
    world.commit(world.append_mix(200))
    world.follow(0)
    world.until(lambda: len(world.seen) == 200)
    everything, world.seen = world.seen, []
    assert world.follower is not None
    world.follower.close()
    world.follow_part([EntryKind.MESSAGE], None)
    messages: list[LogEntry] = [entry for entry in everything if entry.kind is EntryKind.MESSAGE]
    world.until(lambda: len(world.seen) == len(messages))
    assert world.seen == messages


def test_consumers_have_left_out_what_most_of_the_log_is() -> None:
    """One that wants most of it reads the stream that its node sends to all such readers alike."""
    of_all = ConsumerSettings(name="risk", endpoints=["a:1"])
    assert of_all.record_filter() == {}
    assert replace(of_all, kinds=[EntryKind.TIMER]).record_filter() == record_filter([EntryKind.TIMER], None)
    assert replace(of_all, kinds=[EntryKind.MESSAGE], session_ids=[8]).record_filter() == record_filter(
        [EntryKind.MESSAGE], [8]
    )


def test_what_decides_which_requests_are_repeats_comes_of_all_sessions() -> None:
    of_all = ConsumerSettings(name="risk", endpoints=["a:1"])
    chosen = replace(of_all, session_ids=[8]).record_filter()
    assert chosen == record_filter([EntryKind.MESSAGE, EntryKind.REQUEST, *DECIDING_KINDS[1:]], None)
    assert "sessions" not in chosen
