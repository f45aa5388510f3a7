"""Snapshots that a copy of the process writes while the service goes on; what becomes of copies that fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.recorder import Recording
from ordo.cluster.container.process_copy import ProcessCopier
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire import codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.service_api.service import ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import errors_of, record_snapshot
from tests.patience import patient

DEADLINE_S = 30.0
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


class Copier(ProcessCopier):
    """Copies whatever threads the tests' own process has, and counts the copies."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def find_obstacle(self) -> str:
        return ""

    def copy(self, write: Any) -> Any:
        self.count += 1
        self.last = super().copy(write)
        return self.last


class Notes(ClusteredService):
    """Keeps messages. What its copy does before it writes them is `before_write`."""

    def __init__(self) -> None:
        self.notes: list[bytes] = []
        self.before_write: Callable[[], object] = lambda: None

    def on_start(self, cluster: Any, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.notes = list(snapshot.messages())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.notes.append(payload)
        if payload == b"timer":
            self.cluster.schedule_timer(len(self.notes), timestamp + 1000)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        self.before_write()
        for note in self.notes:
            writer.write_message(note)


class World:
    """A container whose service is copied for snapshots."""

    def __init__(self, directory: Path) -> None:
        self.node = ServiceNode(directory)
        self.service = Notes()
        self.copier = Copier()
        self.gate = directory / "gate"
        self.container: ServiceContainer
        self.acks: list[Any] = []
        self.begun: list[Any] = []

    def start(self, service: ClusteredService | None = None) -> ServiceContainer:
        self.node.set_recovery()
        self.container = self.node.container(service or self.service)
        self.container.snapshots.copier = self.copier
        self.node.begin_term(0, leads=False)
        self.node.open_session(1)
        self.node.message(1, b"before")
        self.node.message(1, b"timer")
        return self.container

    def wait_for_gate(self) -> None:
        while not self.gate.exists():
            time.sleep(0.002)

    def run(self, until: Callable[[], object]) -> None:
        """Lets real time pass, too: a copy is a process."""
        deadline = time.monotonic() + patient(DEADLINE_S)
        while not until():
            assert time.monotonic() < deadline, f"hold={self.container.hold} acks={self.acks}"
            self.node.cycle(self.container)
            for name, values in self.node.asked():
                if name == "ServiceAck":
                    self.acks.append(values)
                elif name == "SnapshotBegun":
                    self.begun.append(values)
            time.sleep(0.0005)

    def execute(self) -> None:
        self.node.commit()
        self.run(lambda: self.node.service_position.value == self.node.commit_position.value)

    def ack_of(self, position: int) -> Any:
        self.run(lambda: any(ack.log_position == position for ack in self.acks))
        return next(ack for ack in self.acks if ack.log_position == position)

    def record(self) -> Recording:
        self.run(lambda: 106 in self.node.client.by_stream)
        return record_snapshot(self.node, self.container)

    def read(self, recording: Recording) -> tuple[Any, list[bytes]]:
        """The container's state and the service's messages."""
        while self.node.archive.do_work(0):
            pass
        reader = self.node.archive.reader(recording.recording_id, None)
        messages = container_snapshot.payloads(reader.messages())
        return container_snapshot.decode(messages), list(messages)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.container.on_close()
    world.node.close()


def test_the_service_goes_on_and_the_snapshot_is_of_the_record_that_ordered_it(world: World) -> None:
    world.start()
    world.service.before_write = world.wait_for_gate
    position = world.node.snapshot_action()
    world.node.open_session(2)
    world.node.message(2, b"after")
    world.node.message(2, b"timer")
    world.execute()
    assert world.service.notes == [b"before", b"timer", b"after", b"timer"], "executed while the copy waits"
    assert [(one.log_position, one.service_id) for one in world.begun] == [(position, 0)]
    recording = world.record()
    assert world.acks[1:] == []
    world.gate.touch()
    ack = world.ack_of(position)
    assert (ack.relevant_id, ack.timestamp) == (recording.recording_id, 1000)
    state, notes = world.read(recording)
    assert notes == [b"before", b"timer"]
    assert (state.log_position, [one.cluster_session_id for one in state.sessions]) == (position, [1])
    assert state.timers == ((2, 2000),)


def test_a_copy_writes_what_a_service_that_stands_still_would_write(world: World) -> None:
    class Standing(Notes):
        can_fork = False

    found: list[Any] = []
    for service in (Notes(), Standing()):
        if found:
            world.container.on_close()
            world.node.close()
            world.node = ServiceNode(world.node.directory / "second")
            world.acks.clear()
        world.start(service)
        position = world.node.snapshot_action()
        world.node.commit()
        recording = world.record()
        world.ack_of(position)
        found.append(world.read(recording))
    assert found[0] == found[1]
    assert world.copier.count == 1
    assert len(world.begun) == 1, "who stands still says nothing before it is done"


def test_what_a_standbys_snapshot_is_compared_with_is_told_behind_the_snapshot_under_way(world: World) -> None:
    """The module leaves what is told of the second in the stream until the first is done, and with it the ack."""

    class Hashed(Notes):
        def state_hash(self) -> bytes:
            return b"".join(self.notes)

    world.start(service := Hashed())
    service.before_write = world.wait_for_gate
    position = world.node.snapshot_action()
    copied = world.node.snapshot_action(codecs.FOR_MEMBERS)
    world.node.message(1, b"after")
    world.node.commit()
    recording = world.record()
    for _ in range(50):
        world.run(lambda: True)
        world.node.cycle(world.container)
    world.run(lambda: world.begun)
    assert [one.log_position for one in world.begun] == [position] and service.notes[-1] != b"after"
    world.gate.touch()
    assert world.ack_of(position).relevant_id == recording.recording_id
    world.run(lambda: service.notes[-1] == b"after" and len(world.begun) == 2)
    assert [one.log_position for one in world.begun] == [position, copied]


def fail(*_: Any) -> None:
    raise OSError("disk on fire")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(*_: Any) -> None:
    os._exit(3)


@pytest.mark.parametrize(
    "action, text", [(fail, "disk on fire"), (die, "was killed by signal 9"), (leave, "ended with status 3")]
)
def test_a_copy_that_fails_leaves_no_snapshot_and_the_service_goes_on(
    world: World, action: Callable[[], None], text: str
) -> None:
    world.start()
    world.service.before_write = action
    position = world.node.snapshot_action()
    world.node.message(1, b"after")
    world.execute()
    assert world.ack_of(position).relevant_id == -1
    assert world.service.notes[-1] == b"after"
    [error] = errors_of(world.node, world.container)
    assert text in error.text and f"on_take_snapshot at position {position}" in error.text
    world.service.before_write = lambda: None
    del world.node.client.by_stream[106]
    again = world.node.snapshot_action()
    world.node.commit()
    recording = world.record()
    assert world.ack_of(again).relevant_id == recording.recording_id


def test_a_copy_that_hangs_is_given_up(world: World) -> None:
    world.start().snapshots.silence_ns_max = 50_000_000
    world.service.before_write = lambda: time.sleep(3600)
    position = world.node.snapshot_action()
    world.node.message(1, b"after")
    world.execute()
    assert world.ack_of(position).relevant_id == -1
    assert world.service.notes[-1] == b"after"
    assert world.copier.last.is_gone()


def test_a_second_order_waits_for_the_first_snapshot(world: World) -> None:
    world.start()
    world.service.before_write = world.wait_for_gate
    first = world.node.snapshot_action()
    world.node.message(1, b"between")
    second = world.node.snapshot_action()
    world.node.message(1, b"after")
    world.node.commit()
    recording = world.record()
    world.run(lambda: world.container.hold)
    assert world.service.notes[-1] == b"between"
    world.gate.touch()
    assert world.ack_of(first).relevant_id == recording.recording_id
    following = world.record()
    assert world.ack_of(second).relevant_id == following.recording_id
    assert [world.read(one)[1] for one in (recording, following)] == [
        [b"before", b"timer"],
        [b"before", b"timer", b"between"],
    ]
    world.run(lambda: world.service.notes[-1] == b"after")


def test_closing_ends_the_copy(world: World) -> None:
    world.start()
    world.service.before_write = world.wait_for_gate
    world.node.snapshot_action()
    world.execute()
    assert not world.copier.last.is_gone()
    world.container.on_close()
    assert world.copier.last.is_gone()


def test_a_copy_touches_nothing_of_the_node(world: World) -> None:
    world.start()

    def idle() -> None:
        wakes = world.node.client.wakes
        world.service.cluster.idle()
        world.service.notes.append(b"idle" if world.node.client.wakes == wakes else b"works")

    world.service.before_write = idle
    position = world.node.snapshot_action()
    world.node.commit()
    recording = world.record()
    world.ack_of(position)
    assert world.read(recording)[1][-1] == b"idle"
    assert world.service.notes[-1] == b"timer", "what the copy has changed is changed in the copy"


def test_a_large_state_comes_through(world: World) -> None:
    world.start()
    world.service.notes = [bytes([number % 251]) * 100_000 for number in range(100)]
    notes = list(world.service.notes)
    position = world.node.snapshot_action()
    world.node.commit()
    recording = world.record()
    world.ack_of(position)
    assert world.read(recording)[1] == [*notes, b"before", b"timer"]


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert "threads" in ProcessCopier().find_obstacle()
    finally:
        stop.set()
        thread.join()
