"""`ordo debug index`: the index of a member's log built out of it, and compared with all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ordo.cli import app
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, CommitNote
from ordo.cluster.wire.log_index.entries import ENTRY_BYTES, FILE_NAME, decode_entry, encode_entry
from ordo.cluster.wire.log_index.index import IndexFault
from ordo.debugging.log_index import build_index, check_index, open_index
from ordo.runtime.errors import ClusterError, ConfigurationError, StorageInUseError
from tests.debugging.logs import BankLog
from tests.snippets import ROOT, texts_of

COUNT = 5300
"""Transfers of a log with several places."""
REPEATS = 100


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> BankLog:
    """A log with messages, and requests that are there twice."""
    folder = tmp_path_factory.mktemp("bank")
    twice = [(number, "ann bob 1") for number in range(1, REPEATS + 1) for _ in range(2)]
    bank = BankLog(folder, ["ann bob 1"] * COUNT, requests=twice)
    bank.add_snapshot(bank.state_at(bank.timer_position))
    return bank


def numbered_ends(bank: BankLog) -> list[int]:
    """Where the messages end that have a number, in the order of their numbers."""
    return [*bank.positions[:COUNT], *bank.positions[COUNT::2]]


def index_file(bank: BankLog) -> Path:
    return bank.folder / "cluster" / FILE_NAME


def change(bank: BankLog, at: int, shift: int) -> None:
    """Move the numbers of all entries from one on."""
    data = bytearray(index_file(bank).read_bytes())
    for begin in range(ENTRY_BYTES * (1 + at), len(data), ENTRY_BYTES):
        entry = decode_entry(bytes(data[begin : begin + ENTRY_BYTES]))
        assert entry is not None
        data[begin : begin + ENTRY_BYTES] = encode_entry(entry._replace(sequence=entry.sequence + shift))
    index_file(bank).write_bytes(data)


def test_an_index_is_built_out_of_the_log(bank: BankLog) -> None:
    log = bank.open()
    covered = build_index(log)
    assert covered.first_position == 0 and covered.first_sequence == 0
    ends, index = numbered_ends(bank), open_index(log)
    starts = {one.position: one.start_position for one in log.records(0)}
    last = max(entry.sequence for entry in index.entries() if entry.is_place)
    assert last > COUNT // 2
    for number in [1, 2, *range(3, last, 97), last]:
        assert index.find_sequence(number) == starts[ends[number - 1]]
    places = check_index(log)
    repeats = sum(not entry.is_place for entry in index.entries())
    assert 0 < repeats < REPEATS and 3 < places == covered.entry_count - repeats
    assert index.find_time(0, log.end) == 0


def test_every_place_is_compared(bank: BankLog) -> None:
    build_index(bank.open())
    change(bank, 2, 3)
    with pytest.raises(IndexFault, match="entry 2 does not agree with the log: the number before it is"):
        check_index(bank.open())
    build_index(bank.open())
    assert check_index(bank.open())


def test_what_is_not_committed_is_not_indexed(bank: BankLog) -> None:
    log = bank.open()
    whole = build_index(log)
    note = CommitNote(log.storage, str(index_file(bank).parent))
    note.put(whole.last_position - 32)
    note.close()
    try:
        assert build_index(bank.open()).last_position < whole.last_position - 32
    finally:
        (index_file(bank).parent / COMMIT_NOTE_NAME).unlink()
    refused = CliRunner().invoke(app, ["debug", "index", str(bank.folder), "--build", "--commit", "recorded"])
    assert isinstance(refused.exception, ConfigurationError)
    assert "what is committed alone: give auto, or a position" in str(refused.exception)


def test_a_member_that_runs_keeps_its_index(bank: BankLog) -> None:
    log = bank.open()
    build_index(log)
    before = index_file(bank).read_bytes()
    with log.storage.lock_directory(str(bank.folder)), pytest.raises(StorageInUseError):
        build_index(log)
    assert index_file(bank).read_bytes() == before


def test_a_log_without_its_beginning_is_indexed_from_a_snapshot(tmp_path: Path) -> None:
    bank = BankLog(tmp_path / "late", ["ann bob 1"] * 50, begins_at=1 << 16)
    (bank.folder / "cluster").mkdir()
    with pytest.raises(ClusterError, match="there is no snapshot to count from"):
        build_index(bank.open())


def test_a_folder_that_is_no_members_has_none(tmp_path: Path) -> None:
    bank = BankLog(tmp_path / "archive-alone")
    with pytest.raises(ConfigurationError, match="only the folder of a member"):
        build_index(bank.open())


def test_the_command(bank: BankLog) -> None:
    index_file(bank).unlink(missing_ok=True)
    run = CliRunner().invoke
    missing = run(app, ["debug", "index", str(bank.folder)])
    assert isinstance(missing.exception, IndexFault) and "has no index" in str(missing.exception)
    done = run(app, ["debug", "index", str(bank.folder), "--build", "--check", "--sequence", "1234"])
    assert done.exit_code == 0, done.output
    begin = next(one.start_position for one in bank.open().records(0) if one.position == bank.positions[1233])
    assert "entries, from position 0 with number 1 to position" in done.output
    assert "places agree with the log" in done.output
    assert f"number 1234 begins at position {begin}" in done.output
    beyond = run(app, ["debug", "index", str(bank.folder), "--sequence", "999999"])
    assert "is in no part of the log that is indexed" in str(beyond.exception)


def test_the_commands_of_the_log_page(bank: BankLog) -> None:
    (block,) = [text for text in texts_of((ROOT / "docs" / "LOG.md").read_text(), "sh") if "debug index" in text]
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    assert [line[:3] for line in lines] == [["ordo", "debug", "index"]] * 4
    build_index(bank.open())
    for line in lines:
        words = [word.replace("data/0", str(bank.folder)).replace("1234567", "1234") for word in line[1:]]
        assert CliRunner().invoke(app, words).exit_code == 0, words
