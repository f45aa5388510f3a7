"""A reader's table of requests says of each what the members' container does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ordo.applications.outputs import group_identity
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, REQUEST_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.follow.executions import REQUESTS, Executions
from ordo.runtime.errors import DecodeError
from ordo.service_api.request_ids import digest_request_id
from ordo.service_api.service import ClusteredService
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import take_snapshot
from tests.sequencer.request_log import RequestLog, with_arrival


class Noting(ClusteredService):
    """Keeps which requests it executed."""

    def __init__(self) -> None:
        self.executed: list[tuple[int, bytes]] = []
        self.numbers: dict[int, int] = {}
        """Of all messages, by their positions."""
        self.arrivals: dict[int, int | None] = {}
        """When they arrived, by the same."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        self.numbers[header.position] = header.sequence
        self.arrivals[header.position] = header.arrival_ns
        if session is None:
            return None
        if session.identity is not None:
            self.executed.append((header.position, session.identity))
        return b"answer"

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(b"state")


def entries_of(records: list[tuple[int, bytes]]) -> list[LogEntry]:
    found = [decode_entry(position, record) for position, record in records]
    return [one for one in found if one is not None]


def check_numbers(marked: list[LogEntry], numbers: dict[int, int], end: int | None) -> None:
    """The reader numbers messages as the service does, without gaps, and from `end` on not at all."""
    numbered = {one.position: one.sequence for one in marked if one.position in numbers}
    assert numbered == numbers and all(one.position in numbered for one in marked if one.sequence)
    count = sum(1 for position in numbered if end is None or position < end)
    assert list(numbered.values()) == [*range(1, count + 1), *[0] * (len(numbered) - count)]


def check_arrivals(marked: list[LogEntry], told: dict[int, int | None], log: RequestLog) -> None:
    """The reader says the same of each message as services are told, copies that are not executed included."""
    assert {one.position: one.arrival_ns for one in marked if one.position in log.arrivals} == log.arrivals
    assert not any(one.arrival_ns for one in marked if one.position not in log.arrivals)
    assert all(log.arrivals.get(position) == arrival_ns for position, arrival_ns in told.items())


def own_message() -> bytes:
    """What a service sent to itself."""
    return codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=0, cluster_session_id=-1, timestamp=1) + b"own"


def snapshot_action() -> bytes:
    return codecs.CLUSTER_ACTION_REQUEST.encode(
        leadership_term_id=0, log_position=0, timestamp=1, action=codecs.ClusterAction.SNAPSHOT, flags=0
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_executed_and_by_whose_identity_is_said_from_the_beginning_and_from_a_snapshot(
    tmp_path: Path, seed: int
) -> None:
    node, service = ServiceNode(tmp_path), Noting()
    node.set_recovery()
    node.begin_term(0, leads=True)
    container = node.container(service)
    records: list[tuple[int, bytes]] = []

    def append(record: bytes) -> int:
        records.append((node.append(record), record))
        return records[-1][0]

    level = (REQUEST_ID_LEVEL, OUTPUT_ID_LEVEL, SEQUENCE_LEVEL)[seed % 3]
    append(ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=0, timestamp=999, level=level, member_id=0))
    log = RequestLog(seed, append, has_arrivals=seed % 2 == 1)
    for _ in range(300):
        log.write()
    append(own_message())
    node.commit()
    node.run(container)
    middle, recording_id, _ = take_snapshot(node, container)
    records.append((middle, snapshot_action()))
    append(own_message())
    for _ in range(300):
        log.write()
    node.commit()
    node.run(container)
    executed = dict(service.executed)
    assert 50 < len(executed) < log.requests - 50

    table = Executions(numbers=True)
    marked = [table.mark(entry) for entry in entries_of(records)]
    check_numbers(marked, service.numbers, None if level >= SEQUENCE_LEVEL else middle)
    requests = [one for one in marked if one.kind in REQUESTS]
    assert {one.position: one.identity for one in requests if not one.is_repeat} == executed
    assert all(one.is_repeat is False for one in marked if one.kind not in REQUESTS)
    assert all(one.request_number == one.values.number for one in requests)
    check_arrivals(marked, service.arrivals, log)

    messages = [one.payload for one in node.archive.reader(recording_id, None).messages()]
    from_snapshot = Executions(container_snapshot.decode(iter(messages)), numbers=True)
    again = [from_snapshot.mark(one) for one in entries_of(records) if one.position > middle]
    assert again == [one for one in marked if one.position > middle]
    rolled = Executions()
    for position, record in records:
        if position <= middle:
            rolled.note(position, record)
    again = [rolled.mark(one) for one in entries_of(records) if one.position > middle]
    assert again == [one._replace(sequence=0) for one in marked if one.position > middle]


