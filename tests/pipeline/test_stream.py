"""Streaming: exact offsets over a log that is being written, restarts, admission, the commit position."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.spark.source import LogStreamReader
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CountersManager
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import create_cnc

pytestmark = pytest.mark.spark


class LiveLog:
    """A log that is being written, with the counters file of its node. `commit` moves the commit position."""

    def __init__(self, folder: Path) -> None:
        self.directory = str(folder / "node0" / "archive")
        self.builder = RecordingBuilder(self.directory, term_length=1 << 16, segment_length=1 << 17, stopped=False)
        self.written = 0
        self.positions: list[int] = []
        self._cnc = create_cnc(
            FileMemoryProvider(), str(folder / "node0" / "cnc.dat"), client_liveness_timeout_ns=1, start_timestamp_ms=1,
            pid=1, counters_values_length=1 << 20,
        )  # fmt: skip
        counters = CountersManager(self._cnc.counters_metadata, self._cnc.counters_values, SystemClock())
        self._commit = counters.allocate(203, "Cluster commit-pos:", struct.pack("<i", 0))
        self._cnc.mark_ready(1)

    def write(self, count: int, length: int = 100) -> None:
        """Messages whose payload begins with their number."""
        for _ in range(count):
            payload = struct.pack("<q", self.written) + bytes(length)
            self.positions.append(self.builder.append(session_message(0, 1, 1_700_000_000_000 + self.written, payload)))
            self.written += 1
        self.builder.writer.flush()

    def commit(self, position: int) -> None:
        self._commit.set(position)

    def close(self) -> None:
        del self._commit
        self._cnc.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveLog]:
    log = LiveLog(tmp_path)
    yield log
    log.close()


def numbers(rows: list[Any]) -> list[int]:
    return [struct.unpack_from("<q", row.payload)[0] for row in rows]


def stream(spark: SparkSession, live: LiveLog, **options: Any) -> DataFrame:
    reader = (
        spark.readStream.format("ordo").option("startingPosition", "earliest").option("columns", "position,payload")
    )
    return reader.options(**options).load(live.directory)


def run_available(frame: DataFrame, checkpoint: Path, handle: Callable[[DataFrame, int], None]) -> None:
    query = frame.writeStream.foreachBatch(handle).option("checkpointLocation", str(checkpoint))
    for _ in range(3):
        try:
            query.trigger(availableNow=True).start().awaitTermination()
            return
        except StreamingQueryException as error:
            # Spark gives a worker 10 s to start, however busy the machine is
            if "Python worker failed to connect back" not in str(error):
                raise
    raise AssertionError("no Python worker of Spark started in time, three times in a row")


def reader_of(live: LiveLog, **options: str) -> LogStreamReader:
    return LogStreamReader(ReadSettings.parse({"path": live.directory, **options}), ("position", "payload"))


def delivered(reader: LogStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [
        struct.unpack_from("<q", payload)[0]
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for payload in batch["payload"].to_pylist()
    ]


def test_never_past_the_commit_position(live: LiveLog) -> None:
    """The commit position may fall between two fragments of a message."""
    live.write(10)
    live.write(3, length=5000)
    whole = live.positions[11] - live.positions[10]
    fragments = [after - whole + 1408 * index for after in live.positions[10:] for index in range(1, 4)]
    reader = reader_of(live, startingPosition="earliest")
    start, seen = reader.initialOffset(), []
    for position in sorted([*live.positions, *fragments]):
        live.commit(position)
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end["node0/0"] <= position
        seen += delivered(reader, start, end)
        assert seen == list(range(sum(1 for after in live.positions if after <= position)))
        start = end


def test_latest_begins_at_the_commit_position(live: LiveLog) -> None:
    live.write(10)
    live.commit(live.positions[4])
    reader = reader_of(live, startingPosition="latest")
    start = reader.initialOffset()
    live.commit(live.positions[9])
    assert delivered(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [5, 6, 7, 8, 9]
    given = reader_of(live, startingPosition=str(live.positions[7])).initialOffset()
    assert delivered(reader, given, reader.latestOffset(given, ReadAllAvailable())) == [8, 9]


@pytest.mark.parametrize("limit", [ReadMaxRows(7), ReadMaxBytes(1000), ReadMaxRows(1000), ReadMaxBytes(1 << 30)])
def test_admission_takes_no_more_than_allowed_and_loses_nothing(live: LiveLog, limit: Any) -> None:
    live.write(400)
    live.write(5, length=4000)
    live.commit(live.positions[-1])
    reader = reader_of(live, startingPosition="earliest")
    start, seen = reader.initialOffset(), []
    for _ in range(1000):
        end = reader.latestOffset(start, limit)
        if end == start:
            break
        got = delivered(reader, start, end)
        if isinstance(limit, ReadMaxRows):
            assert 0 < len(got) <= limit.max_rows
        else:
            assert end["node0/0"] - start["node0/0"] <= limit.max_bytes
        seen += got
        start = end
    assert seen == list(range(405))


def test_available_now_stops_at_what_was_there(spark: SparkSession, live: LiveLog, tmp_path: Path) -> None:
    live.write(300)
    live.commit(live.positions[199])
    seen: list[int] = []

    def handle(frame: DataFrame, batch_id: int) -> None:
        seen.extend(numbers(frame.collect()))
        live.commit(live.positions[-1])

    run_available(stream(spark, live, maxRecordsPerTrigger=50), tmp_path / "checkpoint", handle)
    assert seen == list(range(200))
    run_available(stream(spark, live), tmp_path / "checkpoint", handle)
    assert seen == list(range(300))


@pytest.mark.thorough
def test_killed_at_random_points_and_restarted_gives_exactly_the_log_once(
    spark: SparkSession, live: LiveLog, tmp_path: Path
) -> None:
    """A batch that fails after its sink took it is given again with the same id and the same rows."""
    chance = random.Random(7)
    by_batch: dict[int, list[int]] = {}
    left = 4

    def handle(frame: DataFrame, batch_id: int) -> None:
        nonlocal left
        when = chance.random()
        if left and when < 0.3:
            left -= 1
            raise RuntimeError("killed before the batch")
        rows = numbers(frame.collect())
        assert by_batch.setdefault(batch_id, rows) == rows
        if left and when < 0.6:
            left -= 1
            raise RuntimeError("killed after the batch")

    for _ in range(8):
        live.write(chance.randrange(1, 200))
        live.commit(live.positions[-1])
        try:
            run_available(stream(spark, live, maxRecordsPerTrigger=97), tmp_path / "checkpoint", handle)
        except Exception as error:  # the query's end, as Spark reports it
            assert "killed" in str(error)
    left = 0
    run_available(stream(spark, live), tmp_path / "checkpoint", handle)
    assert [number for batch in sorted(by_batch) for number in by_batch[batch]] == list(range(live.written))


def test_a_live_log_without_counters_is_refused(tmp_path: Path) -> None:
    builder = RecordingBuilder(str(tmp_path / "archive"), stopped=False)
    builder.append(session_message(0, 1, 1, b"x"))
    builder.finish()
    with pytest.raises(PipelineError, match="commit=recorded"):
        open_recordings([builder.directory])
    options = ReadSettings.parse({"path": builder.directory, "commit": "recorded", "startingPosition": "earliest"})
    reader = LogStreamReader(options, ("payload",))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert [batch.num_rows for part in reader.partitions({}, end) for batch in reader.read(part)] == [1]


def test_a_batch_read_of_a_live_log_ends_at_the_commit_position(spark: SparkSession, live: LiveLog) -> None:
    live.write(20)
    live.commit(live.positions[11])
    assert spark.read.format("ordo").load(live.directory).count() == 12
    assert spark.read.format("ordo").option("commit", live.positions[3]).load(live.directory).count() == 4
