"""`ordo debug`, as it is typed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.errors import ConfigurationError, ServiceError
from ordo.testing import recorded
from tests.debugging.bank import Bank, FailingBank, is_balanced
from tests.debugging.logs import BankLog

HERE = "tests.debugging.bank"


@pytest.fixture
def bank(tmp_path: Path) -> BankLog:
    return BankLog(tmp_path / "node0")


def typed(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> list[str]:
    """The lines that a command prints."""
    capsys.readouterr()
    found = run(["debug", *map(str, words)])
    out, err = capsys.readouterr()
    assert found == status, out + err
    return (out + err).splitlines()


def test_replay_prints_the_state(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    lines = typed(capsys, "replay", bank.folder, "--service", f"{HERE}:Bank", "--to", bank.positions[1])
    assert lines[-2:] == [
        f"position {bank.positions[1]}, time 1700000000010, term 0, version 1, 1 sessions, 1 timers",
        "accounts = {'ann': 80, 'bob': 120}",
    ]


def test_replay_to_a_condition(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "replay", bank.folder, "--service", f"{HERE}:Bank", "--break"
    lines = typed(capsys, *words, "payload.startswith(b'bob bob')")
    assert lines[0].startswith(f"{bank.positions[4]} message ")
    assert lines[1:3] == ["  schedule timer=1 at=1700000001040", "  answer session=7 b'173'"]
    assert typed(capsys, *words, "False")[0] == f"there is no such record from 0 to {bank.end}"
    (line,) = typed(capsys, *words, "nothing", status=2)
    assert line.startswith("ordo: --break nothing: NameError: name 'nothing' is not defined (at position ")
    (line,) = typed(capsys, *words, "(", status=2)
    assert line.startswith("ordo: --break (: ")


def test_the_prompt(bank: BankLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at = bank.positions
    commands = f"""to {at[0]}
