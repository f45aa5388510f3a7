"""Files of logs are made and freed off the duty cycle: who waits for one, who does not, and that none is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import RegistrationError, StorageError, StorageExistsError, StorageFullError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider, HeapMemoryProvider, Memory
from ordo.runtime.random import RandomSource
from ordo.transport.client.client import TransportClient
from ordo.transport.control.commands import ErrorCode
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.conducting.held_commands import HELD_MAX
from ordo.transport.driver.conducting.log_files import FileRequest, LogFiles
from ordo.transport.driver.media_driver import MediaDriver
from tests.patience import patient
from tests.transport.driver_world import MS, Collector, Feeder, Node, S, World, transfer
from tests.transport.later_files import LaterFiles

A, B = "10.0.0.1", "10.0.0.2"
CHANNEL = f"aeron:udp?endpoint={B}:40123"
PAGE = 4096


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def files_of(node: Node) -> list[str]:
    """The names of the logs in a driver's folder."""
    folder = node.driver.directory
    return [f for kind in ("publications", "images") for f in node.memory.list_files(f"{folder}/{kind}")]


def second_client(world: World, node: Node) -> TransportClient:
    """A client beside that of the node, which heard of it already."""
    client = node.new_client()
    client.add_counter(1500, "a command of this client was answered")
    return client


def work(world: World, *clients: TransportClient, cycles: int = 4) -> None:
    for _ in range(cycles):
        world.turn()
        for client in clients:
            client.do_work(world.clock.now())


# --- commands ---------------------------------------------------------------------------------------------------------


def test_commands_of_others_are_served_while_a_log_is_made(world: World) -> None:
    node = world.node(A)
    other = second_client(world, node)
    later = LaterFiles(node)
    waits = node.client.async_add_publication("aeron:ipc", 1)
    work(world, node.client)
    assert len(later.asked) == 1
    assert other.add_subscription("aeron:ipc", 2) is not None
    assert other.add_counter(1501, "another") is not None
    work(world, node.client)
    assert node.client.get(waits) is None
    later.finish()
    world.until(lambda: node.client.get(waits))
    other.close()


def test_a_client_is_answered_in_the_order_in_which_it_asked(world: World) -> None:
    node = world.node(A)
    later = LaterFiles(node)
    client = node.client
    ids = [
        client.async_add_publication("aeron:ipc", 1),
        client.async_add_subscription("aeron:ipc", 1),
        client.async_add_exclusive_publication("aeron:ipc", 2),
        client.async_add_counter(1500, "a counter"),
    ]
    work(world, client)
    assert len(later.asked) == 2, "the log of a command that is held is made ahead of its turn"
    assert [bool(client.get(one)) for one in ids] == [False] * 4
    later.finish()
    work(world, client)
    assert [bool(client.get(one)) for one in ids] == [True, True, False, False]
    later.finish()
    work(world, client)
    assert all(client.get(one) for one in ids[2:])


def test_two_clients_that_ask_for_one_publication_share_its_log(world: World) -> None:
    node = world.node(A)
    other = second_client(world, node)
    later = LaterFiles(node)
    mine, theirs = (client.async_add_publication("aeron:ipc", 1) for client in (node.client, other))
    work(world, node.client, other)
    later.finish(2)
    work(world, node.client, other)
    one, same = node.client.get(mine), other.get(theirs)
    assert one is not None and same is not None and one.session_id == same.session_id
    assert len(files_of(node)) == 1
    other.close()


def test_a_client_that_closes_while_its_log_is_made_leaves_nothing(world: World) -> None:
    node = world.node(A, publication_linger_timeout_ns=1 * MS)
    closing = second_client(world, node)
    later = LaterFiles(node)
    counters = node.driver.counters.available
    for stream_id in range(3):
        closing.async_add_publication("aeron:ipc", stream_id)
    work(world, node.client)
    closing.close()
    world.run(12 * S, 100 * MS)
    later.finish(3)
    world.run(3 * S, 100 * MS)
    assert files_of(node) == [] and node.driver.conductor.held.clients() == []
    assert node.driver.counters.available >= counters


