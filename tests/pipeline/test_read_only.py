"""Reading a node's archive changes nothing in it, and needs no more than the right to read."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.archive.inspection.recording_inspection import list_recordings, verify
from ordo.archive.store.lmdb_copy import LmdbCopy
from ordo.archive.store.lmdb_store import LmdbStore
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.recordings.planner import plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """An archive that everybody may read and nobody write; pytest's own folders are closed to other users."""
    root = Path(tempfile.mkdtemp(prefix="ordo-read-only-"))
    archive = root / "node0" / "archive"
    with RecordingBuilder(str(archive)) as builder:
        builder.append(new_term(0, 0, 5, 0, 1))
        for number in range(100):
            builder.append(session_message(0, 1, 5 + number, b"%d" % number))
    for path in archive.iterdir():
        path.chmod(0o444)
    for path in (archive, archive.parent, root):
        path.chmod(0o555)
    yield archive
    for path in (root, archive.parent, archive):
        path.chmod(0o755)
    shutil.rmtree(root)


def look(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything of an archive folder that reading could change."""
    found = {".": (0, os.stat(folder).st_mode, os.stat(folder).st_mtime_ns, b"")}
    for path in sorted(folder.iterdir()):
        about = path.stat()
        found[path.name] = (about.st_size, about.st_mode, about.st_mtime_ns, path.read_bytes())
    return found


def read_everything(folder: Path) -> int:
    """What the pipeline and `ordo archive list` and `verify` do; how many rows there are."""
    recordings = open_recordings([str(folder)])
    rows = 0
    for task in plan(recordings, Predicates(), 1 << 20):
        rows += sum(batch.num_rows for batch in read_runs(task, Predicates(), ("position", "payload"), 64, True))
    assert len(list_recordings(str(folder))) == 1
    assert [result.damage for result in verify(str(folder))] == [None]
    return rows


def as_nobody(action: Callable[[], bool]) -> bool:
    """Runs in a child process of a user without rights; True when the action says so."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            status = 0 if action() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_is_changed(folder: Path) -> None:
    before = look(folder)
    assert read_everything(folder) == 101
    assert look(folder) == before


def test_a_lock_file_of_the_node_is_not_written(folder: Path) -> None:
    """LMDB enters its readers there, even read-only ones."""
    folder.chmod(0o755)
    (folder / "catalog.mdb").chmod(0o644)
    (folder / "catalog.mdb-lock").unlink(missing_ok=True)
    LmdbStore(str(folder / "catalog.mdb")).close()
    before = look(folder)
    assert "catalog.mdb-lock" in before
    assert read_everything(folder) == 101
    assert look(folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place, which only root may")
def test_a_user_with_nothing_but_the_right_to_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDO_INDEX_DIR", "/proc/nowhere")
    assert (
        read_everything(folder) == 101
    )  # and everything is imported, for nobody may not read the interpreter's folder
    before = look(folder)
    assert as_nobody(lambda: not os.access(folder, os.W_OK) and read_everything(folder) == 101)
    assert look(folder) == before


def test_a_copy_is_one_committed_state_while_another_thread_writes(tmp_path: Path) -> None:
    """Both keys change together in every transaction, and pages are used again soon."""
    path, done = str(tmp_path / "m.mdb"), threading.Event()
    with LmdbStore(path) as store:

        def write(number: int) -> None:
            with store.transaction() as txn:
                for key in (b"a", b"b"):
                    txn.put(key, b"%d" % number * 300)

        def keep_writing() -> None:
            for number in range(200):
                write(number)
            done.set()

        write(0)
        writer = threading.Thread(target=keep_writing)
        writer.start()
        seen = set()
        while not done.is_set():
            copy = LmdbCopy(path)
            assert copy.get(b"a") == copy.get(b"b")
            seen.add(copy.get(b"a"))
        writer.join()
        assert LmdbCopy(path).get(b"a") == b"199" * 300
    assert len(seen) > 1
