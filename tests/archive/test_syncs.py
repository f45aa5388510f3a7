"""Each sync of the product left out in turn: a crash must show it, or the list says why it need not.

A sync of Python is left out in the function as it is written. Those of native code and of the system's own calls are
found by the tests that the list names.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ordo.archive import history
from ordo.archive.archive import Archive
from ordo.archive.inspection import administration
from ordo.archive.segments import recovery
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.checkpoints import CHECKPOINTS_NAME, Checkpoints
from ordo.archive.segments.segments import segment_name
from ordo.archive.store.lmdb_store import LmdbStore
from ordo.cluster.module.snapshots.log_repair import LogRepair
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, CommitNote
from ordo.cluster.module.state.peer_notes import PEER_NOTES_NAME, PeerNotes
from ordo.runtime.io import durable_files
from ordo.runtime.io.durable_files import create_durably, make_folder_durably, sync_folder, write_durably
from ordo.runtime.native.clock import VirtualClock
from tests.archive.streams import BACK_PRESSURED, Sink, Stream
from tests.simulation.storage import SimulatedDisk, SimulatedStorage
from tools.source import PACKAGES, ROOT

SEEDS = 20
SYNCS = ("sync_directory", "sync_now", "request_sync", "fsync", "sync_folder")
LENGTH = 65536
FOLDER = "/a"


class Disk(SimulatedDisk):
    """One that also takes back names that were given to files, where no sync of their folder came."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.renamed: list[tuple[str, str]] = []

    def names_durable(self, directory: str) -> None:
        super().names_durable(directory)
        self.renamed.clear()

    def crash(self) -> None:
        for source, target in reversed(self.renamed):
            self.files[source] = self.files.pop(target)
        self.renamed.clear()
        super().crash()


class DiskStorage(SimulatedStorage):
    """The storage of one process on a Disk."""

    def __init__(self, disk: Disk, clock: VirtualClock) -> None:
        super().__init__(disk, clock)
        self.disk, self.clock = disk, clock

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.disk.renamed.append((source, target))


def disk_of(seed: int) -> tuple[Disk, DiskStorage]:
    disk = Disk(Random(seed))
    storage = DiskStorage(disk, VirtualClock())
    storage.make_directory(FOLDER)
    return disk, storage


def recorded(seed: int, *, segments: int = 2) -> tuple[Disk, DiskStorage, Archive]:
    """An archive with one stopped recording, all of which is durable."""
    disk, storage = disk_of(seed)
    archive = Archive(
        FOLDER, storage=storage, clock=VirtualClock(), client=Sink(), sync="none", segment_length_bytes=LENGTH,
        low_space_bytes=0,
    )  # fmt: skip
    stream = Stream()
    recording = archive.record(stream.image)
    while recording.written_position < segments * LENGTH - LENGTH // 2:
        while stream.offer(bytes([7]) * 1000) == BACK_PRESSURED:
            archive.do_work(0)
        archive.do_work(0)
    archive.stop(recording)
    for path in disk.files:
        storage.open_segment(path, disk.files[path].length_bytes).sync_now()
    storage.sync_directory(FOLDER)
    return disk, storage, archive


def check_new_file(make: Callable[[Any], Any], name: str) -> None:
    """A file that was made is there after a crash."""
    for seed in range(SEEDS):
        disk, storage = disk_of(seed)
        make(storage)
        disk.crash()
        assert storage.exists(f"{FOLDER}/{name}"), seed


def check_removal(remove: Callable[[Any], Any]) -> None:
    """Files that were removed are gone after a crash."""
    for seed in range(SEEDS):
        disk, storage = disk_of(seed)
        names = [segment_name(0, base) for base in (0, LENGTH)]
        for name in names:
            storage.open_segment(f"{FOLDER}/{name}", LENGTH, create=True).close()
        storage.sync_directory(FOLDER)
        remove(storage)
        disk.crash()
        assert not [name for name in names if storage.exists(f"{FOLDER}/{name}")], seed


