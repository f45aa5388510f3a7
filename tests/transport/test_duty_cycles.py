"""What many streams at once cost one duty cycle: their timers and set-ups are shared out over several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from ordo.runtime.native.clock import VirtualClock
from tests.transport.driver_world import MS, Node, World

A, B = "10.0.0.1", "10.0.0.2"
CHANNEL = f"aeron:udp?endpoint={B}:40123"
LOOK_NS = 50_000
PER_CYCLE_MAX = 4
"""Steps of one look each in the 200 µs that a cycle has for them."""


class Slow(VirtualClock):
    """A clock at which each look takes time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock

    def now(self) -> int:
        self.clock.advance(LOOK_NS)
        return self.clock.now()

    def epoch_ms(self) -> int:
        return self.clock.epoch_ms()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def slow_down(world: World, node: Node) -> None:
    node.driver.context.clock = Slow(world.clock)


def test_streams_that_end_together_are_freed_over_several_cycles(world: World) -> None:
    node = world.node(A, publication_linger_timeout_ns=1 * MS)
    publications = [node.client.add_exclusive_publication("aeron:ipc", 1) for _ in range(20)]
    slow_down(world, node)
    for publication in publications:
        publication.close()
    counts: list[int] = []
    while counts[-1:] != [0]:
        world.turn()
        counts.append(len(node.driver.conductor.publications.ipc))
        assert len(counts) < 100_000
    freed = [before - after for before, after in zip([20, *counts], counts, strict=False) if before != after]
    assert max(freed) <= PER_CYCLE_MAX and len(freed) >= 20 // PER_CYCLE_MAX, freed
    assert node.memory.list_files(f"/sim/{A}/publications") == []


def test_images_that_are_asked_for_together_are_built_over_several_cycles(world: World) -> None:
    sender, receiver = world.node(A), world.node(B)
    for _ in range(20):
        sender.client.add_exclusive_publication(CHANNEL, 7)
    subscription = receiver.client.add_subscription(CHANNEL, 7)
    images = receiver.driver.conductor.subscriptions.images
    slow_down(world, receiver)
    counts = [0]
    while counts[-1] < 20:
        world.turn()
        counts.append(len(images.all))
        assert len(counts) < 100_000
    built = [after - before for before, after in pairwise(counts) if before != after]
    assert max(built) <= PER_CYCLE_MAX and len(built) >= 20 // PER_CYCLE_MAX, built
    world.until(lambda: len(subscription.images) == 20)


def test_commands_that_take_a_cycle_leave_the_next_to_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.node(A)
    done: list[str] = []
    conductor = node.driver.conductor
    on_command, on_timer = conductor.on_command, conductor.on_timer

    def slow(type_id: int, payload: bytes) -> None:
        on_command(type_id, payload)
        done.append("command")
        world.clock.advance(300_000)

    def timed(now_ns: int) -> None:
        on_timer(now_ns)
        done.append("timer")

    monkeypatch.setattr(conductor, "on_command", slow)
    monkeypatch.setattr(conductor, "on_timer", timed)
    for stream_id in range(3):
        node.client.async_add_publication("aeron:ipc", stream_id)
    world.clock.advance(2_000 * MS)  # the timer is due as well
    for _ in range(6):
        node.driver.do_work(world.clock.now())
        done.append("|")
    assert done == ["command", "|", "timer", "|", "command", "|", "|", "command", "|", "|"]
