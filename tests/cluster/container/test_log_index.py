"""The index of the log that a container writes: what it finds, and that nothing in it is believed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.segments.reader import RecordingReader
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.levels import SEQUENCE_LEVEL
from ordo.cluster.wire.log_index.entries import (
    ENTRY_BYTES,
    SPACING_BYTES,
    EntryFlag,
    IndexEntry,
    decode_entry,
    encode_entry,
    encode_header,
)
from ordo.cluster.wire.log_index.index import WALK_BYTES_MAX, IndexFault, LogIndex
from ordo.cluster.wire.log_index.index_counters import INDEX_COUNTERS
from ordo.cluster.wire.log_index.writer import IndexWriter
from ordo.runtime.errors import OrdoError
from ordo.runtime.io.storage import FileStorage
from ordo.service_api.service import ClusteredService, MessageRun
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_message_sequences import raise_level
from tests.cluster.container.test_requests import Requests
from tests.cluster.container.test_service_container import take_snapshot

PAYLOAD = b"x" * 4000
COUNT = 200
"""Messages of a log with several places."""


class Positions(ClusteredService):
    """Keeps where each message ends, by its number."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.times: dict[int, int] = {}

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.ends[header.sequence] = header.position
        self.times[header.sequence] = timestamp

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(b"state")


class PositionsOfRuns(Positions):
    """The same, many messages at a time."""

    def on_session_messages(self, messages: MessageRun) -> None:
        for payload in messages:
            self.on_session_message(None, messages.timestamp, payload, messages.header)


class Member:
    """A node with an index of its log in a file."""

    def __init__(self, directory: Path) -> None:
        self.node = ServiceNode(directory)
        self.path = str(directory / "log.index")
        self.errors: list[Exception] = []
        self.node.set_recovery()
        self.node.begin_term(0, leads=True)
        self.node.open_session(1)

    def start(self, service: ClusteredService) -> ServiceContainer:
        container = self.node.container(service)
        container.index = IndexWriter(self.path, self.errors.append)
        return container

    def send(self, count: int) -> None:
        for _ in range(count):
            self.node.time += 1
            self.node.message(1, PAYLOAD)

    def run(self, container: ServiceContainer) -> None:
        self.node.commit()
        self.node.run(container)

    @property
    def index(self) -> LogIndex:
        recording_id = self.node.recording.recording_id
        return LogIndex(self.path, recording_id, lambda position: self.node.archive.reader(recording_id, position))

    def start_of(self, end: int) -> int:
        """Where the record begins that ends at a position."""
        reader = self.node.archive.reader(self.node.recording.recording_id)
        return next(one.start_position for one in reader.messages(self.node.log.position) if one.position == end)

    def entries(self) -> list[IndexEntry]:
        return list(self.index.entries())

    def change(self, at: int, **values: int) -> None:
        """Write an entry with other values, and the right checksum."""
        entry = self.entries()[at]._replace(**values)
        with open(self.path, "r+b") as file:
            file.seek(ENTRY_BYTES * (1 + at))
            file.write(encode_entry(entry))


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    member = Member(tmp_path)
    yield member
    member.node.close()


@pytest.fixture
def written(member: Member) -> tuple[Member, Positions]:
    """A member with a log of several places, which has written its index."""
    service = Positions()
    container = member.start(service)
    member.send(COUNT)
    member.run(container)
    container.on_close()
    return member, service


@pytest.mark.parametrize("kind", [Positions, PositionsOfRuns])
def test_every_number_and_time_is_found(member: Member, kind: type[Positions]) -> None:
    service = kind()
    container = member.start(service)
    member.send(COUNT)
    member.run(container)
    index, last = member.index, member.entries()[-1]
    assert len(member.entries()) > 3
    for number, end in service.ends.items():
        place = index.before_sequence(number)
        assert place is not None and place.position < end and place.sequence < number
        assert end - place.position < SPACING_BYTES + 2 * 4128
        if number <= last.sequence:
            assert index.find_sequence(number) == member.start_of(end)
        assert index.find_time(service.times[number], member.node.log.position) == member.start_of(end)
    assert index.find_sequence(COUNT) is None, "what is behind the last place may have copies that are not known yet"
    assert index.find_time(service.times[COUNT] + 1, member.node.log.position) == member.node.log.position
    assert index.find_time(0, member.node.log.position) == 0
    assert not member.errors


