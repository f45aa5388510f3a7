"""A service at any record of its log, forward and backward."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.commit_note import CommitNote
from ordo.debugging.prompt import go
from ordo.debugging.replaying import timeline as timelines
from ordo.debugging.replaying.code import code_of
from ordo.debugging.replaying.execution import Execution, ServiceFailedError
from ordo.debugging.replaying.places import parse_place
from ordo.debugging.replaying.recorded_log import RecordedLog
from ordo.debugging.replaying.timeline import Timeline
from ordo.errors import ConfigurationError
from ordo.pipeline.decoding.errors import CommitUnknownError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_POSITION
from tests.debugging.bank import Bank, BankOfRuns, FailingBank, MendedBank
from tests.debugging.logs import TIME, BankLog


@pytest.fixture
def bank(tmp_path: Path) -> BankLog:
    return BankLog(tmp_path / "node0")


def accounts(timeline: Timeline) -> dict[str, int]:
    service = timeline.execution.service
    assert isinstance(service, Bank)
    return service.accounts


def test_the_state_after_each_record(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(Bank))
    found = []
    for position in bank.positions:
        timeline.go(position)
        found.append(tuple(accounts(timeline).values()))
    assert found == [(70, 130), (80, 120), (77, 123), (77, 123), (77, 173), (0, 250)]


def test_a_step_says_what_the_service_did(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(Bank))
    timeline.go(bank.positions[0] - 1)
    step = timeline.step()
    assert step is not None
    assert [one[1:] for one in step.effects] == [("schedule", 1, TIME + 1000), ("answer", 7, b"70")]
    timeline.go(bank.positions[3] - 1)
    step = timeline.step()
    assert step is not None
    assert step.lines(timeline.log)[1:] == ["  reject session=7 b'bob has 123'"]
    timeline.go(bank.positions[-1])
    step = timeline.step()
    assert step is not None
    assert step.lines(timeline.log)[1:] == ["  publish topic=totals number=1 b'250'"]
    assert timeline.step() is None


def test_backward_it_goes_one_record_at_a_time(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(Bank))
    timeline.go(bank.positions[2])
    found = []
    while timeline.back():
        found.append((timeline.position, dict(accounts(timeline))))
    assert found[:2] == [(bank.positions[1], {"ann": 80, "bob": 120}), (bank.positions[0], {"ann": 70, "bob": 130})]
    assert timeline.position == 0
    assert len(found) == 5  # three transfers less one, the session, the term, the beginning


def test_a_time_is_after_the_last_record_of_it(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(Bank))
    for timestamp, index in ((TIME + 10, 1), (TIME + 19, 1), (TIME + 20, 2)):
        timeline.go_to_time(timestamp)
        assert timeline.position == bank.positions[index]
    timeline.go_to_time(TIME + 20_000)
    assert timeline.position == bank.end
    with pytest.raises(ConfigurationError, match=r"time .* cannot be reached"):
        timeline.go_to_time(TIME - 1)


@pytest.mark.parametrize("has_snapshots", [False, True])
def test_a_number_is_that_of_a_message(bank: BankLog, has_snapshots: bool) -> None:
    if has_snapshots:
        for index in (1, 3):
            bank.add_snapshot(bank.state_at(bank.positions[index]))
    timeline = Timeline(bank.open(), code_of(Bank))
    for sequence in (4, 5, 1, 6, 2, 3):
        go(timeline, parse_place(f"sequence:{sequence}", "--to"))
        assert timeline.position == bank.positions[sequence - 1]
    with pytest.raises(ConfigurationError, match=r"no message has the number 7: at position .* the last one has 6"):
        timeline.go_to_sequence(7)
    with pytest.raises(ConfigurationError, match="such as sequence:1234567"):
        parse_place("sequence:0", "--to")


def test_a_condition_stops_after_the_first_record_for_which_it_is_true(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(Bank))
    step = timeline.run(lambda step: accounts(timeline)["bob"] > 150)
    assert step is not None
    assert step.position == timeline.position == bank.positions[4]


def test_snapshots_are_executed_from(bank: BankLog) -> None:
    state = bank.state_at(bank.positions[1])
    other = state._replace(messages=tuple(one.replace(b'"ann": 80', b'"ann": 81') for one in state.messages))
    bank.add_snapshot(other)
    timeline = Timeline(bank.open(), code_of(Bank))
    timeline.go(bank.positions[2])
    assert accounts(timeline) == {"ann": 78, "bob": 123}
    timeline = Timeline(bank.open(), code_of(Bank), uses_snapshots=False)
    timeline.go(bank.positions[2])
    assert accounts(timeline) == {"ann": 77, "bob": 123}


def test_states_are_kept_on_the_way(bank: BankLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "CHECKPOINT_INTERVAL_S", 0.0)
    monkeypatch.setattr(timelines, "CHECKPOINT_COST_MAX", 0.0)
    monkeypatch.setattr(timelines, "CHECKPOINTS_MAX", 3)
    timeline = Timeline(bank.open(), code_of(Bank))
    assert timeline.run(lambda step: False) is None
    assert 1 <= len(timeline._kept) <= 3
    started = timeline._best(bank.positions[-1])
    assert started >= bank.positions[2]
    timeline.back()
    assert timeline.position == bank.positions[-1]
    assert accounts(timeline) == {"ann": 0, "bob": 250}


def test_a_record_that_was_left_out_is_left_out(tmp_path: Path) -> None:
    log = BankLog(tmp_path / "node0", skipped=4)
    timeline = Timeline(log.open(), code_of(Bank))
    timeline.go(log.positions[4])
    assert accounts(timeline) == {"ann": 77, "bob": 123}
    timeline.back()
    step = timeline.step()
    assert step is not None
    assert step.lines(timeline.log)[1:] == ["  reject session=7 b'left out: it hurts'"]


def test_where_the_service_raises(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(FailingBank))
    with pytest.raises(
        ServiceFailedError, match=r"raised in on_session_message at position .*ZeroDivisionError.*bank.py"
    ):
        timeline.go(bank.end)
    assert timeline.position == bank.positions[-1]
    assert timeline.step() is None
    assert timeline.back()
    assert (timeline.position, accounts(timeline)) == (bank.positions[4], {"ann": 77, "bob": 173})


def test_a_version_that_is_not_given(bank: BankLog) -> None:
    with pytest.raises(ConfigurationError, match="the service's code of another version than was given"):
        Timeline(bank.open(), code_of({2: Bank})).go(bank.end)
    timeline = Timeline(bank.open(), code_of({1: Bank}))
    timeline.go(bank.end)
    assert accounts(timeline) == {"ann": 0, "bob": 250}


@pytest.mark.parametrize("place", [-1, 1 << 40])
def test_a_position_that_cannot_be_reached(bank: BankLog, place: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"position {place} cannot be reached: allowed are positions from 0"):
        Timeline(bank.open(), code_of(Bank)).go(place)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        RecordedLog(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"there is no catalog.mdb in this folder"):
        RecordedLog(tmp_path)


def test_nothing_is_changed_in_the_folder(bank: BankLog) -> None:
    bank.add_snapshot(bank.state_at(bank.positions[1]))

    def fingerprint() -> dict[str, str]:
        files = [path for path in bank.folder.rglob("*") if path.is_file() and path.suffix != ".mdb-lock"]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if "lock" not in path.name}

    before = fingerprint()
    timeline = Timeline(bank.open(), code_of(Bank))
    timeline.go(bank.end)
    timeline.back()
    assert fingerprint() == before


def test_versions_hand_over_as_in_the_cluster(tmp_path: Path) -> None:
    log = BankLog(tmp_path / "node0", upgraded=4)
    timeline = Timeline(log.open(), code_of({1: Bank, 2: MendedBank}))
    timeline.go(log.end)
    assert type(timeline.execution.service) is MendedBank
    assert accounts(timeline) == {"ann": 0, "bob": 200}
    timeline = Timeline(log.open(), code_of(Bank))
    timeline.go(log.end)
    assert accounts(timeline) == {"ann": 0, "bob": 250}


def test_a_log_whose_beginning_is_gone(bank: BankLog, tmp_path: Path) -> None:
    later = BankLog(tmp_path / "node1", begins_at=1 << 16)
    with pytest.raises(
        ConfigurationError, match=r"the log begins at 65536, and there is no snapshot of a later position"
    ):
        Timeline(later.open(), code_of(Bank))
    state = bank.state_at(bank.positions[0])
    moved = Execution(bank.open(), code_of(Bank), state)
    messages: list[bytes] = []
    moved.container.save(later.positions[0], messages.append)
    later.add_snapshot(state._replace(position=later.positions[0], messages=tuple(messages)))
    timeline = Timeline(later.open(), code_of(Bank))
    timeline.go(later.positions[1])
    assert accounts(timeline) == {"ann": 80, "bob": 120}
    with pytest.raises(
        ConfigurationError, match=rf"allowed are positions from {later.positions[0]}, the earliest snap"
    ):
        timeline.go(70_000 // 32)


def test_a_request_is_executed_once(tmp_path: Path) -> None:
    log = BankLog(tmp_path / "node0", [], requests=[(1, "ann bob 10"), (1, "ann bob 10"), (2, "bob ann 500")])
    timeline = Timeline(log.open(), code_of(Bank))
    timeline.go(log.positions[0] - 1)
    for kinds in (["schedule", "answer"], [], ["reject"]):
        step = timeline.step()
        assert step is not None
        assert [one.kind for one in step.effects] == kinds
    assert accounts(timeline) == {"ann": 90, "bob": 110}
    for position in reversed(log.positions[:2]):
        timeline.back()  # what was answered is kept in the states, too
        assert (timeline.position, accounts(timeline)) == (position, {"ann": 90, "bob": 110})


@pytest.mark.parametrize("is_written", [False, True])
def test_a_backup(bank: BankLog, is_written: bool) -> None:
    """Its store lies beside the archive, and what it has recorded is committed, also while it is recorded."""
    bank.add_snapshot(bank.state_at(bank.positions[1]))
    (bank.folder / "cluster" / "state.mdb").rename(bank.folder / "state.mdb")
    if is_written:
        catalog = Catalog.open(FileStorage(open_lmdb), str(bank.folder / "archive"))
        catalog.update(bank.log_id, stop_position=NULL_POSITION)
        catalog.close()
    log = bank.open()
    assert (log.end, [one.log_position for one in log.snapshots]) == (bank.end, [bank.positions[1]])
    timeline = Timeline(log, code_of(Bank))
    timeline.go(bank.end)
    assert accounts(timeline) == {"ann": 0, "bob": 250}


def test_a_member_that_was_killed(bank: BankLog) -> None:
    catalog = Catalog.open(FileStorage(open_lmdb), str(bank.folder / "archive"))
    catalog.update(bank.log_id, stop_position=NULL_POSITION)
    catalog.close()
    with pytest.raises(CommitUnknownError):
        bank.open()
    (bank.folder / "cluster").mkdir()
    note = CommitNote(FileStorage(), str(bank.folder / "cluster"))
    note.put(bank.positions[4])
    note.close()
    assert bank.open().end == bank.positions[4]
    assert RecordedLog(bank.folder, "recorded").end == bank.end
    assert RecordedLog(bank.folder, str(bank.positions[1])).end == bank.positions[1]


def test_a_service_that_takes_runs_is_stepped_message_by_message(bank: BankLog) -> None:
    timeline = Timeline(bank.open(), code_of(BankOfRuns))
    timeline.go(bank.positions[0])
    for position, kinds in zip(
        bank.positions[1:4], (["schedule", "answer"], ["schedule", "answer"], ["reject"]), strict=True
    ):
        step = timeline.step()
        assert step is not None
        assert (step.position, [one.kind for one in step.effects]) == (position, kinds)
    timeline.back()
    assert (timeline.position, accounts(timeline)) == (bank.positions[2], {"ann": 77, "bob": 123})


def test_one_of_several_services(bank: BankLog) -> None:
    own = bank.state_at(bank.positions[1])
    other = own._replace(messages=tuple(one.replace(b'"ann": 80', b'"ann": 90') for one in own.messages))
    bank.add_snapshot(own, other)
    for service_id, left in ((0, 77), (1, 87)):
        timeline = Timeline(bank.open(), code_of(Bank), service_id)
        timeline.go(bank.positions[2])
        assert accounts(timeline)["ann"] == left
    with pytest.raises(ConfigurationError, match="--service-id 2: the log is of services 0 to 1"):
        Timeline(bank.open(), code_of(Bank), 2).go(bank.positions[2])
