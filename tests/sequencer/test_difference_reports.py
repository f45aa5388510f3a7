"""When a canary tells the cluster what it found."""

from __future__ import annotations

from ordo.applications.app_executor import AppExecutor
from ordo.applications.canary import Difference
from ordo.applications.difference_reports import DifferenceReports
from ordo.applications.outputs import Output
from ordo.cluster.wire.sessions.difference_codec import (
    GROUP_DIFFERENCES_MAX,
    NOT_WRITTEN,
    DifferenceKind,
    DifferenceReport,
    decode_difference,
    encode_difference,
)
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from tests.sequencer.applications import Ledger


class Session:
    """A session that takes so many reports, and keeps them."""

    def __init__(self) -> None:
        self.session_id, self.leadership_term_id, self.room = 7, 1, 1000
        self.sent: list[DifferenceReport] = []

    def offer_report(self, message: bytes) -> bool:
        report = decode_difference(message)
        assert report is not None
        if self.room == len(self.sent):
            return False
        self.sent.append(report)
        return True

    @property
    def positions(self) -> list[int]:
        return [one.input_position for one in self.sent]


def found(position: int) -> Difference:
    return Difference(position, 2, Output(1, position, 2, -1, b"w" * 70), None)


def reports() -> DifferenceReports:
    return DifferenceReports("pricing", "here", 3, 1000)


def entry(position: int, session_id: int = 7) -> LogEntry:
    told = found(position)
    record = DifferenceReports("pricing", "here", 3, 1000)
    session = Session()
    record.note(told)
    record.work(session, 0)
    sent = encode_difference(session.sent[0]._replace(session_id=session_id), 1)
    decoded = decode_entry(5000 + position, sent)
    assert decoded is not None and decoded.kind is EntryKind.DIFFERENCE
    return decoded


def test_what_is_found_is_told_once_an_interval() -> None:
    one, session = reports(), Session()
    one.work(session, 0)
    one.note(found(100))
    one.work(session, 0)
    assert session.sent == [
        DifferenceReport(
            "pricing", "here", 7, 0, 0, 100, 2, 1, 3, DifferenceKind.MISSING, 70, NOT_WRITTEN, b"w" * 60, b""
        )
    ]
    one.note(found(200))
    one.work(session, 999)
    assert session.positions == [100]
    one.work(session, 1000)
    assert session.positions == [100, 200]


def test_it_is_told_again_until_it_stands_in_the_log() -> None:
    one, session = reports(), Session()
    for position in (100, 200):
        one.note(found(position))
    one.work(session, 0)
    one.confirm(entry(100))
    one.confirm(entry(200, session_id=99))
    one.confirm(entry(300))
    one.work(session, 4999)
    assert session.positions == [100, 200]
    one.work(session, 5000)
    assert session.positions == [100, 200, 200], "that of another session was another canary's"
    session.session_id = 8
    one.work(session, 6000)
    assert (session.sent[-1].session_id, session.positions[-1]) == (8, 200), "at once in a new session"
    one.confirm(entry(200, session_id=8))
    assert not one.has_untold and [(told.input_position, told.found) for told in one.told] == [(100, 1), (200, 2)]


def test_a_checkpoint_has_what_is_not_told() -> None:
    one, session = reports(), Session()
    for position in (100, 200, 300):
        one.note(found(position))
    one.work(session, 0)
    one.confirm(entry(200))
    states = list(AppExecutor(Ledger(), "pricing").take_snapshot())
    next_life, session = reports(), Session()
    assert next_life.restore([*one.snapshot(), *states]) == states
    next_life.work(session, 0)
    assert session.positions == [100, 300]
    assert reports().restore(states) == states, "of an instance that is no canary"


def test_what_was_not_taken_is_offered_again_and_too_much_is_left_out() -> None:
    one, session = reports(), Session()
    session.room = 2
    for number in range(GROUP_DIFFERENCES_MAX + 5):
        one.note(found(number))
    one.work(session, 0)
    session.session_id = -1
    one.work(session, 1)
    session.room, session.session_id = 1000, 7
    one.work(session, 1)
    assert session.positions == list(range(5, GROUP_DIFFERENCES_MAX + 5))
    assert session.sent[-1].found == GROUP_DIFFERENCES_MAX + 5, "how many there were is told"