def check_clearing() -> None:
    """What was cut off a recording stays cut off: bytes, and whole files."""
    for seed in range(SEEDS):
        disk, storage, archive = recorded(seed)
        descriptor = archive.descriptor(0)
        assert recovery.clear_from(storage, FOLDER, descriptor, 96, is_durable=True) == 1
        assert disk.volatile_from(FOLDER) == []
        disk.crash()
        assert not storage.exists(f"{FOLDER}/{segment_name(0, LENGTH)}"), seed


def checkpoints_of(seed: int) -> tuple[Disk, DiskStorage, Checkpoints]:
    """A checkpoint that was noted, after the sync that was asked for."""
    disk, storage = disk_of(seed)
    queue = storage.sync_queue()
    checkpoints = Checkpoints(storage, FOLDER, queue)
    recording = SimpleNamespace(recording_id=3, start_position=0, durable_position=4096)
    checkpoints.note([recording], 0)
    storage.clock.advance(1_000_000_000)
    assert queue.last_completed >= 0
    return disk, storage, checkpoints


def check_noting() -> None:
    """A checkpoint is durable once its sync is done."""
    for seed in range(SEEDS):
        disk, storage, _ = checkpoints_of(seed)
        disk.crash()
        assert Checkpoints.load(storage, FOLDER) == {3: 4096}, seed


def check_forgetting() -> None:
    """A checkpoint that was forgotten does not come back: positions below it are no damage."""
    for seed in range(SEEDS):
        disk, storage, checkpoints = checkpoints_of(seed)
        checkpoints.forget(3)
        disk.crash()
        assert Checkpoints.load(storage, FOLDER) == {}, seed


def check_orphans() -> None:
    """Files that belong to no recording are gone after a crash."""
    for seed in range(SEEDS):
        disk, storage, archive = recorded(seed)
        archive.close()
        orphan = f"{FOLDER}/{segment_name(7, 0)}"
        storage.open_segment(orphan, LENGTH, create=True).close()
        storage.sync_directory(FOLDER)
        assert administration.delete_orphans(FOLDER, storage=storage) == [segment_name(7, 0)]
        disk.crash()
        assert not storage.exists(orphan), seed


def check_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checksums that were renewed are so after a crash."""
    disk, storage, archive = recorded(1)
    monkeypatch.setattr(administration, "reseal", lambda frames, stream_id: 1)
    assert administration._renew_recording(storage, FOLDER, archive.descriptor(0)) > 0
    assert disk.volatile_from(FOLDER) == []


def check_migration() -> None:
    """Segment files have the names that the catalog says."""
    disk, storage, archive = recorded(1, segments=3)
    archive.truncate(0, 2 * LENGTH)
    following = archive.record(Stream(position=2 * LENGTH).image)
    archive.stop(following)
    assert history.migrate_segments(archive, 0, following.recording_id) == 2
    assert archive.descriptor(following.recording_id).start_position == 0
    disk.crash()
    assert storage.exists(f"{FOLDER}/{segment_name(following.recording_id, 0)}")


def check_mending() -> None:
    """A stretch of log that was mended is so after a crash; so is a file that had gone."""
    for seed in range(SEEDS):
        disk, storage, archive = recorded(seed)
        received = archive.descriptor(0)
        log: RecordingDescriptor = received._replace(recording_id=5)
        repair: Any = SimpleNamespace(_archive=SimpleNamespace(storage=storage, directory=FOLDER))
        LogRepair._copy(repair, received, log, 0, 1056 * 4)
        assert disk.volatile_from(FOLDER) == []
        disk.crash()
        assert storage.exists(f"{FOLDER}/{segment_name(5, 0)}"), seed


def noted_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that decide what a crash leaves of a file, in their order, from now on."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor: int) -> None:
        calls.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), replace(*names)))
    return calls


def check_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file replaces the last one once it is on the disk, and its name is durable then."""
    calls = noted_calls(monkeypatch)
    write_durably(tmp_path / "state", "one")
    assert calls == ["fsync state.new", "replace", f"fsync {tmp_path.name}"]


