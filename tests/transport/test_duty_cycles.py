"""What many streams at once cost one duty cycle: their timers, set-ups and files are shared out over several."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from ordo.runtime.errors import RegistrationError, StorageError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import FileMemoryProvider, HeapMemoryProvider, Memory
from ordo.transport.driver.conducting.disposal import WAITING_MAX, LogDisposal
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


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_thread_frees_memory_and_files(tmp_path: Path) -> None:
    memory = FileMemoryProvider()
    logs = [memory.create(str(tmp_path / f"{number}.logbuffer"), 4096) for number in range(3)]
    disposal = LogDisposal(memory, is_threaded=True)
    assert disposal.flush() is False
    for log in logs:
        disposal.discard(log)
    disposal.flush()
    assert list(tmp_path.iterdir()) == [] and all(log.closed for log in logs)
    disposal.close()
    late = memory.create(str(tmp_path / "late"), 4096)
    disposal.discard(late)
    assert late.closed and list(tmp_path.iterdir()) == []


def test_without_a_thread_each_is_freed_at_once() -> None:
    memory = HeapMemoryProvider()
    disposal = LogDisposal(memory, is_threaded=False)
    disposal.discard(memory.create("/sim/one", 4096))
    assert not memory.exists("/sim/one") and disposal.flush() is False
    disposal.close()


class Held(FileMemoryProvider):
    """Removes nothing on the thread before it may, and fails at one name."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.caller = threading.current_thread()
        self.removed: dict[str, str] = {}

    def remove(self, path: str) -> None:
        where = threading.current_thread().name
        if threading.current_thread() is not self.caller:
            self.may.wait()
        if path.endswith("bad"):
            raise StorageError(f"cannot remove file: path={path}")
        self.removed[path] = where


def discard_all(disposal: LogDisposal, memory: Held, folder: Path, names: list[str]) -> list[str]:
    paths = [str(folder / name) for name in names]
    for path in paths:
        disposal.discard(memory.create(path, 4096))
    return paths


def test_those_that_wait_are_bounded(tmp_path: Path) -> None:
    """Beyond the bound the caller frees a log itself, so that neither memory nor files pile up."""
    memory = Held()
    disposal = LogDisposal(memory, is_threaded=True)
    names = [str(number) for number in range(WAITING_MAX + 2)]  # one is being freed, and one finds no room
    *_, last = discard_all(disposal, memory, tmp_path, names)
    assert last in memory.removed and memory.removed[last] == memory.caller.name
    memory.may.set()
    disposal.close()
    assert len(memory.removed) == len(names)
    assert list(memory.removed.values()).count("log disposal") >= WAITING_MAX


def test_what_cannot_be_removed_is_told_and_the_rest_is_freed(tmp_path: Path) -> None:
    memory = Held()
    disposal = LogDisposal(memory, is_threaded=True)
    bad, good = discard_all(disposal, memory, tmp_path, ["bad", "good"])
    memory.may.set()
    assert disposal.flush()
    assert list(memory.removed) == [good]
    assert [str(error) for error in disposal.take_errors()] == [f"cannot remove file: path={bad}"]
    assert disposal.take_errors() == []
    disposal.close()


class Later(LogDisposal):
    """Frees nothing before it has to."""

    def __init__(self, memory: HeapMemoryProvider) -> None:
        super().__init__(memory, is_threaded=False)
        self.kept: list[Memory] = []

    def discard(self, log: Memory) -> None:
        self.kept.append(log)

    def flush(self) -> bool:
        had_any = bool(self.kept)
        for log in self.kept:
            super().discard(log)
        self.kept.clear()
        return had_any


def test_a_new_stream_has_the_room_of_those_that_wait_to_be_freed(world: World) -> None:
    memory = HeapMemoryProvider(capacity_bytes=64 << 20)
    node = world.node(A, memory=memory, publication_linger_timeout_ns=1 * MS)
    disposal = node.driver.context.logs.disposal = Later(memory)
    node.client.add_publication("aeron:ipc?term-length=8m", 1).close()
    world.until(lambda: disposal.kept)
    node.client.add_publication("aeron:ipc?term-length=16m", 2)
    assert not disposal.kept and len(memory.list_files(f"/sim/{A}/publications")) == 1
    with pytest.raises(RegistrationError, match="not enough space"):
        node.client.add_publication("aeron:ipc?term-length=16m", 3)
