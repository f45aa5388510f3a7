"""The journal of a client: what it holds survives every end of the process that wrote it."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.client.requests.answered import ANSWERED_KEPT
from ordo.cluster.client.requests.journal import Journal, JournalFile, JournalState
from ordo.runtime.errors import ConfigurationError, StorageError, StorageInUseError
from tests.simulation.requests import MemoryJournal

NAME = bytes(range(16))


def begin(path: Path) -> Journal:
    """Make a journal whose identity the cluster knows."""
    journal = Journal(JournalFile(str(path)))
    journal.recover(NAME, 77)
    journal.open(640, 1000, 0)
    return journal


def write(path: Path) -> JournalState:
    """Five requests, of which two are confirmed, and the state that must be found again."""
    journal = begin(path)
    for number in range(1, 6):
        journal.add_request(number, b"request %d" % number)
    journal.confirm(2)
    journal.close()
    return JournalState(NAME, 77, 640, 1000, 5, 2, {number: b"request %d" % number for number in (3, 4, 5)})


def recover(path: Path) -> JournalState:
    journal = Journal(JournalFile(str(path)))
    try:
        return journal.recover(bytes(16), 1)
    finally:
        journal.close()


def test_what_is_not_confirmed_is_found_again(tmp_path: Path) -> None:
    expected = write(tmp_path / "journal")
    assert recover(tmp_path / "journal") == expected
    assert recover(tmp_path / "journal") == expected, "it was written anew by the first"
    assert os.listdir(tmp_path) == ["journal"]


def test_a_torn_end_is_cut_off_wherever_it_is(tmp_path: Path) -> None:
    """What was not written whole was not sent. Every length of the file gives a state that was there at some time."""
    path = tmp_path / "journal"
    write(path)
    whole = path.read_bytes()
    numbers = set()
    for length_bytes in range(len(whole) + 1):
        path.write_bytes(whole[:length_bytes])
        if length_bytes > 0 and whole[:length_bytes].count(NAME) == 0:
            continue
        state = recover(path)
        numbers.add((state.number, state.confirmed, len(state.requests)))
    assert numbers == {(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 0, 4), (5, 0, 5), (5, 2, 3)}


def test_damage_at_the_end_is_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert sorted(recover(path).requests) == [1, 2, 3, 4, 5], "the confirmation is not believed"


@pytest.mark.parametrize("damaged", [b"request 2", b"request 4", b"request 5"])
def test_damage_before_the_end_is_refused_and_the_file_stays(tmp_path: Path, damaged: bytes) -> None:
    """Requests were forgotten in silence, and the file was written anew without them."""
    path = tmp_path / "journal"
    write(path)
    data = bytearray(path.read_bytes())
    data[place := data.index(damaged)] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        StorageError, match=rf"journal: damaged at byte {place - 17} of {len(data)}, with whole records"
    ):
        recover(path)
    assert path.read_bytes() == data


def test_any_length_of_zeros_behind_a_torn_end_is_cut_off(tmp_path: Path) -> None:
    """What a file system may leave of a write that a loss of power cut."""
    path = tmp_path / "journal"
    expected = write(path)
    for length_bytes in (1, 8, 9, 4096):
        path.write_bytes(path.read_bytes() + bytes(length_bytes))
        assert recover(path) == expected


def test_a_write_that_failed_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """What was written behind a torn record was lost with it."""
    path = tmp_path / "journal"
    journal = begin(path)
    journal.add_request(1, b"request 1")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            journal.add_request(2, b"request 2, which is longer than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    journal.add_request(2, b"request 2")
    journal.close()
    assert recover(path).requests == {1: b"request 1", 2: b"request 2"}


def test_one_process_has_it_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    journal = Journal(JournalFile(path))
    journal.recover(NAME, 1)
    with pytest.raises(StorageInUseError, match="in use by another process"):
        JournalFile(path)
    journal.close()
    JournalFile(path).close()


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are notes that somebody wants to keep")
    with pytest.raises(ConfigurationError, match="is no journal"):
        recover(path)
    assert path.read_bytes().startswith(b"these are notes")


def test_the_journal_of_another_identity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path)
    with pytest.raises(ConfigurationError, match="of identity 000102"):
        Journal(JournalFile(str(path)), bytes(16)).recover(bytes(16), 1)


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(JournalFile(str(path)), synced=False)
    journal.recover(NAME, 1)
    journal.open(640, 10_000, 0)
    for number in range(1, 4001):
        journal.add_request(number, bytes(1000))
        if number % 100 == 0:
            journal.confirm(number - 10)
    journal.close()
    assert path.stat().st_size < 1_300_000
    state = recover(path)
    assert (state.number, state.confirmed, len(state.requests)) == (4000, 3990, 10)


def test_where_requests_were_answered_is_kept_and_does_not_grow_for_ever() -> None:
    store, count = MemoryJournal(None), 3 * ANSWERED_KEPT
    journal = Journal(store)
    journal.recover(NAME, 1)
    journal.open(640, 10_000, 0)
    for number in range(1, count + 1):
        journal.note_answer(number, 32 * number)
        if number % 100 == 0:
            journal.confirm(number)
    assert len(store.read()) < (1 << 20) + 3 * 2 * ANSWERED_KEPT * 16
    for _ in range(2):
        state = Journal(store).recover(bytes(16), 1)
        assert state.known_position == 32 * count
        assert state.answered.behind(32 * (count - 2)) == [count - 1, count]
        assert len(state.answered.behind(0)) >= ANSWERED_KEPT


def fail(name: str, patch: pytest.MonkeyPatch, *, only_folders: bool = False) -> None:
    """Let a call of `os` on a file fail, or on a folder."""
    call = getattr(os, name)

    def failing(descriptor: int) -> Any:
        if only_folders and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return call(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    patch.setattr(os, name, failing)


def test_what_a_failed_sync_left_in_doubt_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that could not write a page may call it clean: the next fdatasync succeeds, and the page is lost."""
    path = tmp_path / "journal"
    journal = begin(path)
    journal.add_request(1, b"request 1")
    before = path.stat().st_ino
    for name in ("fdatasync", "fsync", "fsync"):
        with monkeypatch.context() as patch, pytest.raises(StorageError, match="Input/output error"):
            fail(name, patch)
            journal.sync()
        assert path.stat().st_ino == before, "a file that was not written replaced the one that was"
    journal.add_request(2, b"request 2")
    journal.sync()
    renewed = path.stat().st_ino
    assert renewed != before
    journal.add_request(3, b"request 3")
    journal.sync()
    assert path.stat().st_ino == renewed, "one new file is enough"
    journal.close()
    assert recover(path).requests == {number: b"request %d" % number for number in (1, 2, 3)}


