"""Commands that wait for the file of a log: what else befalls their client, the driver or the thread meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import RegistrationError
from ordo.runtime.native.memory import FileMemoryProvider, HeapMemoryProvider
from ordo.transport.driver.conducting.log_files import FileRequest, LogFiles
from tests.transport.driver_world import MS, S, World
from tests.transport.later_files import LaterFiles
from tests.transport.test_log_files import files_of, request, second_client, work

A = "10.0.0.1"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ("aeron:ipc?stream-id=7", "stream-id=7, the command has stream_id=2"),
        ("aeron:ipc?control-mode=response|response-correlation-id=99", "response-correlation-id"),
    ],
)
def test_what_is_refused_before_its_log_is_taken_leaves_no_file(world: World, channel: str, reason: str) -> None:
    node = world.node(A)
    later = LaterFiles(node)
    taken = node.client.async_add_publication("aeron:ipc", 1)
    refused = node.client.async_add_publication(channel, 2)
    work(world, node.client)
    later.finish(2)
    work(world, node.client)
    assert node.client.get(taken) is not None
    with pytest.raises(RegistrationError, match=reason):
        node.client.get(refused)
    assert len(files_of(node)) == 1


def test_what_names_a_tag_that_is_gone_by_then_leaves_no_file(world: World) -> None:
    node = world.node(A)
    other = second_client(world, node)
    tagged = other.add_publication("aeron:ipc?tags=1,2|linger=0", 1)
    later = LaterFiles(node)
    refused = node.client.async_add_publication("aeron:ipc?session-id=tag:2", 2)
    work(world, node.client, other)
    tagged.close()
    other.close()
    world.run(15 * S, S // 10)
    later.finish()
    work(world, node.client)
    with pytest.raises(RegistrationError, match="no publication has that entity tag"):
        node.client.get(refused)
    assert files_of(node) == []


def test_a_client_that_falls_silent_when_its_log_waits_for_a_name_again_leaves_no_file(world: World) -> None:
    node = world.node(A, name_table=f"there={A}", client_liveness_timeout_ns=2 * S)
    silent = second_client(world, node)
    later = LaterFiles(node)
    silent.async_add_publication("aeron:udp?endpoint=there:40123", 1)
    work(world, node.client)
    assert len(later.asked) == 1
    world.network.pending_names.add("there")
    del node.driver.context.names.table["there"]
    later.finish()
    work(world, node.client)
    assert len(files_of(node)) == 1 and len(node.driver.conductor.waiting) == 1
    world.run(6 * S, 100 * MS)
    assert files_of(node) == [] and node.driver.conductor.waiting == []


def test_what_a_client_asked_for_before_it_closed_is_done(world: World) -> None:
    node = world.node(A)
    closing = second_client(world, node)
    subscription = node.client.add_subscription("aeron:ipc", 1)
    publication = closing.add_publication("aeron:ipc", 1)
    world.until(lambda: subscription.images)
    image = subscription.images[0]
    later = LaterFiles(node)
    closing.async_add_publication("aeron:ipc", 2)
    work(world, node.client, closing)
    publication.revoke()
    closing.close()
    world.run(2 * S, 100 * MS)
    later.finish()
    world.until(lambda: not subscription.images)
    assert image.is_revoked, "what it had revoked was only closed"
    world.run(15 * S, S // 10)
    assert files_of(node) == [] and node.driver.conductor.held.clients() == []


def test_an_answer_that_cannot_be_given_does_not_hold_those_behind_it(world: World) -> None:
    node = world.node(A)
    later = LaterFiles(node)
    ids = [node.client.async_add_publication("aeron:ipc", 1)]
    ids.append(node.client.async_add_subscription("aeron:udp?endpoint=nonsense", 1))
    ids.append(node.client.async_add_subscription("aeron:ipc", 1))
    work(world, node.client)

    def record_error(error: BaseException | str, entry: str | None = None) -> None:
        raise OSError(f"no room for {error}")

    before, node.driver.context.record_error = node.driver.context.record_error, record_error
    later.finish()
    work(world, node.client)
    node.driver.context.record_error = before
    world.run(5 * MS)
    assert node.client.get(ids[0]) is not None and node.client.get(ids[2]) is not None
    assert node.driver.conductor.held.clients() == []


# --- the thread -------------------------------------------------------------------------------------------------------


def test_after_its_end_files_are_made_and_freed_at_once(tmp_path: Path) -> None:
    files = LogFiles(FileMemoryProvider(), is_threaded=True)
    files.make(request(tmp_path / "before"))
    files.close()
    late = request(tmp_path / "late")
    files.make(late)
    assert late.is_done and late.memory is not None
    files.discard(late.memory)
    assert [path.name for path in tmp_path.iterdir()] == ["before"]


def test_what_is_handed_over_while_the_thread_ends_is_made(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            files = LogFiles(HeapMemoryProvider(), is_threaded=True)
            wanted = [request(tmp_path / f"{number}") for number in range(100)]
            files.make(wanted[0])
            ends = threading.Thread(target=files.close)
            ends.start()
            for one in wanted[1:]:
                files.make(one)
            ends.join()
            assert all(one.is_done for one in wanted)
    finally:
        sys.setswitchinterval(before)


def test_where_no_thread_can_be_begun_files_are_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LogFiles(FileMemoryProvider(), is_threaded=True)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        one = request(tmp_path / "one")
        files.make(one)
        assert one.is_done and one.memory is not None
    two = request(tmp_path / "two")
    files.make(two)
    files.discard(one.memory)
    files.flush()
    assert two.is_done and [path.name for path in tmp_path.iterdir()] == ["two"]
    files.close()


def test_a_driver_that_cannot_be_told_of_a_file_gets_the_next_ones(tmp_path: Path) -> None:
    def refuse() -> None:
        raise OSError("the event is gone")

    files = LogFiles(FileMemoryProvider(), is_threaded=True, on_made=refuse)
    wanted: list[FileRequest] = [request(tmp_path / str(number)) for number in range(2)]
    for one in wanted:
        files.make(one)
    files.flush()
    assert all(one.is_done for one in wanted)
    assert [str(error) for error in files.take_errors()] == ["the event is gone"] * 2
    files.close()