def test_a_client_that_falls_silent_while_its_log_is_made_leaves_nothing(world: World) -> None:
    node = world.node(A, client_liveness_timeout_ns=2 * S, publication_linger_timeout_ns=1 * MS)
    silent = second_client(world, node)
    later = LaterFiles(node)
    silent.async_add_exclusive_publication("aeron:ipc", 1)
    work(world, node.client)
    world.run(6 * S, 100 * MS)
    assert node.driver.system_counter(24) == 1, "client liveness timeouts"
    later.finish()
    world.run(1 * S, 100 * MS)
    assert files_of(node) == []


def test_no_room_is_told_to_the_client_that_asked(world: World) -> None:
    node = world.node(A, memory=HeapMemoryProvider(capacity_bytes=32 << 20))
    other = second_client(world, node)
    later = LaterFiles(node)
    refused = node.client.async_add_publication("aeron:ipc?term-length=16m", 1)
    taken = other.async_add_publication("aeron:ipc?term-length=64k", 1)
    work(world, node.client, other)
    later.finish(2)
    work(world, node.client, other)
    with pytest.raises(RegistrationError, match="not enough space") as told:
        node.client.get(refused)
    assert told.value.code == ErrorCode.STORAGE_SPACE
    assert other.get(taken) is not None
    other.close()


def test_a_refused_command_leaves_no_file(world: World) -> None:
    node = world.node(A)
    later = LaterFiles(node)
    ids = [node.client.async_add_exclusive_publication("aeron:ipc?session-id=7", 1) for _ in range(2)]
    work(world, node.client)
    later.finish(2)
    work(world, node.client)
    assert node.client.get(ids[0]) is not None
    with pytest.raises(RegistrationError, match="session-id=7, clashing"):
        node.client.get(ids[1])
    assert len(files_of(node)) == 1


def test_commands_beyond_the_bound_wait_in_the_ring(world: World) -> None:
    node = world.node(A, counters_values_length=1 << 18, ipc_term_length=1 << 16)
    later = LaterFiles(node)
    wanted = HELD_MAX + 40
    ids = [node.client.async_add_exclusive_publication("aeron:ipc", one) for one in range(wanted)]
    work(world, node.client, cycles=200)
    assert len(later.asked) == HELD_MAX and node.driver.conductor.held.is_full
    later.finish(1)
    work(world, node.client)
    assert len(later.asked) == HELD_MAX
    while later.asked:
        later.finish(30)
        work(world, node.client)
    world.until(lambda: all(node.client.get(one) for one in ids))


# --- images -----------------------------------------------------------------------------------------------------------


def test_an_image_is_built_when_its_log_is_there(world: World) -> None:
    sender, receiver = world.node(A), world.node(B)
    later = LaterFiles(receiver)
    subscription = receiver.client.add_subscription(CHANNEL, 7)
    publication = sender.client.add_publication(CHANNEL, 7)
    world.until(lambda: later.asked)
    world.run(300 * MS)
    assert len(later.asked) == 1, "one for all SETUP frames of a stream"
    assert not publication.is_connected and not subscription.images
    later.finish()
    world.until(lambda: publication.is_connected)
    collector = Collector(subscription)
    transfer(world, Feeder(publication, 100), [collector])


def test_a_subscription_that_ends_while_its_image_is_made_leaves_nothing(world: World) -> None:
    sender, receiver = world.node(A), world.node(B)
    later = LaterFiles(receiver)
    subscription = receiver.client.add_subscription(CHANNEL, 7)
    publication = sender.client.add_publication(CHANNEL, 7)
    world.until(lambda: later.asked)
    subscription.close()
    world.run(100 * MS)
    later.finish()
    world.run(100 * MS)
    assert files_of(receiver) == [] and not receiver.errors
    receiver.client.add_subscription(CHANNEL, 7)
    world.until(lambda: later.asked)
    later.finish()
    world.until(lambda: publication.is_connected)


def test_a_driver_that_ends_while_logs_are_made_leaves_no_file() -> None:
    world = World()
    node = world.node(A, delete_directory_on_shutdown=False)
    later = LaterFiles(node)
    for stream_id in range(2):
        node.client.async_add_publication("aeron:ipc", stream_id)
    work(world, node.client)
    assert len(later.asked) == 2
    node.driver.on_close()
    assert files_of(node) == []


# --- drawn faults -----------------------------------------------------------------------------------------------------