def check_creating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file, such as a private key that was told to its owner, is there with its content."""
    calls = noted_calls(monkeypatch)
    name = f"{len(list(tmp_path.iterdir()))}.key"
    create_durably(tmp_path / name, b"one", mode=0o600)
    assert calls == [f"fsync {name}", f"fsync {tmp_path.name}"]


def check_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder is there, and those above it that were made for it."""
    calls = noted_calls(monkeypatch)
    name = f"{len(list(tmp_path.iterdir()))}"
    make_folder_durably(tmp_path / name / "inner")
    assert calls == [f"fsync {name}", f"fsync {tmp_path.name}"]


def check_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new store of metadata is found by its name; one that was there needs no sync for that."""
    path = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.mdb")
    calls = noted_calls(monkeypatch)
    for expected in ([f"fsync {tmp_path.name}"], []):
        calls.clear()
        LmdbStore(path).close()
        assert calls == expected


class Part(NamedTuple):
    """One sync: the function that it is in, which of the function's it is, and what must hold with it."""

    function: Any
    number: int
    check: Callable[..., None]


def storing(make: Callable[[Any], Any], name: str) -> Callable[[], None]:
    return lambda: check_new_file(make, name)


PARTS = (
    Part(CommitNote.__init__, 0, storing(lambda one: CommitNote(one, FOLDER), COMMIT_NOTE_NAME)),
    Part(PeerNotes.__init__, 0, storing(lambda one: PeerNotes(one, FOLDER), PEER_NOTES_NAME)),
    Part(Checkpoints.__init__, 0, storing(lambda one: Checkpoints(one, FOLDER, None), CHECKPOINTS_NAME)),
    Part(Checkpoints.note, 0, check_noting),
    Part(Checkpoints.forget, 0, check_forgetting),
    Part(recovery.clear_from, 0, check_clearing),
    Part(recovery.clear_from, 1, check_clearing),
    Part(recovery.remove_files, 0, lambda: check_removal(lambda one: recovery.remove_files(one, FOLDER, 0))),
    Part(
        recovery.remove_below, 0, lambda: check_removal(lambda one: recovery.remove_below(one, FOLDER, 0, LENGTH * 2))
    ),
    Part(administration._renew_recording, 0, check_renewal),
    Part(administration.delete_orphans, 0, check_orphans),
    Part(history.migrate_segments, 0, check_migration),
    Part(LogRepair._copy, 0, check_mending),
    Part(LogRepair._copy, 1, check_mending),
    Part(durable_files._write, 0, check_writing),
    Part(write_durably, 0, check_writing),
    Part(create_durably, 0, check_creating),
    Part(make_folder_durably, 0, check_folders),
    Part(sync_folder, 0, check_writing),
    Part(LmdbStore.__init__, 0, check_store),
)
BY_RECORDER = "tests/archive/test_recorder_syncs.py"
BY_JOURNAL = "tests/cluster/client/test_journal.py"
BY_PLANTED = "tests/simulation/test_planted.py"
BY_STRACE = "tests/runtime/test_system_syncs.py"
FETCHED = "the store keeps the same bytes; what a crash undoes is told by the catalog's checksums, and fetched again"
ELSEWHERE = {
    "archive/inspection/administration.py: storage.sync_directory(directory)": (
        "compact: the file before has the same content; what a crash undoes is the room that was given back"
    ),
    "archive/recorder.pyx: self._request(folder)": BY_RECORDER,
    "archive/recorder.pyx: self._request(self._file)": BY_RECORDER,
    "archive/recorder.pyx: self._previous.sync_now()": BY_RECORDER,
    "archive/recorder.pyx: self._request(self._folder)": BY_RECORDER,
    "archive/recorder.pyx: self._folder.sync_now()": BY_RECORDER,
    "archive/recorder.pyx: self._file.sync_now()": BY_RECORDER,
    "archive/recorder.pyx: self._flight_ticket = self._queue.request(file)": BY_RECORDER,
    "cluster/checks/doctor.py: os.fdatasync(file.fileno())": "it measures the disk, and keeps nothing",
    "cluster/client/requests/journal.py: os.fdatasync(self._descriptor)": BY_JOURNAL,
    "cluster/client/requests/journal.py: os.fsync(descriptor)": BY_JOURNAL,
    "cluster/client/requests/journal.py: sync_folder(os.path.dirname(os.path.abspath(self._path)))": BY_JOURNAL,
    "cluster/client/requests/journal.py: self._store.sync()": BY_PLANTED,
    "cluster/client/requests/journal.py: self.sync()": "close: what was sent was synced before; the rest nobody has",
    "cluster/client/requests/request_window.pyx: self._journal.sync()": BY_PLANTED,
    "pipeline/recordings/object_copy.py: FileStorage().sync_directory(part)": FETCHED,
    "pipeline/recordings/object_copy.py: FileStorage().sync_directory(parent)": FETCHED,
    "pipeline/recordings/object_copy.py: os.fsync(file.fileno())": FETCHED,
    "runtime/io/storage.pyx: result = self.sync()": BY_STRACE,
    "runtime/io/storage.pyx: return 0 if fdatasync(self._descriptor) == 0 else -c_errno": BY_STRACE,
    "runtime/io/storage.pyx: if fdatasync(descriptor) != 0:": BY_STRACE,
    "runtime/io/storage.pyx: sync_folder(directory)": BY_STRACE,
    "runtime/io/storage.pyx: sync_folder(os.path.dirname(os.path.abspath(made)))": BY_STRACE,
}
"""Syncs that no Part has: the file of the tests that miss them, or why nothing is lost without them."""
CALL = re.compile(
    r"\b(sync_now|request_sync|sync_directory|sync_folder|fsync|fdatasync|_queue\.request|_journal\.sync|_store\.sync|self\.sync|self\._request(?=\((?:folder|self)))\("
)
DEFINITION = re.compile(r"^\s*(def|cdef|cpdef|#|\"\"\")|``|^\s*(from|import) ")


