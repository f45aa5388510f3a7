"""The storage seam on real files."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.errors import (
    StorageError,
    StorageExistsError,
    StorageFullError,
    StorageInUseError,
    StorageMissingError,
)
from ordo.runtime.io.storage import FileStorage, Storage, SyncQueue, ThreadSyncQueue
from ordo.runtime.native.counters import local_counter


def wait_for(queue: SyncQueue, ticket: int, descriptor: int) -> None:
    while queue.last_completed < ticket:
        assert select.select([descriptor], [], [], 10)[0], "no completion in 10 s"
        os.eventfd_read(descriptor)


def test_segment_is_sparse_and_reads_back(tmp_path: Path) -> None:
    path = str(tmp_path / "0-0.rec")
    storage: Storage = FileStorage()
    with storage.open_segment(path, 1 << 24, create=True) as segment:
        segment.write_bytes(b"hello", 1 << 20)
        segment.sync_now()
        assert segment.read_bytes(7, (1 << 20) - 1) == b"\0hello\0"
        assert segment.read_bytes(10, (1 << 24) - 3) == bytes(3)
    assert os.stat(path).st_size == 1 << 24
    assert os.stat(path).st_blocks * 512 < 1 << 20


def test_segment_names_are_exclusive_and_must_exist(tmp_path: Path) -> None:
    path = str(tmp_path / "a.rec")
    storage = FileStorage()
    with pytest.raises(StorageMissingError, match="open segment"):
        storage.open_segment(path, 64)
    storage.open_segment(path, 64, create=True).close()
    with pytest.raises(StorageExistsError):
        storage.open_segment(path, 64, create=True)


def test_segment_refuses_what_is_outside_or_closed(tmp_path: Path) -> None:
    storage = FileStorage()
    segment = storage.open_segment(str(tmp_path / "a.rec"), 64, create=True)
    with pytest.raises(StorageError, match="Invalid argument"):
        segment.write_bytes(b"12", 63)
    readonly = storage.open_segment(str(tmp_path / "a.rec"), 64, writable=False)
    with pytest.raises(StorageError, match="Bad file descriptor"):
        readonly.write_bytes(b"1", 0)
    segment.close()
    segment.close()
    with pytest.raises(StorageError, match="Bad file descriptor"):
        segment.read_bytes(1, 0)


def test_full_device_is_named(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    segment = FileStorage().open_segment("/dev/full", 64)
    with pytest.raises(StorageFullError, match="/dev/full"):
        segment.write_bytes(b"x", 0)


def test_sync_thread_completes_in_order_and_wakes_a_descriptor(tmp_path: Path) -> None:
    event = os.eventfd(0)
    queue = ThreadSyncQueue(None, event)
    try:
        segments = [FileStorage().open_segment(str(tmp_path / f"{i}.rec"), 64, create=True) for i in range(3)]
        tickets = [queue.request_sync(segment) for segment in segments for _ in range(5)]
        assert tickets == list(range(1, 16))
        wait_for(queue, 15, event)
        assert queue.sticky_error == 0
    finally:
        queue.close()
        os.close(event)


def test_sync_thread_wakes_a_parked_futex(tmp_path: Path) -> None:
    flag = ParkFlag(local_counter())
    with FileStorage().open_segment(str(tmp_path / "a.rec"), 64, create=True) as segment:
        queue = ThreadSyncQueue(flag)
        flag.announce_parked(1)
        ticket = queue.request_sync(segment)
        flag.wait(10_000_000_000)
        assert flag.parked == 0
        queue.close()
        assert ticket == 1


def test_sync_thread_takes_no_signals(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/task"))
    queue = ThreadSyncQueue()
    (thread,) = set(os.listdir("/proc/self/task")) - before
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk:")).split()[1], 16)
    queue.close()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        assert blocked >> (number - 1) & 1


def test_file_closed_with_a_sync_pending_is_still_synced(tmp_path: Path) -> None:
    event = os.eventfd(0)
    queue = ThreadSyncQueue(None, event)
    try:
        for i in range(50):
            segment = FileStorage().open_segment(str(tmp_path / f"{i}.rec"), 64, create=True)
            ticket = queue.request_sync(segment)
            segment.close()
        wait_for(queue, ticket, event)
        assert queue.sticky_error == 0
    finally:
        queue.close()
        os.close(event)
    with pytest.raises(StorageError, match="closed"):
        queue.request_sync(segment)


def test_failed_sync_sticks() -> None:
    event = os.eventfd(0)
    reading, writing = os.pipe()
    queue = ThreadSyncQueue(None, event)
    try:
        segment = FileStorage().open_segment(f"/proc/self/fd/{writing}", 64)  # fdatasync of a pipe fails
        queue.request_sync(segment)
        assert select.select([event], [], [], 10)[0]
        assert queue.sticky_error < 0
        assert queue.last_completed == 0
    finally:
        queue.close()
        for descriptor in (event, reading, writing):
            os.close(descriptor)


def test_folder_of_a_live_process_is_refused_with_its_pid(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom ordo.runtime.io.storage import FileStorage\n"
        "lock = FileStorage().lock_directory(sys.argv[1])\nprint('locked', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(StorageInUseError, match=f"pid={holder.pid}"):
            FileStorage().lock_directory(str(tmp_path))
        holder.kill()
    with FileStorage().lock_directory(str(tmp_path)):
        assert (tmp_path / "LOCK").read_text() == f"{os.getpid()}\n"


def test_directory_operations(tmp_path: Path) -> None:
    storage = FileStorage()
    folder = str(tmp_path / "a" / "b")
    assert storage.list_files(folder) == []
    storage.make_directory(folder)
    for name in ("2", "1"):
        storage.open_segment(f"{folder}/{name}", 1, create=True).close()
    storage.rename(f"{folder}/2", f"{folder}/3")
    storage.sync_directory(folder)
    assert storage.list_files(folder) == ["1", "3"]
    storage.remove(f"{folder}/1")
    storage.remove(f"{folder}/1")
    assert not storage.exists(f"{folder}/1")
    assert storage.usable_bytes(folder) > 0
    storage.remove_directory(folder)
    storage.remove_directory(folder)
    with pytest.raises(StorageMissingError):
        storage.sync_directory(folder)


def test_metadata_needs_a_factory(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="metadata_factory"):
        FileStorage().open_metadata(str(tmp_path / "m"))