class Drawn(LaterFiles):
    """Makes files after drawn delays; some have no room."""

    def __init__(self, node: Node, seed: int) -> None:
        super().__init__(node)
        self.random = RandomSource(seed).stream("log files")
        self.refused: set[str] = set()

    def step(self) -> None:
        """Make nothing, or some files."""
        for _ in range(self.random.choice((0, 0, 1, 3))):
            if self.asked and self.random.random() < 0.2:
                request = self.asked.popleft()
                request.error, request.is_done = StorageFullError("not enough space: drawn"), True
                self.refused.add(request.path)
                self.driver.on_logs_made()
            self.finish()


@pytest.mark.parametrize("seed", range(12))
def test_every_command_has_one_answer_and_no_file_is_left_however_slow_they_are_made(seed: int) -> None:
    world = World(seed, publication_linger_timeout_ns=1 * MS)
    node = world.node(A)
    drawn = Drawn(node, seed)
    clients = [node.new_client() for _ in range(3)]
    asked: dict[TransportClient, list[int]] = {client: [] for client in clients}
    kept: list[object] = []
    answered = 0
    for turn in range(400):
        client = drawn.random.choice(clients)
        if turn < 120:
            stream_id, is_shared = drawn.random.randrange(4), drawn.random.random() < 0.5
            add = client.async_add_publication if is_shared else client.async_add_exclusive_publication
            asked[client].append(add("aeron:ipc", stream_id))
        drawn.step()
        work(world, node.client, *clients, cycles=1)
        for one, ids in asked.items():
            answered += take_in_order(one, ids, kept)
    assert not any(asked.values()) and answered == 120
    assert len(files_of(node)) == len(node.driver.conductor.publications.ipc) > 0
    for client in clients:
        client.close()
    world.run(15 * S, 100 * MS)
    assert files_of(node) == []
    assert drawn.refused, "none was refused: the seed shows little"
    world.close()


def take_in_order(client: TransportClient, ids: list[int], kept: list[object]) -> int:
    """Take the answers that a client has; those of later requests never come first. How many there were."""
    count = 0
    while ids:
        try:
            found = client.get(ids[0])
        except RegistrationError:
            found = None
        else:
            if found is None:
                break
            kept.append(found)
        ids.pop(0)
        count += 1
    for later in ids[1:]:
        assert client.get(later) is None, "answered before an earlier one"
    return count


# --- real files -------------------------------------------------------------------------------------------------------


class Held(FileMemoryProvider):
    """Creates and removes nothing on the thread before it may; fails at one name."""

    def __init__(self, is_held: bool = True) -> None:
        self.may = threading.Event()
        self.reached = threading.Event()
        if not is_held:
            self.may.set()
        self.caller = threading.current_thread()
        self.did: list[tuple[str, str]] = []

    def create(self, path: str, length_bytes: int, sparse: bool = True) -> Memory:
        self._wait("create", path)
        return super().create(path, length_bytes, sparse)

    def remove(self, path: str) -> None:
        self._wait("remove", path)
        if path.endswith("bad"):
            raise StorageError(f"cannot remove file: path={path}")
        super().remove(path)

    def _wait(self, what: str, path: str) -> None:
        if threading.current_thread() is not self.caller and path.endswith((".logbuffer", "bad", "good")):
            self.reached.set()
            assert self.may.wait(patient(30))
            self.did.append((what, path.rsplit("/", 1)[1]))


def request(path: Path, length_bytes: int = PAGE, sparse: bool = True) -> FileRequest:
    return FileRequest(str(path), length_bytes, sparse, ((0, PAGE),))


def test_a_driver_serves_others_while_its_thread_makes_a_file(tmp_path: Path) -> None:
    memory = Held()
    driver = MediaDriver(MediaDriverSettings(directory=f"{tmp_path}/driver", ipc_term_length=1 << 16), memory=memory)
    with driver:
        clock = SystemClock()

        def connect() -> TransportClient:
            return TransportClient(
                driver.directory, clock=clock, memory=FileMemoryProvider(), invoker=lambda: driver.do_work(clock.now())
            )

        waiting, served = connect(), connect()
        one = waiting.async_add_publication("aeron:ipc", 1)
        while not memory.reached.is_set():
            driver.do_work(clock.now())
        assert served.add_subscription("aeron:ipc", 2) is not None
        assert served.add_counter(1500, "another") is not None
        waiting.do_work(clock.now())
        assert waiting.get(one) is None
        memory.may.set()
        while waiting.get(one) is None:
            driver.park(clock.now(), 1 * S)  # ended by the thread
            driver.do_work(clock.now())
            waiting.do_work(clock.now())
        assert len(memory.list_files(f"{driver.directory}/publications")) == 1
        waiting.close()
        served.close()
    assert not Path(driver.directory).exists()


