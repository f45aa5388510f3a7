"""Columns `body` and `is_repeat`: the application's bytes, and which requests are copies that nobody executes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ordo
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.follow.executions import DECIDING_KINDS, REQUESTS, Executions
from ordo.pipeline.recordings.object_copy import copy_archive
from ordo.pipeline.recordings.object_store import Store
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.recordings.repeats import RepeatScan, advance, begin_scan
from ordo.pipeline.sql.local import read_part
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import take_snapshot
from tests.sequencer.request_log import RequestLog
from tests.sequencer.test_executions import Noting


class RecordedLog:
    """An archive folder whose log has requests that were sent again, and a snapshot in its middle."""

    def __init__(self, folder: Path, count: int = 900) -> None:
        self.records: list[tuple[int, bytes]] = []
        node = ServiceNode(folder, segment_length_bytes=1 << 20)
        node.set_recovery()
        node.begin_term(0, leads=True)
        self.folder = str(folder / "archive")

        def append(record: bytes) -> int:
            self.records.append((node.append(record), record))
            return self.records[-1][0]

        append(ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=0, timestamp=9, level=REQUEST_ID_LEVEL, member_id=0))
        log = RequestLog(3, append, has_arrivals=True)
        container = node.container(Noting())
        for _ in range(count):
            log.write()
        node.commit()
        node.run(container)
        self.snapshot_position, _, _ = take_snapshot(node, container)
        for _ in range(count):
            log.write()
        node.close()
        table = Executions()
        found = [decode_entry(position, record) for position, record in self.records]
        self.entries: dict[int, LogEntry] = {one.position: table.mark(one) for one in found if one is not None}

    def check(self, rows: list[dict[str, Any]]) -> None:
        """Rows with position, kind, body and is_repeat."""
        seen = 0
        for row in rows:
            entry = self.entries.get(row["position"])
            if entry is None:
                assert row["is_repeat"] is False
            elif row["kind"] in ("message", "request"):
                assert bytes(row["body"]) == entry.payload
                assert row["is_repeat"] is bool(entry.is_repeat)
                seen += entry.kind in REQUESTS
            else:
                assert row["body"] is None and row["is_repeat"] is False
        assert seen == sum(one.kind in REQUESTS for one in self.entries.values())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    return RecordedLog(tmp_path_factory.mktemp("repeats"))


def test_rows_say_whether_they_are_repeats_however_the_log_is_cut(recorded: RecordedLog) -> None:
    for options in ({}, {"partition_bytes": 4096}, {"batch_rows": 7}, {"columns": "position,kind,body,is_repeat"}):
        log = ordo.read(recorded.folder, commit="recorded", **options)
        recorded.check(log.to_arrow().to_pylist())
    assert len({one.is_repeat for one in recorded.entries.values() if one.kind in REQUESTS}) == 2


def test_a_part_of_the_log_knows_what_came_before_it(recorded: RecordedLog) -> None:
    after = recorded.records[500][0]
    rows = ordo.read(recorded.folder, commit="recorded", start_position=after, kinds="request").to_arrow().to_pylist()
    wanted = [one for one in recorded.entries.values() if one.position > after and one.kind in REQUESTS]
    assert [(row["position"], row["is_repeat"]) for row in rows] == [(one.position, one.is_repeat) for one in wanted]


def test_payments_are_counted_once_by_duckdb(recorded: RecordedLog) -> None:
    log = ordo.read(recorded.folder, commit="recorded")
    sql = "SELECT count(*) AS n, count(DISTINCT body) AS different FROM log WHERE kind = 'request' AND NOT is_repeat"
    (row,) = log.sql(sql).to_pylist()
    executed = [one for one in recorded.entries.values() if one.kind in REQUESTS and not one.is_repeat]
    assert row == {"n": len(executed), "different": len({one.payload for one in executed})}
    assert log.sql("SELECT count(*) AS n FROM log WHERE kind = 'request'").to_pylist()[0]["n"] > row["n"]


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_log_without_its_beginning_is_known_from_the_oldest_snapshot_on(
    recorded: RecordedLog, is_copied: bool, tmp_path: Path
) -> None:
    (recording,) = open_recordings([recorded.folder], "log", "recorded")
    if is_copied:
        list(copy_archive(recorded.folder, Store(f"file://{tmp_path}"), str(recording.limit)))
        (recording,) = open_recordings([f"file://{tmp_path}"], "log", "auto")
    descriptor = recording.descriptor._replace(start_position=recorded.records[300][0])
    scan = begin_scan(replace(recording, descriptor=descriptor))
    assert isinstance(scan, RepeatScan) and scan.reached == recorded.snapshot_position
    advance(scan, recording, recording.limit, 1 << 20)
    found = scan.repeats()
    wanted = [one.position for one in recorded.entries.values() if one.is_repeat]
    assert list(found.positions) == [one for one in wanted if one > recorded.snapshot_position]
    assert found.known_after == recorded.snapshot_position


class Counting(Executions):
    """Counts the records that it is shown."""

    count = 0

    def note(self, position: int, record: bytes) -> bool:
        self.count += 1
        return super().note(position, record)


def test_a_log_that_is_read_in_parts_is_looked_through_once(recorded: RecordedLog) -> None:
    """An export did so from the beginning for each part, so that twice the log took four times as long."""
    (recording,) = open_recordings([recorded.folder], "log", "recorded")
    table = Counting()
    scans: Scans = {recording.key: RepeatScan(table, 0)}
    rows, start = [], 0
    for end in range(20_000, recording.limit + 20_000, 20_000):
        part = read_part(recorded.folder, scans, commit="recorded", start_position=start, end_position=end)
        rows += part.to_arrow().to_pylist()
        start = end
    recorded.check(rows)
    deciding = sum(one.kind in (*DECIDING_KINDS, EntryKind.OUTPUT) for one in recorded.entries.values())
    assert table.count == deciding and start > 60_000