step
back
state accounts["bob"] + 1
next
break service.accounts["ann"] == 0 and session == 7
run
run
sessions
timers
back 100
nonsense
step x
state nothing
to never
help step
trace
"""
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    lines = typed(
        capsys, "replay", bank.folder, "--service", f"{HERE}:Bank", "--to", "start", "--commands", "-", status=1
    )
    second = f"{at[1]} message"
    expected = (
        *("position 0,", "accounts = ", f"{at[0]} of {bank.end}", second, "  schedule", "  answer session=7 b'120'"),
        *(f"{at[0]} of {bank.end}", "131", second, f"{at[5]} message", "  schedule", "  answer session=7 b'0'"),
        *("this is the end of the log", f"{bank.end} timer", "  publish", "session 7 principal b'carol'"),
        *("this is the earliest position", "nonsense: there is no such command", "step x: allowed is a count"),
        *("nothing: NameError", "to never: allowed is a position"),
        *("Execute the next record, or the next N", "the service has raised nothing here"),
    )
    assert [line[: len(words)] for line, words in zip(lines, expected, strict=True)] == list(expected)


def test_the_debugger_of_python_begins_in_the_callback(
    bank: BankLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"to {bank.positions[3]}\npdb\np payload\nc\nquit\n"))
    lines = typed(capsys, "replay", bank.folder, "--service", f"{HERE}:Bank", "--to", "start", "--commands", "-")
    text = "\n".join(lines)
    assert "on_session_message" in text
    assert "b'bob bob 50'" in text
    assert "  answer session=7 b'173'" in text


def test_who_leaves_the_debugger_is_where_he_was(
    bank: BankLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"to {bank.positions[3]}\npdb\nq\nstep\n"))
    lines = typed(capsys, "replay", bank.folder, "--service", f"{HERE}:Bank", "--to", "start", "--commands", "-")
    assert any(line.endswith("the debugger was left: the record is not executed") for line in lines)
    assert lines[-1] == "  answer session=7 b'173'"


def test_both_raise(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bisect", bank.folder, "--service", f"{HERE}:FailingBank", "--other", f"{HERE}:FailingBank"
    assert typed(capsys, *words) == [f"the two do the same up to position {bank.positions[5]}, where both raise"]
    lines = typed(capsys, *words[:4], "--other", f"{HERE}:Bank", status=1)
    assert lines[0].startswith(f"they differ first at position {bank.positions[5]}: ")
    assert any(line.startswith("  left: raise") for line in lines)
    lines = typed(capsys, "diff", bank.folder, "--service", f"{HERE}:FailingBank", "--leave-out", bank.positions[4])
    assert "a service raises at position" not in "".join(lines[:3])


def test_a_large_state_is_cut(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = BankLog(tmp_path / "node0", [f"ann user{number} 0" for number in range(150)])
    lines = typed(capsys, "replay", log.folder, "--service", f"{HERE}:Bank")
    assert (lines[1], lines[-1]) == ("accounts = {'ann': 100,", "... these are the first of 152")
    assert len(lines) < 25


def test_a_native_service(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    service = "tests.cluster.container.native_service:NativeEcho"
    lines = typed(capsys, "replay", bank.folder, "--service", service)
    assert lines[0].startswith(f"position {bank.end}, ")
    assert len(lines) > 1


def test_a_service_that_raises(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    lines = typed(capsys, "replay", bank.folder, "--service", f"{HERE}:FailingBank", status=1)
    assert lines[0].startswith(
        f"service FailingBank raised in on_session_message at position {bank.positions[5]}: Zero"
    )
    assert lines[1].startswith(f"position {bank.positions[5]}, ")
    assert lines[2:] == ["accounts = {'ann': 0, 'bob': 250}", "was_rich = True"]


def test_bisect_finds_the_record(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bisect", bank.folder, "--service", f"{HERE}:Bank", "--predicate", f"{HERE}:is_balanced"
    lines = typed(capsys, *words, status=1)
    assert lines[0].startswith(f"{HERE}:is_balanced fails first after {bank.positions[4]} message ")
    lines = typed(capsys, *words, "--to", bank.positions[3])
    assert lines[0].startswith(f"{HERE}:is_balanced holds after every record up to position {bank.positions[3]}")
    bank.add_snapshot(bank.state_at(bank.positions[4]))
    lines = typed(capsys, *words, "--from", bank.positions[4], status=1)
    assert lines == [f"{HERE}:is_balanced fails already at position {bank.positions[4]}, before any record is executed"]


def test_bisect_takes_a_service_that_raises_for_a_failure(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bisect", bank.folder, "--service", f"{HERE}:FailingBank", "--predicate", "builtins:bool"
    lines = typed(capsys, *words, status=1)
    assert lines[0].startswith(f"the service raises first after {bank.positions[5]} message ")


def test_bisect_of_two_versions(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bisect", bank.folder, "--service", f"{HERE}:Bank", "--other"
    lines = typed(capsys, *words, f"{HERE}:MendedBank", status=1)
    assert lines[0].startswith(f"they differ first at position {bank.positions[4]}: ")
    assert lines[1:] == [
        "  left: schedule timer=1 at=1700000001040",
        "  left: answer session=7 b'173'",
        "  right: schedule timer=1 at=1700000001040",
        "  right: answer session=7 b'123'",
        "  state: accounts['bob']: 173 | 123",
    ]
    lines = typed(capsys, *words, f"{HERE}:QuietlyOtherBank", status=1)
    assert lines[0].startswith(f"they differ first at position {bank.positions[2]}: ")
    assert lines[1:] == ["  state: accounts['bob']: 123 | 124"]
    lines = typed(capsys, *words, f"{HERE}:QuietlyOtherBank", "--outputs-only", status=1)
    assert lines[0].startswith(f"they differ first at position {bank.positions[3]}: ")
    assert typed(capsys, *words, f"{HERE}:Bank") == [f"the two do the same up to position {bank.end}"]


def test_what_differs_after_a_record_is_left_out_or_changed(bank: BankLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = "diff", bank.folder, "--service", f"{HERE}:Bank"
    lines = typed(capsys, *words, "--leave-out", bank.positions[4])
    assert lines[0].startswith(f"left out: {bank.positions[4]} message ")
    assert "  changed:   reject session=7 b'left out: by the one who looks at it'" in lines
    assert lines[-1] == "state, as it was | changed: accounts['bob']: 250 | 200"
    for service in ("Bank", "BankOfRuns"):
        change = "--change", f"{bank.positions[0]}=ann bob 40"
        lines = typed(capsys, "diff", bank.folder, "--service", f"{HERE}:{service}", *change)
        assert "  as it was: answer session=7 b'70'" in lines
        assert "  changed:   answer session=7 b'60'" in lines
    (line,) = typed(capsys, *words, "--change", f"{bank.positions[0] + 32}=x", status=2)
    assert line.startswith(f"ordo: no record of the log ends at {bank.positions[0] + 32}")
    (line,) = typed(capsys, *words, "--change", "here=x", status=2)
    assert "must be POSITION=PAYLOAD" in line
    (line,) = typed(capsys, *words, "--change", f"{bank.timer_position}=x", status=2)
    assert line.endswith("has no payload to be changed")


def test_two_members(bank: BankLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = BankLog(tmp_path / "node1")
    for one in (bank, other):
        one.add_snapshot(bank.state_at(bank.positions[0]))
    words = "diff", bank.folder, other.folder, "--service", f"{HERE}:Bank"
    assert typed(capsys, *words) == [f"the logs are alike from 0 to {bank.end}, and 1 snapshots"]
    state = bank.state_at(bank.positions[3])
    bank.add_snapshot(state._replace(messages=tuple(one.replace(b'"ann": 77', b'"ann": 78') for one in state.messages)))
    other.add_snapshot(state)
    at = f"position {bank.positions[3]}, and are alike at the snapshot at {bank.positions[0]}"
    assert typed(capsys, *words, status=1) == [
        f"their states differ at the snapshot of {at}",
        "  state: accounts['ann']: 78 | 77",
        f"  the log leads to that of {other.folder}",
    ]
    third = BankLog(tmp_path / "node2", ["ann bob 30", "bob ann 11"])
    lines = typed(capsys, "diff", bank.folder, third.folder, "--service", f"{HERE}:Bank", status=1)
    assert lines[0] == f"the logs differ first at position {bank.positions[1]}"


def test_a_stretch_becomes_a_test(bank: BankLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "money.json"
    words = "record", bank.folder, "--service", f"{HERE}:Bank", "--output", file
    lines = typed(capsys, *words, "--minimise", "--predicate", f"{HERE}:is_balanced")
    assert lines == [f"{file}: 2 of 9 records, from the beginning"]  # the session, and the transfer to oneself
    run = recorded(file).run(Bank)
    assert not is_balanced(run.service)
    assert [one.value for one in run.effects if one.kind == "answer"] == [b"150"]

    typed(capsys, *words, "--anonymise", f"{HERE}:hide_names")
    assert b"bob" not in b"".join(one.data for one in recorded(file).records)
    (line,) = typed(capsys, *words, "--anonymise", f"{HERE}:drop", status=2)
    assert "it must return bytes of the same length" in line

    typed(capsys, *words, "--from", bank.positions[3])
    stretch = recorded(file)
    assert stretch.start is not None
    assert stretch.run(Bank).service.accounts == {"ann": 0, "bob": 250}
    (line,) = typed(capsys, *words, "--minimise", "--to", bank.positions[3], status=2)
    assert line.startswith("ordo: --minimise: the service does not raise in this stretch")


def test_what_a_service_raises_is_minimised(bank: BankLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "raises.json"
    words = "record", bank.folder, "--service", f"{HERE}:FailingBank", "--output", file
    (line,) = typed(capsys, *words, "--minimise")
    assert line == f"{file}: 5 of 9 records, from the beginning"
    with pytest.raises(ServiceError, match=r"ZeroDivisionError: nothing left"):
        recorded(file).run(FailingBank)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "nowhere", "--service", f"{HERE}:Bank"], "nowhere: there is no such folder"),
        (["replay", "FOLDER", "--service", f"{HERE}:Nobody"], f"{HERE} has no class 'Nobody'"),
        (["replay", "FOLDER", "--service", "bank"], "must be module:Class"),
        (["replay", "FOLDER", "--service", "1=a:B", "--service", "b:C"], "there is no module 'a'"),
        (["replay", "FOLDER", "--service", f"{HERE}:Bank", "--service", f"{HERE}:Bank"], "each must say its version"),
        (["replay", "FOLDER", "--service", f"{HERE}:Bank", "--to", "noon"], "--to noon: allowed is a position"),
        (["replay", "FOLDER", "--service", f"{HERE}:Bank", "--to", "99999999"], "cannot be reached"),
        (["replay", "FOLDER", "--service", f"2={HERE}:Bank"], "code of another version than was given"),
        (["replay", "FOLDER", "--service", f"{HERE}:Bank", "--commit", "all"], "--commit all: allowed is auto"),
        (["bisect", "FOLDER", "--service", f"{HERE}:Bank"], "give --predicate module:function, or --other"),
        (["bisect", "FOLDER", "--service", f"{HERE}:Bank", "--predicate", f"{HERE}:no"], "has no function 'no'"),
        (["bisect", "FOLDER", "--service", f"{HERE}:Bank", "--predicate", "nowhere:x"], "there is no module 'nowhere'"),
        (["diff", "FOLDER", "--service", f"{HERE}:Bank"], "give a second folder, --leave-out"),
    ],
)
def test_a_mistake_gets_one_line(
    bank: BankLog, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (line,) = typed(capsys, *(str(bank.folder) if one == "FOLDER" else one for one in words), status=2)
    assert said in line


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', '{"format": 1, "records": 3}'])
def test_a_file_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(Exception, match=r"is no file of `ordo debug record`|has format 2") as failure:
        recorded(tmp_path / "file")
    assert type(failure.value).__name__ == "ConfigurationError"


@pytest.mark.parametrize("position", [-32, 33, 64, 1 << 60])
def test_a_file_with_hostile_positions(bank: BankLog, tmp_path: Path, position: int) -> None:
    file = tmp_path / "file"
    assert run(["debug", "record", str(bank.folder), "--service", f"{HERE}:Bank", "--output", str(file)]) == 0
    values = json.loads(file.read_text())
    values["records"][-1][0] = position
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigurationError, match="its records do not follow on one another"):
        recorded(file)
