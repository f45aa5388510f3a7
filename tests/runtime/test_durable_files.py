"""Files that must survive a power cut are written in one place, which test_syncs.py of the archive takes apart."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from ordo.runtime.io.durable_files import create_durably, make_folder_durably, sync_folder, write_durably
from tools.source import PACKAGES, ROOT

WRITING = re.compile(r"\.write_text\(|\.open\(\"[wx]|open\([^)]*\"[wx]b?\"|O_CREAT|os\.(replace|rename)\(")
ELSEWHERE = {
    "archive/store/lmdb_store.py": "LMDB syncs the new store; whoever compacts syncs the folder",
    "cluster/client/requests/journal.py": "syncs by itself: its lock moves with the file",
    "cluster/container/process_copy.py": "a setting of the running process",
    "cluster/wire/log_index/index_file.py": "an index, whose every entry is compared with the log",
    "deploy/docker_containers.py": "a stream into a container",
    "deploy/launcher.py": "clusters for development and tests",
    "ordo/backup/build.py": "segments, synced one by one, and their folder with the log",
    "ordo/backup/restore.py": "a whole folder gets its name, which is synced",
    "ordo/bench/suite.py": "figures, which can be measured again",
    "ordo/debugging/log_index.py": "the same, made anew",
    "pipeline/recordings/index.py": "an index, which is made again when it does not fit its file",
    "pipeline/recordings/object_copy.py": "segments, synced one by one, then their folder, then its name",
    "pipeline/spark/rows.py": "rows of a report, which can be made again",
    "runtime/io/durable_files.py": "the place",
    "runtime/io/storage.pyx": "the storage seam: its callers sync",
    "runtime/native/memory.pyx": "shared memory",
    "transport/client/client_folders.py": "locks in shared memory",
}
"""Where files are written otherwise, and why that may be."""


def test_files_are_written_durably_everywhere_else() -> None:
    found = set()
    for path in (one for package in PACKAGES for one in (ROOT / package).rglob("*.py*")):
        parts = path.relative_to(ROOT).parts
        inside_link = parts[0] == "ordo" and (ROOT / "ordo" / parts[1]).is_symlink()
        if path.suffix not in (".py", ".pyx") or inside_link or "starter" in parts:
            continue
        if WRITING.search(path.read_text(encoding="utf-8")):
            found.add("/".join(parts))
    assert found == ELSEWHERE.keys(), "write it with ordo.runtime.io.durable_files, or say why not"


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_durably(path, "one", mode=0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("one", 0o600)

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, "two")
    with pytest.raises(OSError, match="No space left"):
        create_durably(tmp_path / "other", "two")
    assert (path.read_text(), os.listdir(tmp_path)) == ("one", ["state"])


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    create_durably(tmp_path / "key", "one", mode=0o600)
    with pytest.raises(FileExistsError):
        create_durably(tmp_path / "key", "two")
    assert (tmp_path / "key").read_text() == "one"


def test_a_file_system_without_syncs_of_folders_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    sync_folder(tmp_path)
    make_folder_durably(tmp_path / "one" / "two")
    assert (tmp_path / "one" / "two").is_dir()
