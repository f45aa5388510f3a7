"""The data source in Spark: rows, options, filters, partitions."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ordo.pipeline.generate import LogShape, RecordingBuilder, generate_log
from ordo.pipeline.recordings.index import index_directory
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import plan
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.spark.source import OrdoLog
from tests.thorough import few_of

pytestmark = pytest.mark.spark
FIRST = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def load(spark: SparkSession, path: str | list[str], **options: Any) -> DataFrame:
    return spark.read.format("ordo").options(**options).load(path)


def log_hash(frame: DataFrame) -> str:
    """Over all rows in log order."""
    digest = hashlib.blake2b(digest_size=16)
    for row in frame.select("position", "kind", "session_id", "payload").collect():
        digest.update(repr((row.position, row.kind, row.session_id, bytes(row.payload))).encode())
    return digest.hexdigest()


def test_all_rows_in_log_order(spark: SparkSession, archive: str, shape: LogShape) -> None:
    rows = load(spark, archive, columns="position,kind").collect()
    assert [row.position for row in rows] == sorted(row.position for row in rows)
    kinds = [row.kind for row in rows]
    assert kinds.count("message") == shape.messages
    assert kinds.count("new_term") == kinds.count("timer") == shape.terms
    assert kinds.count("session_open") == kinds.count("session_close") == shape.terms * shape.sessions


@pytest.mark.thorough
def test_any_number_of_partitions_gives_the_same_rows(spark: SparkSession, archive: str) -> None:
    frames = {count: load(spark, archive, partitions=count) for count in (1, 7, 24)}
    assert len({log_hash(frame) for frame in frames.values()}) == 1
    assert frames[1].rdd.getNumPartitions() == 1
    assert 7 <= frames[7].rdd.getNumPartitions() <= 9
    assert 24 <= frames[24].rdd.getNumPartitions() <= 32


@pytest.fixture(params=few_of(["false", "true"], ["true"]))
def filters_are_offered(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", request.param)
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.usefixtures("filters_are_offered")
def test_one_frame_serves_many_queries(spark: SparkSession, archive: str, shape: LogShape) -> None:
    """Also where Spark offers sources its filters: it would keep what a source takes over with the frame."""
    log = load(spark, archive)
    assert log.where("kind = 'timer'").count() == shape.terms
    both = log.where("kind = 'timer'").unionByName(log.where("kind = 'session_open'"))
    assert both.count() == shape.terms * (1 + shape.sessions)
    assert log.where("kind = 'message'").count() == shape.messages


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"startPosition": 500000, "endPosition": 700000}, "position > 500000 and position <= 700000"),
        ({"kinds": "timer,new_term"}, "kind in ('timer', 'new_term')"),
        ({"sessions": "7,8"}, "session_id in (7, 8)"),
        ({"startTime": "2023-11-14T22:13:20.05Z", "endTime": "2023-11-14T22:13:20.06Z"},
         "timestamp >= timestamp'2023-11-14 22:13:20.05Z' and timestamp < timestamp'2023-11-14 22:13:20.06Z'"),
    ],
)  # fmt: skip
def test_options_select_like_filters(
    spark: SparkSession, archive: str, options: dict[str, Any], condition: str
) -> None:
    assert log_hash(load(spark, archive, **options)) == log_hash(load(spark, archive).where(condition))


def test_columns_by_schema(spark: SparkSession, archive: str) -> None:
    frame = spark.read.schema("payload binary, position long").format("ordo").load(archive)
    assert frame.columns == ["payload", "position"]
    (row,) = frame.head(1)
    assert row.position == 96


def test_several_nodes_at_once(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    other = tmp_path / "node1" / "archive"
    shutil.copytree(archive, other)
    counts = load(spark, [archive, str(other)], columns="node").groupBy("node").count().collect()
    assert {row["node"]: row["count"] for row in counts} == {"node0": 20_036, "node1": 20_036}
    pattern = str(tmp_path / "*" / "archive")
    assert {row.node for row in load(spark, pattern, columns="node").distinct().collect()} == {"node1"}


def test_all_recordings_or_one(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "archive")
    with RecordingBuilder(folder, stream_id=106) as builder:
        builder.append(b"snapshot")
    generate_log(folder, LogShape(messages=100, sessions=2, terms=1, term_length=1 << 16, segment_length=1 << 16))
    assert load(spark, folder).select("recording").distinct().collect()[0].recording == 1
    assert {row.recording for row in load(spark, folder, recording="all").select("recording").collect()} == {0, 1}
    (row,) = load(spark, folder, recording="0").head(1)
    assert bytes(row.payload) == b"snapshot"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colums": "position"}, "unknown option 'colums'"),
        ({"columns": "postion"}, "unknown 'postion'"),
        ({"kinds": "massage"}, "unknown 'massage'"),
        ({"recording": "17"}, "recording='17'"),
        ({"partitions": "0"}, "partitions='0'"),
        ({"startTime": "yesterday"}, "ISO time"),
        ({"maxBytesPerTrigger": "64", "maxRecordsPerTrigger": "1"}, "exclude each other"),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, archive: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AnalysisException, match=words):
        load(spark, archive, **options).count()


def test_a_folder_that_is_none_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="no archive in"):
        load(spark, str(tmp_path)).count()


def test_a_damaged_frame_ends_the_read_at_its_position(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    copy = tmp_path / "node0" / "archive"
    shutil.copytree(archive, copy)
    with open(copy / "0-1048576.rec", "r+b") as file:
        file.seek(500_000)
        byte = file.read(1)[0]
        file.seek(500_000)
        file.write(bytes([byte ^ 1]))
    (row,) = load(spark, archive).where("start_position <= 1548576 and position > 1548576").head(1)
    with pytest.raises(Exception, match=f"position={row.start_position} "):
        load(spark, str(copy)).count()
    assert load(spark, str(copy), endPosition=row.start_position).count() > 0


def test_a_missing_segment_ends_the_read_at_its_position(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    copy = tmp_path / "node0" / "archive"
    shutil.copytree(archive, copy)
    os.remove(copy / "0-1048576.rec")
    with pytest.raises(Exception, match="the segment file is missing position=1048576"):
        load(spark, str(copy)).count()


def test_a_selective_filter_reads_few_segments(archive: str) -> None:
    recordings = open_recordings([archive])
    whole = plan(recordings, Predicates(), 1 << 30)
    late = Predicates().narrowed("timestamp", 1_700_000_000_190_000, 1 << 62)
    some = plan(recordings, late, 1 << 30)
    total = sum(run.length_bytes for task in whole for run in task)
    assert 0 < sum(run.length_bytes for task in some for run in task) < total / 2
    assert not plan(recordings, Predicates().among("session_id", [4711]), 1 << 30)


def test_indexes_are_kept_and_thrown_away_when_the_bytes_changed(archive: str, tmp_path: Path) -> None:
    copy = tmp_path / "node0" / "archive"
    shutil.copytree(archive, copy)
    before = [run for task in plan(open_recordings([str(copy)]), Predicates(), 1 << 30) for run in task]
    kept = sorted(index_directory().rglob("*.idx"))
    assert kept
    assert before == [run for task in plan(open_recordings([str(copy)]), Predicates(), 1 << 30) for run in task]
    shutil.rmtree(copy)
    generate_log(
        str(copy),
        LogShape(
            messages=20_000, sessions=5, terms=3, seed=9, payload_min=100, term_length=1 << 18, segment_length=1 << 20
        ),
    )
    after = [run for task in plan(open_recordings([str(copy)]), Predicates(), 1 << 30) for run in task]
    assert sum(run.length_bytes for run in after) > sum(run.length_bytes for run in before)


def test_times_without_zone_are_utc() -> None:
    aware = ReadSettings.parse({"path": "/", "startTime": "2023-11-14T22:13:20Z"}).predicates.timestamp
    assert aware == ReadSettings.parse({"path": "/", "startTime": "2023-11-14T22:13:20"}).predicates.timestamp
    assert aware[0] == (FIRST - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_the_source_is_registered_by_name(spark: SparkSession, archive: str) -> None:
    """Reads as a user does, without our helper."""
    spark.dataSource.register(OrdoLog)
    assert spark.read.format("ordo").load(archive).agg(F.max("position")).head(1)[0][0] > 0
