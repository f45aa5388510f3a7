"""Hashes of states: asked for after so much log, compared with a quorum's, and written down for who comes later."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.snapshots.snapshot_reports import ROWS_MAX, HeldSnapshot
from ordo.cluster.module.snapshots.snapshot_schedule import AGAIN_NS
from ordo.cluster.module.state.host import Replication
from ordo.cluster.module.versions.state_hashes import StateHashes
from ordo.cluster.wire import ordo_codecs
from ordo.runtime.errors import DecodeError
from tests.records import make_record

A, B = b"a" * 16, b"b" * 16


class Member:
    """Member 0 of three; what it appends is committed at once. `found` notes where it was found to differ."""

    def __init__(self, every_bytes: int = 1000, level: int = 1, gives_hashes: bool = True) -> None:
        self.leadership_term_id, self.cluster_time, self.is_leader = 3, 1000, True
        self.append_position = 0
        self.appended: list[Any] = []
        self.sent: list[bytes] = []
        self.found: list[tuple[int, int]] = []
        self.dissent: list[int] = []
        self.asked = 0
        core = SimpleNamespace(
            configuration=SimpleNamespace(voter_ids=(0, 1, 2), member_ids=(0, 1, 2), quorum_threshold=2)
        )
        self.hashes = StateHashes(
            cast(Any, self),
            Replication(cast(Any, core), cast(Any, self), cast(Any, self)),
            cast(Any, SimpleNamespace(newest=level)),
            cast(Any, SimpleNamespace(gives_hashes=gives_hashes)),
            cast(Any, self),
            0,
            every_bytes,
            ask_snapshot=self.ask_snapshot,
        )
        self.hashes.start(0)

    def append(self, record: bytes) -> bool:
        found = ordo_codecs.decode(record)
        assert found is not None
        self.append_position += 96
        self.appended.append(found[1])
        log_record = LogRecord(self.append_position, *found)
        self.hashes.on_record(log_record)
        self.hashes.execute(log_record)
        return True

    def broadcast(self, message: bytes) -> None:
        self.sent.append(message)

    def on_other_hash(self, agreed: HeldSnapshot, own: bytes, alike_position: int) -> None:
        self.found.append((agreed.log_position, alike_position))

    def tell_dissent(self, position: int | None) -> None:
        if position is not None:
            self.dissent.append(position)

    def ask_snapshot(self) -> bool:
        self.asked += 1
        return True

    def have(self, position: int, digest: bytes) -> None:
        self.hashes.on_service_hash(make_record(ordo_codecs.STATE_HASH, log_position=position, digest=digest))

    def hear(self, member_id: int, *rows: tuple[int, bytes]) -> None:
        packed = b"".join(struct.pack("<q16s", *row) for row in rows)
        report = SimpleNamespace(member_id=member_id, hashes=packed)
        self.hashes.handlers[ordo_codecs.STATE_HASH_REPORT](report, 0)

    def work(self, snapshot_position: int = -1, now_ns: int = 0) -> None:
        self.hashes.work(now_ns, HeldSnapshot(snapshot_position, A) if snapshot_position >= 0 else None)


def test_an_event_follows_after_so_much_log_and_tells_what_was_agreed() -> None:
    member = Member()
    member.append_position = 999
    member.work()
    assert member.appended == []
    member.append_position = 1000
    member.work()
    member.work()
    [event] = member.appended
    assert (event.agreed_position, event.agreed_digest) == (-1, b"")
    member.have(1096, A)
    member.hear(1, (1096, A))
    member.append_position = 2096
    member.work()
    assert (member.appended[1].agreed_position, member.appended[1].agreed_digest) == (1096, A)
    assert member.hashes.agreed_position == 1096
    member.append_position = 4000
    member.work()
    assert member.appended[2].agreed_position == -1, "it was told already"


@pytest.mark.parametrize("options", [{"level": 0}, {"gives_hashes": False}, {"every_bytes": 0}])
def test_there_are_no_events_where_they_cannot_be_or_are_not_wanted(options: dict[str, Any]) -> None:
    member = Member(**options)
    member.append_position = 10_000
    member.work()
    assert member.appended == []


def test_reports_go_out_until_the_log_has_what_was_agreed() -> None:
    member = Member(every_bytes=0)
    member.work()
    assert member.sent == []
    member.have(96, A)
    member.work()
    member.work()
    assert len(member.sent) == 2
    agreed = SimpleNamespace(agreed_position=96, agreed_digest=A)
    member.hashes.execute(LogRecord(200, ordo_codecs.STATE_HASH_EVENT, agreed))
    member.work()
    assert len(member.sent) == 2


def test_a_member_with_another_hash_than_a_quorum_is_found() -> None:
    member = Member(every_bytes=0)
    member.have(100, A)
    member.hear(1, (100, A))
    member.have(200, B)
    member.hear(1, (200, A), (100, A))
    member.work()
    assert member.found == [], "one other may be the one that is wrong"
    member.hear(2, (200, A), (100, A))
    member.work()
    assert member.found == [(200, 100)]


@pytest.mark.parametrize("service_is_late", [False, True])
def test_what_the_log_says_is_compared_by_who_executes_it_later(service_is_late: bool) -> None:
    member = Member(every_bytes=0)
    if not service_is_late:
        member.have(100, B)
    agreed = SimpleNamespace(agreed_position=100, agreed_digest=A)
    member.hashes.execute(LogRecord(200, ordo_codecs.STATE_HASH_EVENT, agreed))
    if service_is_late:
        member.have(100, B)
    assert member.found == [(100, -1)]


def test_a_leader_has_a_snapshot_taken_for_the_one_that_differs_until_a_quorum_has_one() -> None:
    """Seed 11001611: the copies that wrote it died, and the one that differed stood still for ever."""
    member = Member(every_bytes=0)
    for one, digest in ((1, A), (2, B)):
        member.hear(one, (100, digest))
    member.have(100, A)
    member.work(snapshot_position=100)
    assert member.asked == 0, "there is one from behind it"
    member.work(snapshot_position=50)
    member.work(snapshot_position=50)
    assert member.asked == 1 and member.found == []
    later = [(position, A) for position in range(200, 200 + 100 * ROWS_MAX, 100)]
    member.hear(1, *later)  # member 2 has nothing of what is behind its own
    for row in later:
        member.have(*row)
    member.work(snapshot_position=50, now_ns=AGAIN_NS - 1)
    assert member.asked == 1, "it may be under way"
    member.work(snapshot_position=50, now_ns=AGAIN_NS)
    assert member.asked == 2
    member.work(snapshot_position=300, now_ns=3 * AGAIN_NS)
    assert member.asked == 2


def test_no_quorum_is_told_of() -> None:
    member = Member(every_bytes=0)
    member.have(100, A)
    member.hear(1, (100, B))
    member.work()
    assert member.dissent == []
    member.hear(2, (100, b"c" * 16))
    member.work()
    assert member.dissent == [100]


def test_a_report_that_is_no_rows_is_refused() -> None:
    with pytest.raises(DecodeError, match="states of member 1: 23 bytes are no rows of 24"):
        Member().hashes.handlers[ordo_codecs.STATE_HASH_REPORT](SimpleNamespace(member_id=1, hashes=bytes(23)), 0)


def test_a_log_that_is_cut_has_the_events_of_before() -> None:
    member = Member()
    member.append_position = 1000
    member.work()
    member.hashes.truncate(500)
    member.append_position = 1000
    member.work()
    assert len(member.appended) == 2
