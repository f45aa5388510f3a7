"""The mark file by which Aeron's tools see a running archive."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordo.archive.inspection.export import ERROR_BUFFER_LENGTH, MARK_HEADER, MARK_HEADER_LENGTH
from ordo.archive.inspection.mark_file import MarkFile
from ordo.cli import run
from ordo.runtime.errors import ArchiveError, Category, StorageInUseError
from ordo.runtime.native.clock import Clock, VirtualClock
from ordo.runtime.native.error_log import read_errors
from ordo.runtime.native.memory import FileMemoryProvider
from tests.archive.served import Served, record

NAME = "archive-mark.dat"
NEVER_A_PROCESS = (1 << 31) - 1


def made(folder: Path, clock: Clock) -> MarkFile:
    return MarkFile(
        str(folder),
        clock,
        archive_id=77,
        control=("aeron:udp?endpoint=127.0.0.1:8010", 10),
        local_control=("aeron:ipc", 10),
        events=("", 30),
        aeron_dir="/dev/shm/aeron",
    )


def header(folder: Path) -> dict[str, object]:
    found: dict[str, object] = MARK_HEADER.decode((folder / NAME).read_bytes()[:MARK_HEADER_LENGTH])._asdict()
    return found


def test_it_says_whose_it_is_and_that_it_lives_until_it_ends(tmp_path: Path) -> None:
    clock = VirtualClock()
    mark = made(tmp_path, clock)
    first = header(tmp_path)
    begin_ms = clock.epoch_ms()
    assert (first["version"], first["pid"], first["archive_id"]) == (0x030100, os.getpid(), 77)
    assert first["start_timestamp"] == first["activity_timestamp"] == begin_ms
    assert (first["control_channel"], first["control_stream_id"]) == ("aeron:udp?endpoint=127.0.0.1:8010", 10)
    assert (first["events_channel"], first["events_stream_id"]) == ("", 30)
    assert (tmp_path / NAME).stat().st_size == MARK_HEADER_LENGTH + ERROR_BUFFER_LENGTH
    clock.advance(1_500_000_000)
    mark.work()
    assert header(tmp_path) == first | {"activity_timestamp": begin_ms + 1_500}
    mark.on_error(ArchiveError("a client was turned away", category=Category.WARN))
    mark.on_error(ArchiveError("a client was turned away", category=Category.WARN))
    memory = FileMemoryProvider().open(str(tmp_path / NAME))
    (observed,) = read_errors(memory.slice(MARK_HEADER_LENGTH, ERROR_BUFFER_LENGTH))
    assert observed.observation_count == 2
    assert observed.text == "ordo.runtime.errors.ArchiveError: WARN - a client was turned away"
    mark.close()
    assert header(tmp_path)["activity_timestamp"] == -1


def write_pid(folder: Path, pid: int) -> None:
    with (folder / NAME).open("r+b") as file:
        file.seek(32)
        file.write(struct.pack("<q", pid))


@pytest.mark.parametrize("pid", [os.getppid(), NEVER_A_PROCESS, -5], ids=["of a copied folder", "killed", "nonsense"])
def test_one_that_no_process_uses_is_replaced(tmp_path: Path, pid: int) -> None:
    """A folder that is copied while its archive runs has a mark of a process that lives, and serves another file."""
    clock = VirtualClock()
    made(tmp_path, clock)
    write_pid(tmp_path, pid)
    made(tmp_path, clock)
    assert header(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize(("age_ms", "is_refused"), [(9_000, True), (10_000, False)], ids=["lives", "silent"])
def test_that_of_another_process_that_lives_is_left_alone(tmp_path: Path, age_ms: int, is_refused: bool) -> None:
    clock = VirtualClock()
    made(tmp_path, clock)
    with mapped_elsewhere(tmp_path / NAME) as pid:
        write_pid(tmp_path, pid)
        clock.advance(age_ms * 1_000_000)
        if is_refused:
            with pytest.raises(StorageInUseError, match=f"is that of the process {pid}"):
                made(tmp_path, clock)
            assert header(tmp_path)["pid"] == pid
        else:
            made(tmp_path, clock)
            assert header(tmp_path)["pid"] == os.getpid()


@contextmanager
def mapped_elsewhere(path: Path) -> Iterator[int]:
    """A process that has a file mapped until the block ends."""
    mapping = "file = open(sys.argv[1], 'r+b'); mapped = mmap.mmap(file.fileno(), 0)"
    program = f"import mmap, sys; {mapping}; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


def test_a_mark_file_that_is_cut_is_replaced(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"short")
    made(tmp_path, VirtualClock())
    assert header(tmp_path)["pid"] == os.getpid()


def test_a_served_archive_has_one_which_an_export_leaves_alone(served: Served, free_port: Callable[[], int]) -> None:
    with served.connect() as client:
        record(client, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", [b"one"], local=False)
        live = header(served.folder)
        assert (live["pid"], live["archive_id"]) == (served.process.pid, client.archive_id)
        assert live["control_channel"] == f"aeron:udp?endpoint={served.address}"
        assert live["aeron_directory"] == str(served.aeron_dir)
        assert run(["archive", "export-catalog", str(served.folder)]) == 0
        assert header(served.folder)["pid"] == served.process.pid
    served.stop()
    assert header(served.folder)["activity_timestamp"] == -1
    assert run(["archive", "export-catalog", str(served.folder)]) == 0
    assert header(served.folder)["pid"] == 0
