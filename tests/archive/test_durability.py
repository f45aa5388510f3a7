"""What counts as durable, and what a failing disk leaves: on a simulated disk, in virtual time."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.archive.archive import Archive
from ordo.archive.recorder import Recording
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.errors import StorageError, StorageFullError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from tests.archive.streams import BACK_PRESSURED, Sink, Stream
from tests.simulation.storage import SimulatedDisk, SimulatedStorage

DELAY_NS = 1_000_000


class Node:
    """One archive on a simulated disk; `restart` after `disk.crash()` or `disk.kill()`."""

    def __init__(self, seed: int = 1, *, sync: str = "commit") -> None:
        self.clock = VirtualClock()
        self.disk = SimulatedDisk(random.Random(seed))
        self.disk.sync_delay_ns_min = self.disk.sync_delay_ns_max = DELAY_NS
        self.sync = sync
        self.restart()

    def restart(self) -> None:
        self.archive = Archive(
            "/archive",
            storage=SimulatedStorage(self.disk, self.clock),
            clock=self.clock,
            client=Sink(),
            sync=self.sync,
            segment_length_bytes=64 * 1024,
            low_space_bytes=0,
        )

    def work(self) -> int:
        return int(self.archive.do_work(self.clock.now()))

    def wait(self, duration_ns: int = DELAY_NS) -> None:
        self.clock.advance(duration_ns)


def counter_of(recording: Recording) -> int:
    assert recording.counter is not None
    return recording.counter.value


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.disk.heal()
    node.archive.close()


def test_durable_is_never_ahead_of_a_completed_sync(node: Node) -> None:
    """`sync = "commit"`: what arrives during one sync goes with the next."""
    stream = Stream()
    recording = node.archive.record(stream.image)
    node.wait()
    first = stream.offer(bytes(100))
    node.work()
    assert (recording.written_position, recording.durable_position) == (first, 0)
    later = [stream.offer(bytes(100)) for _ in range(5)][-1]
    node.work()
    node.wait(DELAY_NS - 1)
    node.work()
    assert (recording.written_position, recording.durable_position) == (later, 0)
    node.wait(1)
    node.work()
    assert recording.durable_position == first
    assert counter_of(recording) == first
    node.wait()
    node.work()
    assert recording.durable_position == counter_of(recording) == later


def test_a_new_segment_counts_only_after_the_one_before(node: Node) -> None:
    stream = Stream(mtu=8192)
    recording = node.archive.record(stream.image)
    node.wait()
    while recording.written_position <= 65536:
        before = recording.durable_position
        stream.offer(bytes(4064))
        node.work()
        assert recording.durable_position == before == 0
    node.wait()
    node.work()
    assert recording.durable_position == 65536
    node.wait()
    node.work()
    assert recording.durable_position == recording.written_position


def test_without_syncs_written_is_durable() -> None:
    node = Node(sync="none")
    stream = Stream()
    recording = node.archive.record(stream.image)
    stream.offer(bytes(100))
    node.work()
    assert recording.durable_position == recording.written_position == counter_of(recording) == 160
    node.archive.close()


@pytest.mark.parametrize("seed", range(30))
def test_power_loss_keeps_what_was_durable(seed: int) -> None:
    """Random writes, syncs and a crash that tears unsynced pages: a prefix stays, at least to the durable position."""
    node = Node(seed)
    rng = random.Random(seed)
    sent: list[bytes] = []
    for _ in range(4):
        is_new = not node.archive.recordings()
        stream = Stream(position=0 if is_new else node.archive.descriptor(0).stop_position)
        recording = node.archive.record(stream.image, recording_id=None if is_new else 0)
        for _ in range(rng.randrange(120)):
            payload = rng.randbytes(rng.choice([0, 20, 100, 1400, 3000]))
            while stream.offer(payload) == BACK_PRESSURED:
                node.work()
            sent.append(payload)
            node.wait(rng.randrange(DELAY_NS))
            node.work()
        acknowledged = recording.durable_position
        node.disk.crash()
        node.restart()
        assert node.archive.descriptor(0).stop_position >= acknowledged
        messages = [message.payload for message in node.archive.reader(0).messages()]
        assert messages == sent[: len(messages)]
        sent = messages
        node.archive.truncate(0, _message_end(node.archive))
    node.archive.close()


def _message_end(archive: Archive) -> int:
    """The position after the last whole message: a fragment torn from its message is no use to these tests."""
    reader = archive.reader(0)
    for _ in reader.messages():
        pass
    return int(reader.position)


@pytest.mark.parametrize("kind", ["writes_until_failure", "syncs_until_failure"])
def test_the_nth_failing_call_ends_the_recording_and_keeps_what_was_durable(kind: str) -> None:
    """For N = 1, 2, ...: an error is reported once, `durable_position` never covers it, and a restart is in order."""
    failures = 0
    for count in range(1, 40):
        node = Node()
        stream = Stream(mtu=8192)
        ended: list[tuple[Recording, Exception | None]] = []
        recording = node.archive.record(stream.image, on_stop=lambda *end, ended=ended: ended.append(end))
        setattr(node.disk, kind, count)
        sent = []
        for number in range(30):
            payload = bytes([number]) * 4000
            if not ended and stream.offer(payload) > 0:
                sent.append(payload)
            node.work()
            node.wait()
            node.work()
        if ended:
            failures += 1
            assert isinstance(ended[0][1], StorageError)
            assert len(ended) == 1
            assert not recording.is_active
        durable = recording.durable_position
        node.disk.heal()
        node.disk.crash()
        node.restart()
        assert node.archive.descriptor(0).stop_position >= durable
        messages = [message.payload for message in node.archive.reader(0).messages()]
        assert messages == sent[: len(messages)]
        node.archive.close()
    assert failures > 20


@pytest.mark.parametrize("kind", ["reads", "metadata"])
def test_the_nth_failing_call_of_a_start_is_no_damage(kind: str) -> None:
    """A file that could not be read at a start was taken for a torn end, and acknowledged data was cleared."""
    node = Node()
    stream = Stream()
    recording = node.archive.record(stream.image)
    for number in range(200):
        while stream.offer(bytes([number]) * 1000) == BACK_PRESSURED:
            node.work()
            node.wait()
    while node.work() or recording.durable_position < stream.position:
        node.wait()
    durable, failures = recording.durable_position, 0
    for count in range(1, 100):
        node.disk.kill()
        setattr(node.disk, f"{kind}_until_failure", count)
        try:
            node.restart()
            break
        except StorageError as error:
            assert "Input/output error" in error.message
            failures += 1
        finally:
            node.disk.heal()
    assert failures >= 2, "each call of a start has failed once"
    assert node.archive.descriptor(0).stop_position == durable
    assert len(list(node.archive.reader(0).messages())) == 200
    node.archive.close()


def test_a_full_disk_stops_the_recording_and_keeps_what_was_acknowledged() -> None:
    node = Node()
    stream = Stream()
    ended: list[tuple[Recording, Exception | None]] = []
    recording = node.archive.record(stream.image, on_stop=lambda *end: ended.append(end))
    stream.offer(bytes(1000))
    while recording.durable_position < recording.written_position or not recording.written_position:
        node.work()
        node.wait()
    acknowledged = recording.durable_position
    node.disk.free_bytes = 100
    while not ended:
        stream.offer(bytes(1000))
        node.work()
    assert isinstance(ended[0][1], StorageFullError)
    assert node.archive.descriptor(0).stop_position == acknowledged == recording.durable_position
    node.disk.heal()
    resumed = Stream(position=acknowledged)
    node.archive.record(resumed.image, recording_id=0)
    resumed.offer(b"room again")
    node.work()
    node.archive.close()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")
def test_a_real_full_file_system(tmp_path: Path) -> None:
    """ENOSPC from the kernel, on a tmpfs of 3 MiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount)], capture_output=True)
    if made.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {made.stderr.decode().strip()}")
    try:
        archive = Archive(
            str(mount / "archive"), storage=FileStorage(open_lmdb), clock=VirtualClock(), low_space_bytes=0,
            segment_length_bytes=64 * 1024,
        )  # fmt: skip
        ended: list[Exception | None] = []
        stream = Stream()
        recording = archive.record(stream.image, on_stop=lambda _, error: ended.append(error))
        sent = 0
        while not ended:
            sent += stream.offer(sent.to_bytes(1000, "big")) > 0
            archive.do_work(0)
        assert isinstance(ended[0], StorageFullError)
        count = sum(1 for _ in archive.reader(0).messages(recording.durable_position))
        assert 0 < count <= sent
        archive.close()
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_the_next_segment_but_one_waits_for_a_slow_disk(node: Node) -> None:
    """Else a file is closed whose sync is under way, and what it held may be lost after it was acknowledged."""
    node.disk.sync_delay_ns_min = node.disk.sync_delay_ns_max = 1_000 * DELAY_NS
    stream = Stream(mtu=8192)
    recording = node.archive.record(stream.image)
    for segments in (1, 2, 3):
        while recording.written_position < segments * 65536:
            stream.offer(bytes(4064))
            node.work()
        volatile = [path for path, _ in node.disk.volatile_from("/archive") if path.endswith(".rec")]
        assert len(volatile) == 1, f"after {segments} full segments only the last one may wait for its sync"
        assert recording.durable_position == 0, "no sync that was asked for is done"
    node.disk.crash()
    node.restart()
    (found,) = node.archive.recordings()
    assert found.stop_position >= 65536


@pytest.mark.parametrize("seed", range(8))
def test_what_a_stopped_recording_has_is_durable(seed: int) -> None:
    """With the syncs of a full segment, of the next one's name and of its bytes under way: power goes at once."""
    node = Node(seed)
    node.disk.sync_delay_ns_min = node.disk.sync_delay_ns_max = 1_000 * DELAY_NS
    stream = Stream(mtu=8192)
    recording = node.archive.record(stream.image)
    while recording.written_position < 65536 + 16384:
        stream.offer(bytes(4064))
        node.work()
    assert recording.durable_position == 0, "no sync that was asked for is done"
    node.archive.stop(recording)
    assert [path for path, _ in node.disk.volatile_from("/archive") if path.endswith(".rec")] == []
    stopped = recording.durable_position
    assert stopped >= 65536 + 16384
    node.disk.crash()
    node.restart()
    assert node.archive.descriptor(0).stop_position == stopped
    assert sum(1 for _ in node.archive.reader(0).messages()) == stopped // 4096
    node.archive.close()