def test_a_journal_that_could_not_be_synced_at_its_end_is_free_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    journal = begin(path)
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="Input/output error"):
        fail("fdatasync", patch)
        journal.close()
    assert recover(path).identity == NAME


def test_a_journal_whose_folder_could_not_be_synced_goes_on_in_the_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file had the journal's name, and requests were appended to the old one, which has none any more."""
    path = tmp_path / "journal"
    journal = begin(path)
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="Input/output error"):
        fail("fsync", patch, only_folders=True)
        journal.begin_again(NAME, 78)
    journal.add_request(1, b"request 1")
    assert recover_copy(path).requests == {1: b"request 1"}
    journal.sync()
    journal.close()
    assert recover(path).requests == {1: b"request 1"}


def recover_copy(path: Path) -> JournalState:
    """What a later process would find, while this one has the file."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    return recover(copy)


def test_the_file_is_synced_before_it_is_renamed_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sync of the file of a journal that is left out, or comes too late, is missed here."""
    calls: list[str] = []
    path = tmp_path / "journal"
    original = {name: getattr(os, name) for name in ("fsync", "fdatasync", "rename")}

    def note(name: str, target: Any) -> str:
        return f"{name} {Path(os.readlink(f'/proc/self/fd/{target}')).name if isinstance(target, int) else ''}".strip()

    for name, call in original.items():
        monkeypatch.setattr(
            os, name, lambda *args, name=name, call=call: (calls.append(note(name, args[0])), call(*args))
        )
    file = JournalFile(str(path))
    calls.clear()
    file.append(b"one")
    file.sync()
    assert calls == ["fdatasync journal"]
    calls.clear()
    file.replace(b"two")
    assert calls == ["fsync journal.new", "rename", f"fsync {tmp_path.name}"]
    file.close()