class _Leaving(ast.NodeTransformer):
    """Leaves out one of a function's syncs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        called = call.func if isinstance(call, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name not in SYNCS:
            return node
        self.count += 1
        return ast.copy_location(ast.Pass(), node) if self.count == self.number + 1 else node


def without_sync(function: FunctionType, number: int) -> CodeType:
    leaving = _Leaving(number)
    tree = leaving.visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    assert leaving.count == sum(one.function is function for one in PARTS), function.__qualname__
    future = ast.parse("from __future__ import annotations").body
    module = compile(ast.fix_missing_locations(ast.Module([*future, *tree.body], [])), "left out", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))


@pytest.mark.parametrize("part", PARTS, ids=lambda one: f"{one.function.__qualname__}-{one.number}")
def test_a_sync_that_is_left_out_is_found(part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    names = inspect.signature(part.check).parameters
    arguments = {name: value for name, value in given.items() if name in names}
    part.check(**arguments)
    monkeypatch.setattr(part.function, "__code__", without_sync(part.function, part.number))
    with pytest.raises(AssertionError):
        part.check(**arguments)


def test_every_sync_of_the_product_is_on_the_list() -> None:
    found = set()
    for path in (one for package in PACKAGES for one in (ROOT / package).rglob("*.py*")):
        if path.suffix not in (".py", ".pyx") or path.is_symlink() or "ordo" in path.relative_to(ROOT).parts[:1]:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if CALL.search(line) and not DEFINITION.search(line):
                found.add(f"{path.relative_to(ROOT)}: {line.strip().partition('  #')[0].rstrip()}")
    in_parts = {f"{_file_of(one.function)}: " for one in PARTS}
    unknown = {one for one in found - ELSEWHERE.keys() if not any(one.startswith(part) for part in in_parts)}
    assert unknown == set(), "add a Part, or say which tests miss it"
    assert ELSEWHERE.keys() - found == set(), "these are gone"
    named = {where for where in ELSEWHERE.values() if where.startswith("tests/")}
    assert {where for where in named if not (ROOT / where).exists()} == set()


def _file_of(function: Any) -> str:
    return str(Path(inspect.getsourcefile(function) or "").resolve().relative_to(ROOT))
