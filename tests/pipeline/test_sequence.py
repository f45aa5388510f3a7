"""Column `sequence`: the numbers of messages, as a LogReader has them, however the log is cut and read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

import ordo
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL, SEQUENCE_LEVEL
from ordo.follow.reader import LogReader
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.recordings.repeats import advance, begin_scan
from ordo.pipeline.sql.local import read_part
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_message_sequences import raise_level
from tests.cluster.container.test_service_container import take_snapshot
from tests.patience import patient
from tests.pipeline.served import ServedFolder, url
from tests.sequencer.request_log import RequestLog
from tests.sequencer.test_executions import Noting
from tests.thorough import few_of

SEGMENT_BYTES = 1 << 20
Numbers = dict[int, int | None]
"""By the positions of all records; None: it has no number."""


class NumberedLog:
    """A log of three terms with requests that were sent again and a snapshot; `purged` is the same without its first
    segment. Up to the end of its second term it is of an older release, where `is_old`."""

    def __init__(self, folder: Path, *, is_old: bool) -> None:
        node = ServiceNode(folder, segment_length_bytes=SEGMENT_BYTES)
        node.set_recovery()
        node.begin_term(0, leads=True)
        raise_level(node, REQUEST_ID_LEVEL if is_old else SEQUENCE_LEVEL)
        container = node.container(Noting())
        log = RequestLog(5, node.append, has_arrivals=True)
        self._write(log, 400)
        level = {"leadership_term_id": 0, "timestamp": 1, "level": SEQUENCE_LEVEL, "member_id": 0}
        for payload in (b"", ordo_codecs.LEVEL_EVENT.encode(**level)):  # bytes of clients that look like a record
            node.append(codecs.SESSION_MESSAGE_HEADER.encode(**log._stamp()) + payload)
        while node.log.position < SEGMENT_BYTES + 4096:
            node.append(codecs.SESSION_MESSAGE_HEADER.encode(**log._stamp()) + bytes(4000))
        node.begin_term(1, leads=True)
        self._write(log, 200)
        self.snapshot_position, _, _ = take_snapshot(node, container)
        self._write(log, 300)
        raise_level(node, SEQUENCE_LEVEL)
        node.begin_term(2, leads=True)
        self._write(log, 300)
        self.end = node.log.position
        node.archive.stop(node.recording)
        self.folder, self.purged = str(folder / "whole" / "archive"), str(folder / "archive")
        shutil.copytree(self.purged, self.folder)
        assert node.archive.purge_segments(node.recording.recording_id, SEGMENT_BYTES) == 1
        node.close()
        served = ServedFolder(self.folder)
        try:
            with LogReader([served.address], repeats=True) as reader:
                entries = reader.entries(until_position=self.end, timeout_s=patient(30))
                self.numbers: Numbers = {one.position: one.sequence or None for one in entries}
            over_network = ordo.read(url(served), columns="position,sequence", partition_bytes=65536)
            self.over_network = numbers_of(over_network.to_arrow().to_pylist())
        finally:
            served.close()

    @staticmethod
    def _write(log: RequestLog, count: int) -> None:
        for _ in range(count):
            log.write()


def numbers_of(rows: list[dict[str, Any]]) -> Numbers:
    return {row["position"]: row["sequence"] for row in rows}


@pytest.fixture(scope="module", params=[False, True], ids=["numbered", "old"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NumberedLog:
    return NumberedLog(tmp_path_factory.mktemp("numbers"), is_old=request.param)


def known(found: Numbers) -> list[int]:
    return [number for number in found.values() if number is not None]


def compare(found: Numbers, expected: Numbers) -> None:
    """All records are there, also those of which a reader tells nothing, which have no number."""
    assert found.keys() >= expected.keys()
    assert {position: number for position, number in found.items() if number is not None} == {
        position: number for position, number in expected.items() if number is not None
    }


def test_the_log_is_one_to_compare_with(log: NumberedLog) -> None:
    rows = ordo.read(log.folder).to_arrow().to_pylist()
    assert "sequence" not in rows[0], "it is not read unless asked for, since it costs a look through the log"
    assert {row["leadership_term"] for row in rows if row["kind"] == "new_term"} == {0, 1, 2}
    repeats = [row["position"] for row in rows if row["is_repeat"]]
    assert repeats and all(log.numbers[position] is None for position in repeats)
    first = [number for position, number in log.numbers.items() if number and position < log.snapshot_position]
    assert first == list(range(1, len(first) + 1)) and len(known(log.numbers)) > len(first)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition_bytes": 4096},
        {"batch_rows": 7},
        {"columns": "position"},
        {"columns": "sequence,position", "sequence": False},
    ],
)
def test_rows_have_the_numbers_of_a_reader(log: NumberedLog, options: dict[str, Any]) -> None:
    table = ordo.read(log.folder, **{"sequence": True, **options}).to_arrow()
    compare(numbers_of(table.to_pylist()), log.numbers)


def test_so_do_rows_over_the_network(log: NumberedLog) -> None:
    compare(log.over_network, log.numbers)


def test_a_part_of_the_log_has_the_numbers_of_the_whole(log: NumberedLog) -> None:
    positions = sorted(log.numbers)
    after, upto = positions[len(positions) // 3], positions[-50]
    part = ordo.read(log.folder, sequence=True, start_position=after, end_position=upto, kinds="request,message")
    rows = part.to_arrow().to_pylist()
    expected = {one: number for one, number in log.numbers.items() if after < one <= upto and number}
    assert {one: number for one, number in numbers_of(rows).items() if number} == expected
    assert {row["kind"] for row in rows} == {"request", "message"}


def test_parts_that_share_their_scans_have_the_numbers_of_the_whole(log: NumberedLog) -> None:
    scans, found, start = Scans(), Numbers(), 0
    for end in range(100_000, log.end + 100_000, 100_000):
        part = read_part(log.folder, scans, sequence=True, start_position=start, end_position=end)
        found |= numbers_of(part.to_arrow().to_pylist())
        start = end
    compare(found, log.numbers)


def test_a_log_without_its_beginning_is_numbered_from_its_snapshot_on(log: NumberedLog) -> None:
    found = numbers_of(ordo.read(log.purged, sequence=True).to_arrow().to_pylist())
    assert min(found) > SEGMENT_BYTES
    compare(found, {one: number for one, number in log.numbers.items() if one > log.snapshot_position})
    assert known(found)


def test_a_query_without_the_column_and_one_with_it_do_not_disturb_each_other(log: NumberedLog) -> None:
    found = ordo.read(log.folder, sequence=True)
    for _ in range(2):
        (row,) = found.sql("SELECT count(*) AS n FROM log WHERE is_repeat").to_pylist()
        assert row["n"] > 0
        (row,) = found.sql("SELECT count(sequence) AS n, max(sequence) AS last FROM log").to_pylist()
        assert row == {"n": len(known(log.numbers)), "last": max(known(log.numbers))}


def test_a_scan_keeps_no_numbers_of_what_was_read(log: NumberedLog) -> None:
    """A stream would keep ever more; what is asked for again is unknown then, and not wrong."""
    (recording,) = open_recordings([log.folder], "log", "auto")
    scan = begin_scan(recording, numbers=True)
    assert scan is not None
    middle = log.snapshot_position
    expected = [{one: number for one, number in log.numbers.items() if number and one <= middle}]
    expected.append({one: number for one, number in log.numbers.items() if number and one > middle})
    for upto, numbers in zip((middle, recording.limit), expected, strict=True):
        advance(scan, recording, upto, 1 << 20)
        found = scan.repeats()
        assert dict(zip(found.numbered.tolist(), found.numbers.tolist(), strict=True)) == numbers
        scan.forget(upto)
        assert len(scan.repeats().numbers) == 0


@pytest.mark.spark
@pytest.mark.parametrize("log", few_of([False, True], [False]), indirect=True)
def test_spark_reads_the_same_numbers_as_a_batch_and_as_a_stream(
    spark: SparkSession, log: NumberedLog, tmp_path: Path
) -> None:
    batch = spark.read.format("ordo").option("sequence", True).option("partitionBytes", 65536).load(log.folder)
    assert batch.schema["sequence"].dataType == LongType() and batch.rdd.getNumPartitions() > 1
    compare({row.position: row.sequence for row in batch.collect()}, log.numbers)
    own = spark.read.format("ordo").schema("sequence long, position long").load(log.purged)
    after = {one: number for one, number in log.numbers.items() if one > log.snapshot_position}
    compare({row.position: row.sequence for row in own.collect()}, after)
    stream = spark.readStream.format("ordo").option("columns", "position,sequence").option("maxRecordsPerTrigger", 400)
    frame = stream.option("startingPosition", "earliest").load(log.folder)
    target = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    target.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    compare({row.position: row.sequence for row in rows}, log.numbers)
