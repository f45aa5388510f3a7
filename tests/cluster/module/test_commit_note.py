"""How far the log was known to be committed outlives the process to the byte, and a write that was torn."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.consensus_commands import ConsensusCommands
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, SEQUENCE_MAX, CommitNote
from ordo.consensus.state.commands import PersistDistrust
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.io.storage import FileStorage

KILLED = """
import os, signal, sys
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.runtime.io.storage import FileStorage
note = CommitNote(FileStorage(), sys.argv[1])
for position in range(32, 32 * 1001, 32):
    note.slots.note(position)
os.kill(os.getpid(), signal.SIGKILL)
"""


def open_note(folder: Path) -> CommitNote:
    return CommitNote(FileStorage(open_lmdb), str(folder))


def known(folder: Path) -> int:
    note = open_note(folder)
    note.close()
    return note.known_position


def test_the_highest_position_is_found_again(tmp_path: Path) -> None:
    assert known(tmp_path) == 0
    note = open_note(tmp_path)
    for position in (4096, 1024, 8192, 8192):
        note.slots.note(position)
    assert note.slots.position == 8192 == known(tmp_path), "others see it at once"
    note.close()
    note.slots.note(1 << 20)
    assert known(tmp_path) == 8192, "what is closed notes nothing"


def test_a_kill_leaves_the_last_position(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert known(tmp_path) == 32 * 1000


def test_what_was_lost_is_forgotten_when_the_member_has_caught_up(tmp_path: Path) -> None:
    note = open_note(tmp_path)
    note.put(8192)
    note.hold(Distrust.LOG)
    note.slots.note(1 << 20)
    assert known(tmp_path) == 8192, "while a part of the log is missing, what was known stays"
    note.release(Distrust.LOG | Distrust.VOTE, 1 << 20)
    note.release(Distrust.VOTE, 4096)
    assert known(tmp_path) == 4096
    note.slots.note(6144)
    note.release(Distrust.NONE, 4096)
    note.close()
    assert known(tmp_path) == 6144, "a member that regains its vote alone gives up nothing of its log"


def test_a_kill_never_leaves_a_whole_member_with_too_low_a_note(tmp_path: Path) -> None:
    """What it had told of as committed, after its store had said that it is whole, could be given up without a line."""
    note = open_note(tmp_path)
    note.put(4096)
    note.hold(Distrust.LOG)
    stored: list[tuple[Distrust, int]] = []
    member: Any = ConsensusCommands.__new__(ConsensusCommands)
    member._commit_note = note
    member._standings = SimpleNamespace(on_distrust=lambda distrust: distrust)
    member._sequencer = SimpleNamespace(commit_position=8192)
    member._store = SimpleNamespace(put_distrust=lambda distrust: stored.append((distrust, known(tmp_path))))
    member._counters = SimpleNamespace(distrust=SimpleNamespace(set=lambda value: None))
    member._member = SimpleNamespace(member_id=1)
    member._events = lambda *words, **values: None
    member._persist_distrust(PersistDistrust(Distrust.NONE))
    note.slots.note(16384)
    member._persist_distrust(PersistDistrust(Distrust.LOG))
    note.slots.note(32768)
    member._persist_distrust(PersistDistrust(Distrust.NONE))
    note.close()
    assert stored == [(Distrust.NONE, 8192), (Distrust.LOG, 16384), (Distrust.NONE, 8192)]


@pytest.mark.parametrize("damage", [b"\xff", b"\x00"])
def test_a_torn_write_leaves_the_one_before(tmp_path: Path, damage: bytes) -> None:
    note = open_note(tmp_path)
    note.put(4096)
    note.put(8192)
    note.close()
    path = tmp_path / COMMIT_NOTE_NAME
    content = bytearray(path.read_bytes())
    assert len(content) == 64
    content[:20] = damage * 20  # the second write
    path.write_bytes(content)
    assert known(tmp_path) == 4096


@pytest.mark.parametrize("length_bytes", [0, 10, 40, 63])
def test_a_file_that_is_too_short_is_made_whole(tmp_path: Path, length_bytes: int) -> None:
    note = open_note(tmp_path)
    note.put(4096)  # the second slot
    note.close()
    path = tmp_path / COMMIT_NOTE_NAME
    os.truncate(path, length_bytes)
    note = open_note(tmp_path)
    assert note.known_position == (4096 if length_bytes == 63 else 0), "of the second slot only filler is gone"
    note.slots.note(8192)
    note.close()
    assert path.stat().st_size == 64 and known(tmp_path) == 8192


def test_a_sequence_that_would_overflow_is_none(tmp_path: Path) -> None:
    note = open_note(tmp_path)
    note.close()
    path = tmp_path / COMMIT_NOTE_NAME
    path.write_bytes(slot(4096, SEQUENCE_MAX) + slot(1024, SEQUENCE_MAX - 1))
    assert known(tmp_path) == 1024


def slot(position: int, sequence: int) -> bytes:
    body = struct.pack("<qq", position, sequence)
    return struct.pack("<16sI12x", body, zlib.crc32(body))
