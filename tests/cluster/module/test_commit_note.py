"""How far the log was known to be committed outlives the process, and a write that was torn."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, INTERVAL_NS, CommitNote
from ordo.runtime.io.storage import FileStorage


def known(folder: Path) -> int:
    note = CommitNote(FileStorage(open_lmdb), str(folder))
    note.close()
    return note.known_position


def test_the_highest_position_is_found_again(tmp_path: Path) -> None:
    assert known(tmp_path) == 0
    note = CommitNote(FileStorage(open_lmdb), str(tmp_path))
    note.raise_to(4096, INTERVAL_NS)
    note.raise_to(1024, 2 * INTERVAL_NS)
    note.raise_to(8192, 2 * INTERVAL_NS - 1)
    note.close()
    assert known(tmp_path) == 4096, "it is written once an interval, and never lower by itself"


def test_what_was_lost_is_forgotten_when_the_member_has_caught_up(tmp_path: Path) -> None:
    note = CommitNote(FileStorage(open_lmdb), str(tmp_path))
    note.put(8192)
    note.put(4096)
    note.close()
    assert known(tmp_path) == 4096


@pytest.mark.parametrize("damage", [b"\xff", b"\x00"])
def test_a_torn_write_leaves_the_one_before(tmp_path: Path, damage: bytes) -> None:
    note = CommitNote(FileStorage(open_lmdb), str(tmp_path))
    note.put(4096)
    note.put(8192)
    note.close()
    path = tmp_path / COMMIT_NOTE_NAME
    content = bytearray(path.read_bytes())
    assert len(content) == 64
    content[:20] = damage * 20  # the second write
    path.write_bytes(content)
    assert known(tmp_path) == 4096