def test_a_thread_makes_files_in_order_and_frees_one_for_each(tmp_path: Path) -> None:
    memory = Held()
    made = threading.Semaphore(0)
    files = LogFiles(memory, is_threaded=True, on_made=made.release)
    ended = [memory.create(str(tmp_path / f"old {number}.logbuffer"), PAGE) for number in range(2)]
    for log in ended:
        files.discard(log)
    assert memory.reached.wait(patient(30)), "the thread has begun with the first"
    requests = [request(tmp_path / f"new {number}.logbuffer") for number in range(2)]
    for one in requests:
        files.make(one)
    assert not any(one.is_done for one in requests)
    memory.may.set()
    files.flush()
    assert [name for what, name in memory.did if what == "create"] == ["new 0.logbuffer", "new 1.logbuffer"]
    assert [name for what, name in memory.did if what == "remove"] == ["old 0.logbuffer", "old 1.logbuffer"]
    assert memory.did[-1][0] == "create", "the last was made with what ended before it freed already"
    assert all(one.memory is not None and len(one.memory) == PAGE for one in requests)
    assert made.acquire(blocking=False) and made.acquire(blocking=False)
    files.close()
    late = memory.create(str(tmp_path / "late"), PAGE)
    files.discard(late)
    assert late.closed and not (tmp_path / "late").exists()


def test_what_cannot_be_made_or_removed_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    memory = Held(is_held=False)
    files = LogFiles(memory, is_threaded=True)
    taken = tmp_path / "taken"
    taken.touch()
    bad, good = request(taken), request(tmp_path / "good")
    files.make(bad)
    files.make(good)
    files.discard(memory.create(str(tmp_path / "bad"), PAGE))
    files.flush()
    assert isinstance(bad.error, StorageExistsError) and bad.memory is None
    assert good.error is None and good.memory is not None
    assert [str(error) for error in files.take_errors()] == [f"cannot remove file: path={tmp_path / 'bad'}"]
    assert files.take_errors() == []
    files.close()


def test_the_thread_runs_on_all_cores_although_the_driver_that_asks_is_on_one(tmp_path: Path) -> None:
    found: list[set[int]] = []
    before = os.sched_getaffinity(0)
    files = LogFiles(FileMemoryProvider(), is_threaded=True, on_made=lambda: found.append(os.sched_getaffinity(0)))
    os.sched_setaffinity(0, {max(before)})
    try:
        files.make(request(tmp_path / "one"))
        files.flush()
    finally:
        os.sched_setaffinity(0, before)
    assert found == [before]
    files.close()


def test_without_a_thread_each_is_made_and_freed_at_once() -> None:
    memory = HeapMemoryProvider()
    files = LogFiles(memory, is_threaded=False)
    one = FileRequest("/sim/one", PAGE, True, ((0, PAGE),))
    files.make(one)
    assert one.is_done and one.memory is not None and memory.exists("/sim/one")
    files.discard(one.memory)
    assert not memory.exists("/sim/one")
    files.close()


class Small(FileMemoryProvider):
    """A folder with room for four pages, less what its files take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def usable_bytes(self, directory: str) -> int:
        return 4 * PAGE - sum(path.stat().st_size for path in self.folder.iterdir())


def test_a_new_log_has_the_room_of_those_that_wait_to_be_freed(tmp_path: Path) -> None:
    memory = Small(tmp_path)
    files = LogFiles(memory, is_threaded=True)
    for old in [memory.create(str(tmp_path / f"old {number}"), PAGE) for number in range(3)]:
        files.discard(old)
    wanted, too_much = request(tmp_path / "wanted", 3 * PAGE), request(tmp_path / "too much", 4 * PAGE)
    files.make(wanted)
    files.make(too_much)
    files.flush()
    assert wanted.error is None and isinstance(too_much.error, StorageFullError)
    assert [path.name for path in tmp_path.iterdir()] == ["wanted"]
    files.close()
