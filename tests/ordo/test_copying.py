"""What a member does with what its standbys answer, where it copies their snapshots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.backup.query import Description, OfferedSnapshot
from ordo.cluster.node.node import Node
from ordo.cluster.wire.members import parse_members
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import SECOND_NS
from ordo.standby import copying
from ordo.standby.copying import AWAITED_INTERVAL_NS, StandbyCopies

ASKED = "127.0.0.1:20000"


class Member:
    """A member that awaits a snapshot, and asks one standby, which answers at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, archive: str, parts: list[Any]) -> None:
        """`archive`: where the standby says that its archive is; `parts`: what becomes of the parts, one by one."""
        members = parse_members(f"0,a:1,a:2,a:3,a:4,{archive}")
        offered = OfferedSnapshot(64, 0, 0, 1000, (5,), 6)
        self.answer: Description | None = Description(0, 0, members, offered)
        self.problem = ArchiveError("it is silent")
        self.parts = parts
        self.asked_ns: list[int] = []
        self.channels: list[str] = []
        self.told: list[str] = []
        self.taken: list[tuple[int, ...]] = []
        self.dropped: list[int] = []
        self.copies = SimpleNamespace(
            is_under_way=False,
            wanted_position=64,
            awaits=lambda position: position == 64,
            take=lambda position, recording_ids: self.taken.append(recording_ids),
        )
        exchange = SimpleNamespace(copies=self.copies, copy_orders=SimpleNamespace(note_answer=lambda now_ns: None))
        module = SimpleNamespace(
            exchange=exchange,
            held=SimpleNamespace(shelf=SimpleNamespace(drop_part=self.dropped.append)),
            base=SimpleNamespace(
                seams=SimpleNamespace(store=SimpleNamespace(folder=SimpleNamespace(origin=None))),
            ),
            member=SimpleNamespace(announce=lambda event, text: self.told.append(text)),
        )
        monkeypatch.setattr(copying, "MemberQuery", self._ask)
        monkeypatch.setattr(copying, "PartCopy", self._copy)
        node = SimpleNamespace(module=module, client=None, archive=None)
        self.standby_copies = StandbyCopies(cast("Node", node), [ASKED])

    def _ask(self, client: Any, address: str, credentials: bytes, now_ns: int, wanted: int) -> Any:
        self.asked_ns.append(now_ns)
        return SimpleNamespace(
            work=lambda _: None, is_done=True, close=lambda: None, answer=self.answer, problem=self.problem
        )

    def _copy(self, archive: Any, client: Any, settings: Any, recording_id: int, now_ns: int, known: Any) -> Any:
        self.channels.append(settings.control_channel)
        return self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]

    def run(self, seconds: int) -> None:
        for now_ns in range(0, seconds * SECOND_NS, SECOND_NS // 20):
            self.standby_copies.work(now_ns)


def part(error: ArchiveError | None = None) -> Any:
    def work(now_ns: int) -> None:
        if error is not None:
            raise error

    return SimpleNamespace(is_done=error is None, recording_id=7, work=work, close=lambda: None)


def test_a_copy_that_fails_again_and_again_is_told_once_and_not_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(monkeypatch, "127.0.0.1:5", [part(ArchiveError("no more room"))])
    member.run(10)
    assert member.told == [f"the standby at {ASKED} answers", "no copy from a standby: no more room"]
    assert 3 <= len(member.asked_ns) <= 6 and set(member.dropped) == {7}
    member.parts = [part()]
    member.run(20)
    assert member.taken[0] == (7,)
    member.answer = None
    member.run(30)
    assert member.told[2:] == ["no copy from a standby: it is silent"]


def test_what_is_awaited_is_asked_for_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(monkeypatch, "127.0.0.1:5", [part()])
    member.copies.awaits = lambda position: False
    member.run(2)
    assert len(member.asked_ns) == 2 * SECOND_NS // AWAITED_INTERVAL_NS
    member.copies.wanted_position = NULL_VALUE
    member.asked_ns.clear()
    member.standby_copies.work(10 * SECOND_NS)
    member.standby_copies.work(10 * SECOND_NS)
    member.standby_copies.work(11 * SECOND_NS)
    assert member.asked_ns == [10 * SECOND_NS]


@pytest.mark.parametrize("name", ["standby.example", "a..b", "localhost"])
def test_a_name_of_a_standbys_archive_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """That would hold up the member; some names could not even be asked for."""
    member = Member(monkeypatch, f"{name}:5", [part()])
    member.run(1)
    assert member.channels[0] == "aeron:udp?endpoint=127.0.0.1:5" and member.taken


def test_an_address_of_a_standbys_archive_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(monkeypatch, "[::1]:5", [part()])
    member.run(1)
    assert member.channels[0] == "aeron:udp?endpoint=[::1]:5"