@pytest.mark.parametrize("level", [REQUEST_ID_LEVEL, OUTPUT_ID_LEVEL])
@pytest.mark.parametrize("has_id", [False, True])
def test_an_output_is_compared_with_the_ids_of_clients_where_it_has_one(
    tmp_path: Path, level: int, has_id: bool
) -> None:
    """Without one, or in a log below the level of such ids, its group and its number are its id."""
    node, service = ServiceNode(tmp_path), Noting()
    node.set_recovery()
    node.begin_term(0, leads=True)
    container = node.container(service)
    records: list[tuple[int, bytes]] = []

    def append(record: bytes) -> int:
        records.append((node.append(record), record))
        return records[-1][0]

    append(ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=0, timestamp=999, level=level, member_id=0))
    log = RequestLog(1, append)
    log._open_session()
    client, groups = b"c" * 16, (group_identity("risk"), group_identity("pricing"))

    def opened(name: bytes) -> dict[str, int]:
        fields = ordo_codecs.split_identity(name)
        record = ordo_codecs.OPEN_IDENTITY.encode(incarnation=0, known_position=0, **fields, **log._stamp())
        return {"open_position": append(record), "number": 1, "confirmed": 0, **log._stamp()}

    digest = ordo_codecs.split_request_digest(digest_request_id(b"order 4711"))
    by_id, *outputs = opened(client), *map(opened, groups)
    append(ordo_codecs.REQUEST_BY_ID.encode(**digest, **by_id) + b"buy 40")
    for _ in range(2):
        append(ordo_codecs.REQUEST_BY_ID.encode(**digest, **{**by_id, "number": 2}) + b"buy 40")
        for one in outputs:
            fields = {"target_session_id": -1, **one}
            by_digest = ordo_codecs.OUTPUT_BY_ID.encode(**digest, **fields)
            append((by_digest if has_id else ordo_codecs.OUTPUT.encode(**fields)) + b"buy 40")
    node.commit()
    node.run(container)
    executed = [client] if has_id and level == OUTPUT_ID_LEVEL else [client, *groups]
    assert [identity for _, identity in service.executed] == executed
    table = Executions()
    marked = [one for one in map(table.mark, entries_of(records)) if one.kind in REQUESTS]
    assert [one.identity for one in marked if not one.is_repeat] == executed
    assert len(marked) == 7 and [one.kind for one in marked].count(EntryKind.OUTPUT) == 4
    ids = [one.request_id for one in marked if one.kind is EntryKind.OUTPUT]
    assert ids == [digest_request_id(b"order 4711") if has_id else b""] * 4


def test_of_what_is_not_known_nothing_is_said() -> None:
    records: list[tuple[int, bytes]] = []

    def append(record: bytes) -> int:
        records.append((64 * (len(records) + 1), record))
        return records[-1][0]

    log = RequestLog(1, append)
    for _ in range(200):
        log.write()
    table = Executions(is_known=False)
    marked = [table.mark(entry) for entry in entries_of(records)]
    assert {one.is_repeat for one in marked if one.kind in REQUESTS} == {None}
    assert {one.is_repeat for one in marked if one.kind is EntryKind.MESSAGE} == {False}


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_record_is_noted_as_it_is_marked_however_it_is_cut(is_timed: bool) -> None:
    """`note` reads a plain request itself; whatever is shorter than that is none for either."""
    stamp = {"leadership_term_id": 0, "cluster_session_id": 1, "timestamp": 1_000}
    opened = codecs.SESSION_OPEN_EVENT.encode(
        correlation_id=1, response_stream_id=1, response_channel="", encoded_principal=b"one", **stamp
    )
    identity = ordo_codecs.OPEN_IDENTITY.encode(
        incarnation=1, known_position=0, **ordo_codecs.split_identity(b"i" * 16), **stamp
    )
    noted, marked = Executions(), Executions()

    def mark(position: int, record: bytes) -> bool | str | None:
        try:
            entry = decode_entry(position, record)
        except DecodeError:
            return "cut"
        return None if entry is None else marked.mark(entry).is_repeat

    def note(position: int, record: bytes) -> bool | str:
        try:
            return noted.note(position, record)
        except DecodeError:
            return "cut"

    for position, record in ((128, opened), (192, identity)):
        assert note(position, record) is mark(position, record) is False
    position, executed = 192, 0
    for number in range(1, 9):
        request = ordo_codecs.REQUEST.encode(open_position=192, number=number, confirmed=0, **stamp) + b"four"
        record = with_arrival(request, 7) if is_timed else request
        for length in (*range(8, len(record) + 1), len(record)):
            position += 96
            found = mark(position, record[:length])
            assert note(position, record[:length]) == (found or False), length
            executed += found is False
    assert executed == 8
