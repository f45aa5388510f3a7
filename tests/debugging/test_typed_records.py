"""What `ordo debug` prints of messages whose schema the log has: objects, among records and among effects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo import ClientSession, ClusteredService, Header
from ordo.cli import run
from ordo.cluster.wire import codecs
from ordo.messages import decode, encode
from tests.debugging.logs import SESSION, TIME, new_term, session_open
from tests.pipeline.typed_logs import Record, event, write_log
from tests.service_api.messages.typed import FIRST, Position

HERE = "tests.debugging.test_typed_records"


class Counter(ClusteredService):
    """Counts accounts, and answers with the sum."""

    def on_start(self, cluster: object, snapshot: object) -> None:
        self.total = 0

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.total += decode(Position, payload).account
        return encode(Position(self.total))


class Miscounter(Counter):
    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.total += decode(Position, payload).account == 4
        return super().on_session_message(session, timestamp, payload, header)


def is_small(counter: Counter) -> bool:
    return counter.total < 7


def message(account: int) -> Record:
    head = codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=0, cluster_session_id=SESSION, timestamp=TIME)
    return Record(head + encode(Position(account)))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    head = [Record(new_term(0)), Record(session_open())]
    return write_log(tmp_path, [*head, event(FIRST), message(3), message(4)], initial_term_id=0)


def typed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    found = run(["debug", *words])
    out, err = capsys.readouterr()
    assert found == status, out + err
    return out + err


def test_replay(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    stop = "position and service.total == 7"
    lines = typed(capsys, "replay", folder, "--service", f"{HERE}:Counter", "--break", stop).splitlines()
    assert lines[0].endswith(" session=7 length=12 Position(account=4)")
    assert lines[1] == "  answer session=7 Position(account=7)"


def test_bisect(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bisect", folder, "--service", f"{HERE}:Counter"
    assert "Position(account=4)\n" in typed(capsys, *words, "--predicate", f"{HERE}:is_small", status=1)
    found = typed(capsys, *words, "--other", f"{HERE}:Miscounter", status=1)
    assert "length=12 Position(account=4)\n" in found
    assert "  left: answer session=7 Position(account=7)\n  right: answer session=7 Position(account=8)\n" in found


def test_diff(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = [Record(new_term(0)), Record(session_open())]
    other = write_log(tmp_path / "other", [*head, event(FIRST), message(3), message(5)], initial_term_id=0)
    found = typed(capsys, "diff", folder, other, "--service", f"{HERE}:Counter", status=1)
    assert "Position(account=4)\n" in found and "Position(account=5)\n" in found


def test_a_log_whose_schema_is_damaged_is_shown_as_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = [Record(new_term(0)), Record(session_open())]
    folder = write_log(tmp_path, [*head, event(FIRST, packed=b"none"), message(3)], initial_term_id=0)
    words = "replay", folder, "--service", f"{HERE}:Counter", "--break", "service.total == 3"
    assert r"length=12 b'\x04\x00\x02\x00" in typed(capsys, *words)