@pytest.mark.parametrize(("log_unit", "asked_unit"), [(1, 10**6), (10**3, 1), (10**6, 1), (10**6, 10**3)])
def test_a_time_is_found_in_a_log_of_another_unit(member: Member, log_unit: int, asked_unit: int) -> None:
    """Units in the time stamps of a millisecond."""
    begin_ms = 1_700_000_000_000
    container = member.start(service := Positions())
    for step in range(COUNT):
        member.node.message(1, PAYLOAD, (begin_ms + step) * log_unit)
    member.run(container)
    for step in (0, 1, COUNT // 2, COUNT - 1):
        found = member.index.find_time((begin_ms + step) * asked_unit, member.node.log.position)
        assert found == member.start_of(service.ends[step + 1])
    for never in (10**14 - 1, 10**17 - 1, (1 << 63) - 1):
        assert member.index.find_time(never, member.node.log.position) == member.node.log.position


def test_copies_that_are_not_executed_are_not_counted(member: Member) -> None:
    service = Positions()
    container = member.start(service)
    requests = Requests(member.node)
    requests.open()
    member.node.message(77, b"of no session")
    for number in range(1, COUNT):
        for _ in range(2):
            requests.send(number, PAYLOAD, confirmed=number - 1)
    member.run(container)
    unnumbered = [entry for entry in member.entries() if not entry.is_place]
    last = max(entry.sequence for entry in member.entries() if entry.is_place)
    assert len(unnumbered) in (last, last + 1), "each has a copy, of which the last may come later"
    assert last > COUNT // 2
    for number in range(1, last + 1):
        assert member.index.find_sequence(number) == member.start_of(service.ends[number])


def test_where_messages_have_no_numbers_none_is_found_and_later_ones_are(member: Member) -> None:
    service = Positions()
    container = member.start(service)
    member.send(50)
    member.run(container)
    take_snapshot(member.node, container)
    member.send(50)
    assert raise_level(member.node, SEQUENCE_LEVEL)
    member.send(100)
    member.run(container)
    uncounted = [entry for entry in member.entries() if entry.flags & EntryFlag.UNCOUNTED]
    assert uncounted and not any(entry.flags & EntryFlag.KEPT for entry in uncounted)
    numbers = sorted(service.ends)
    assert member.index.find_sequence(20) == member.start_of(service.ends[20])
    assert member.index.before_sequence(60) is None
    later = numbers[-60]
    assert later > 50 and member.index.find_sequence(later) == member.start_of(service.ends[later])
    place = member.index.before_sequence(later)
    assert place is not None and place.is_kept


def test_a_start_goes_on_behind_what_is_there(member: Member) -> None:
    service = Positions()
    container = member.start(service)
    raise_level(member.node, SEQUENCE_LEVEL)
    member.send(COUNT)
    member.run(container)
    position, recording_id, _ = take_snapshot(member.node, container)
    member.send(COUNT)
    member.run(container)
    container.on_close()
    before = member.entries()
    member.node.set_recovery(0, position, member.node.time, recording_id)
    container = member.start(again := Positions())
    member.send(COUNT)
    member.run(container)
    after = member.entries()
    assert after[: len(before)] == before and len(after) > len(before)
    assert sum(bool(entry.flags & EntryFlag.BEGINS) for entry in after) == 1
    positions = [(entry.position, entry.type) for entry in after]
    assert positions == sorted(set(positions))
    number = max(again.ends) - COUNT // 2
    assert member.index.find_sequence(number) == member.start_of(again.ends[number])


def test_an_end_that_was_lost_is_begun_again_behind_a_gap(member: Member) -> None:
    container = member.start(service := Positions())
    member.send(COUNT)
    member.run(container)
    position, recording_id, _ = take_snapshot(member.node, container)
    container.on_close()
    os.truncate(member.path, ENTRY_BYTES * 3 + 7)
    member.node.set_recovery(0, position, member.node.time, recording_id)
    container = member.start(again := Positions())
    member.send(COUNT)
    raise_level(member.node, SEQUENCE_LEVEL)
    member.run(container)
    found = member.entries()
    assert found[2].flags & EntryFlag.BEGINS and found[2].position == position
    assert member.index.find_sequence(COUNT // 2) is None
    assert member.index.find_sequence(1) == member.start_of(service.ends[1])
    assert set(again.ends).isdisjoint(service.ends)


@pytest.mark.parametrize("cut", range(0, 2 * ENTRY_BYTES, 7))
def test_a_file_that_was_cut_anywhere_answers_rightly_or_not_at_all(
    written: tuple[Member, Positions], cut: int
) -> None:
    member, service = written
    whole = os.path.getsize(member.path)
    os.truncate(member.path, whole - cut)
    for number in (1, COUNT // 2, COUNT - 1):
        found = member.index.find_sequence(number)
        assert found in (None, member.start_of(service.ends[number]))
    assert member.index.find_sequence(1) is not None


def answers(member: Member, service: Positions) -> list[str]:
    """What the index says of every number and time: "right", "no answer" or "fault"; nothing else may be."""
    found: list[str] = []
    index, limit = member.index, member.node.log.position
    for number, end in service.ends.items():
        looks = (partial(index.find_sequence, number), partial(index.find_time, service.times[number], limit))
        for look in looks:
            try:
                answer = look()
            except IndexFault:
                found.append("fault")
                continue
            assert answer in (None, member.start_of(end)), number
            found.append("no answer" if answer is None else "right")
    return found


@pytest.mark.parametrize(
    ("ordinal", "values"),
    [
        (2, {"position": 32}),
        (2, {"position": 1 << 50}),
        (2, {"sequence": 70}),
        (2, {"sequence": 61}),
        (2, {"timestamp": 1005}),
        (2, {"timestamp": 1 << 60}),
        (3, {"record_checksum": 1}),
        (3, {"ordinal": 2}),
        (0, {"sequence": 5}),
        (3, {"flags": EntryFlag.BEGINS, "sequence": 1}),
    ],
)
def test_an_entry_that_lies_is_not_believed(
    written: tuple[Member, Positions], ordinal: int, values: dict[str, int]
) -> None:
    member, service = written
    member.change(ordinal, **values)
    assert "fault" in answers(member, service)


def test_bytes_that_changed_are_found(written: tuple[Member, Positions]) -> None:
    member, service = written
    data = bytearray(Path(member.path).read_bytes())
    for at in range(ENTRY_BYTES * 3, ENTRY_BYTES * 4):
        changed = data.copy()
        changed[at] ^= 0x10
        Path(member.path).write_bytes(changed)
        assert "fault" in answers(member, service)


def test_a_missing_index_and_one_of_another_recording_or_version_are_told(written: tuple[Member, Positions]) -> None:
    member, _ = written
    data = Path(member.path).read_bytes()
    for header in (encode_header(77), b"\0" * ENTRY_BYTES, data[: ENTRY_BYTES - 1]):
        Path(member.path).write_bytes(header)
        with pytest.raises(IndexFault, match="is no index of recording 0"):
            member.index.find_sequence(1)
    os.remove(member.path)
    with pytest.raises(IndexFault, match="has no index"):
        member.index.find_sequence(1)


def test_the_index_of_another_log_is_not_believed_and_begun_anew_at_the_next_start(
    written: tuple[Member, Positions], tmp_path: Path
) -> None:
    member, _ = written
    other = Member(tmp_path / "other")
    try:
        other.node.time += 5000
        container = other.start(Positions())
        other.send(COUNT)
        other.run(container)
        container.on_close()
        Path(member.path).write_bytes(Path(other.path).read_bytes())
    finally:
        other.node.close()
    with pytest.raises(IndexFault, match=r"another record begins|the time before"):
        member.index.find_sequence(COUNT // 2)
    container = member.start(service := Positions())
    member.node.set_recovery()
    member.run(container)
    member.send(1)
    member.run(container)
    assert member.index.find_sequence(COUNT // 2) == member.start_of(service.ends[COUNT // 2])


def test_log_that_was_let_go_is_not_found_and_the_rest_is(tmp_path: Path) -> None:
    member = Member(tmp_path)
    try:
        container = member.start(service := Positions())
        member.send(700)
        member.run(container)
        member.node.archive.purge_segments(member.node.recording.recording_id, 1 << 20)
        assert member.index.find_sequence(10) is None
        assert member.index.before_sequence(10) is None
        assert member.index.find_time(service.times[10], member.node.log.position) is None
        assert member.index.find_sequence(600) == member.start_of(service.ends[600])
    finally:
        member.node.close()


@pytest.mark.parametrize("is_running", [False, True])
def test_entries_of_log_that_was_let_go_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_running: bool
) -> None:
    """At the next start; where there are many, before."""
    monkeypatch.setattr("ordo.cluster.wire.log_index.writer.LET_GO_MIN", 2)
    monkeypatch.setattr("ordo.cluster.wire.log_index.writer.PLACES_BETWEEN_LOOKS", 1)
    member = Member(tmp_path)
    try:
        container = member.start(service := Positions())
        raise_level(member.node, SEQUENCE_LEVEL)
        member.send(700)
        member.run(container)
        position, recording_id, _ = take_snapshot(member.node, container)
        before = member.entries()
        begin = 2 << 20 if is_running else 1 << 20
        member.node.archive.purge_segments(member.node.recording.recording_id, begin)
        if not is_running:
            container.on_close()
            member.node.set_recovery(0, position, member.node.time, recording_id)
            container = member.start(service)
        member.send(COUNT)
        member.run(container)
        after = member.entries()
        kept = [entry for entry in before if entry in after]
        assert kept[0].position < begin <= kept[1].position and kept == before[-len(kept) :]
        assert [one.ordinal for one in after] == list(range(kept[0].ordinal, kept[0].ordinal + len(after)))
        assert os.path.getsize(member.path) == ENTRY_BYTES * (1 + len(after))
        assert member.index.check({}) == len(after) - 1
        known = {number: end for number, end in service.ends.items() if end > kept[1].position}
        wanted = {number: member.start_of(end) for number, end in known.items()}
        answers = {number: member.index.find_sequence(number) for number in known}
        assert all(answer in (None, wanted[number]) for number, answer in answers.items())
        assert list(answers.values()).count(None) < 66, "up to the snapshot, and behind the last place"
        assert member.index.before_sequence(10) is None and os.listdir(tmp_path).count("log.index.part") == 0
        assert not member.errors
    finally:
        member.node.close()


@pytest.mark.parametrize("has_gone_on", [False, True])
def test_a_log_that_was_cut_cuts_its_index_at_the_next_start(tmp_path: Path, has_gone_on: bool) -> None:
    """Its tail was of messages that are lost; the log goes on with others, before the start or after it."""
    longer, member = Member(tmp_path / "longer"), Member(tmp_path / "cut")
    try:
        container = longer.start(Positions())
        longer.send(3 * COUNT)
        longer.run(container)
        container.on_close()
        Path(member.path).write_bytes(Path(longer.path).read_bytes())
        former = longer.entries()
        member.send(COUNT)
        end = member.node.log.position
        member.node.time += 77_000
        if has_gone_on:
            member.send(COUNT)
        container = member.start(service := Positions())
        member.run(container)
        member.send(COUNT)
        member.run(container)
        found = member.entries()
        kept = [entry for entry in former if entry in found]
        assert kept == former[: len(kept)] and SPACING_BYTES + 4128 > end - kept[-1].position > 0
        assert [entry.flags & EntryFlag.BEGINS for entry in found[1:]] == [0] * (len(found) - 1)
        assert member.index.check({}) == len(found)
        for number in range(1, found[-1].sequence + 1):
            assert member.index.find_sequence(number) == member.start_of(service.ends[number])
    finally:
        longer.node.close()
        member.node.close()


def test_a_log_that_stops_before_its_index_ends_keeps_the_rest(written: tuple[Member, Positions]) -> None:
    """As `ordo cluster recover`, a repair, or a loss of power leaves it: a reader may not begin beyond the stop."""
    member, _ = written
    before, archive = member.entries(), member.node.archive
    recording_id = member.node.recording.recording_id
    descriptor = archive.descriptor(recording_id)._replace(stop_position=before[3].position + 4128)

    def open_log(position: int | None) -> RecordingReader:
        return RecordingReader(FileStorage(open_lmdb), archive.directory, descriptor, position)

    writer = IndexWriter(member.path, member.errors.append)
    writer.begin(recording_id, before[3].position, open_log)
    assert writer.last == before[3] and member.entries() == before[:4]
    writer.note_place(before[3].position + 4128, 97, 2000, 1, is_counting=True, is_kept=True)
    writer.close()
    assert member.entries()[4].sequence == 97 and not member.entries()[4].flags & EntryFlag.BEGINS


def test_messages_without_a_number_are_written_with_the_next_place_and_bounded(member: Member) -> None:
    container = member.start(service := Positions())
    member.send(50)
    member.run(container)
    before = os.path.getsize(member.path)
    for _ in range(100):
        member.node.message(77, b"of no session")
    member.run(container)
    assert os.path.getsize(member.path) == before
    for _ in range(3000):
        member.node.message(77, b"of no session")
    member.send(COUNT)
    member.run(container)
    found = member.entries()
    assert len(found) < 40, "none of those that are too many"
    gaps = [entry for entry in found[1:] if entry.flags & EntryFlag.BEGINS]
    assert gaps and all(50 <= gap.sequence < 90 for gap in gaps)
    for number, end in service.ends.items():
        place = member.index.before_sequence(number)
        assert place is not None and place.position < end and place.sequence < number
        assert member.index.find_sequence(number) in (None, member.start_of(end))
    assert member.index.find_sequence(150) == member.start_of(service.ends[150])


def test_places_too_far_apart_tell_nothing_and_are_no_fault(written: tuple[Member, Positions]) -> None:
    """As where single records are long: the log between them is not read on the node's thread."""
    member, service = written
    recording_id = member.node.recording.recording_id
    opened: list[RecordingReader] = []

    def open_log(position: int | None) -> RecordingReader:
        opened.append(member.node.archive.reader(recording_id, position))
        return opened[-1]

    index = LogIndex(member.path, recording_id, open_log, walk_bytes_max=32 * 1024)
    for number in (COUNT // 2, COUNT - 1):
        assert index.before_sequence(number) is None and index.find_sequence(number) is None
        assert index.find_time(service.times[number], member.node.log.position) is None
    starts = {entry.position for entry in member.entries()} | {0}
    for reader in opened:
        assert min(reader.position - start for start in starts if start <= reader.position) <= 32 * 1024 + 2 * 4128
    assert WALK_BYTES_MAX <= 8 * SPACING_BYTES


def test_a_disk_that_takes_nothing_is_told_once_and_the_service_goes_on(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Positions()
    container = member.start(service)
    member.run(container)
    with monkeypatch.context() as patch:
        patch.setattr("ordo.cluster.wire.log_index.index_file.os.write", lambda fd, data: len(data) // 2)
        member.send(COUNT)
        member.run(container)
    assert len(service.ends) == COUNT
    assert len(member.errors) == 1 and isinstance(member.errors[0], OrdoError)
    assert "is not written any more" in str(member.errors[0])


def test_counters_show_what_the_index_covers(tmp_path: Path) -> None:
    member = Member(tmp_path)
    allocate = member.node.client.counters.allocate
    counters = {kind: allocate(int(kind), label, bytes(4)) for kind, label in INDEX_COUNTERS.items()}
    try:
        container = member.start(Positions())
        member.send(700)
        member.run(container)
        first, last = member.entries()[0], member.entries()[-1]
        values = {kind.value: counter.value for kind, counter in counters.items()}
        initial = {520: first.sequence, 521: first.position, 524: first.sequence, 525: first.position}
        assert values == {500: 700, 522: last.sequence, 523: last.position, **initial}
        position, recording_id, _ = take_snapshot(member.node, container)
        container.on_close()
        member.node.archive.purge_segments(member.node.recording.recording_id, 1 << 20)
        member.node.set_recovery(0, position, member.node.time, recording_id)
        container = member.start(Positions())
        member.send(1)
        member.run(container)
        initial_position = member.entries()[0].position
        assert counters[CounterType.REPLAY_INDEX_INITIAL_POSITION].value == initial_position < 1 << 20
        lowest = next(entry for entry in member.entries() if entry.position >= 1 << 20)
        assert counters[CounterType.REPLAY_INDEX_MIN_POSITION].value == lowest.position
        assert counters[CounterType.REPLAY_INDEX_MIN_SEQUENCE].value == lowest.sequence
    finally:
        member.node.close()


def test_entries_are_what_was_written() -> None:
    entry = IndexEntry(1 << 40, 1 << 33, -5, 0xFFFFFFFF, 7, 2, 5)
    data = encode_entry(entry)
    assert len(data) == ENTRY_BYTES and decode_entry(data) == entry
    assert decode_entry(data[:-1]) is None and decode_entry(b"\1" + data[1:]) is None
