"""Export, sessions and latency."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.export.chunks import chunks
from ordo.pipeline.export.export import STATE_NAME, export, read_export, with_day
from ordo.pipeline.generate import LogShape, RecordingBuilder, session_close, session_message, session_open
from ordo.pipeline.jobs import latency as latency_job
from ordo.pipeline.jobs import sessions as sessions_job
from ordo.pipeline.jobs.latency import latency
from ordo.pipeline.jobs.sessions import sessions
from ordo.pipeline.recordings.recordings import open_recordings

pytestmark = pytest.mark.spark
COLUMNS = ("position", "kind", "session_id", "payload", "timestamp")


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.select(*COLUMNS).orderBy("position").collect()]


def test_an_export_holds_the_log(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    state = export(
        spark,
        [archive],
        str(tmp_path / "out"),
        chunk_bytes=1 << 21,
        on_progress=lambda chunk, done, total: seen.append((done, total)),
    )
    log = spark.read.format("ordo").load(archive)
    exported = read_export(spark, str(tmp_path / "out"))
    assert rows(exported) == rows(log)
    assert {(row.node, row.recording) for row in exported.select("node", "recording").distinct().collect()} == {
        ("node0", 0)
    }
    assert seen[-1][0] == seen[-1][1] and len(seen) > 1
    assert list(state) == ["node0/0"]
    assert (tmp_path / "out" / "node=node0" / "recording=0" / "from_position=0" / "day=2023-11-14").is_dir()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_export_keeps_its_state_where_its_data_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`file:` once put the state into the current folder, and any other file system ended the export."""
    monkeypatch.chdir(tmp_path)
    with RecordingBuilder(str(tmp_path / "log" / "archive")) as builder:
        for number in range(20):
            builder.append(session_message(0, 1, 5, b"%d" % number))
    (tmp_path / "mounted").mkdir()
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.store.link./data", f"file://{tmp_path}/mounted")
    for target, place in ((f"file://{tmp_path}/out", "out"), ("viewfs://store/data/out", "mounted/out")):
        for _ in range(2):
            export(spark, [builder.directory], target, chunk_bytes=1024)
        assert json.loads((tmp_path / place / STATE_NAME).read_text())["exported"] == {"log/0": builder.writer.position}
        assert sorted(int(bytes(row.payload)) for row in read_export(spark, target).collect()) == list(range(20))
        assert not (tmp_path / STATE_NAME).exists()
    with pytest.raises(PipelineError, match="cannot write to nosuch://x/y: "):
        export(spark, [builder.directory], "nosuch://x/y")


def test_chunks_end_at_multiples_of_their_size_and_at_the_limit(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "log" / "archive")) as builder:
        builder.append(session_message(0, 1, 5, b"a"))
    (recording,) = open_recordings([builder.directory])
    pieces = chunks([replace(recording, limit=2500)], {"log/0": 1000}, 1024)
    assert [(one.start, one.end) for one in pieces] == [(1000, 1024), (1024, 2048), (2048, 2500)]


def test_what_was_purged_before_it_was_exported_is_said(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "log" / "archive")) as builder:
        builder.append(session_message(0, 1, 5, b"a"))
    (recording,) = open_recordings([builder.directory])
    later = replace(recording, descriptor=recording.descriptor._replace(start_position=64))
    with pytest.raises(DataLossError, match="exported up to position 32, and the log begins at 64"):
        list(chunks([later], {"log/0": 32}, 1024))


def test_an_export_is_incremental_restartable_and_idempotent(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    """A run that dies after half of a chunk's files leaves nothing that a reader would see twice."""
    target = str(tmp_path / "out")
    export(spark, [archive], target, commit="1000000", chunk_bytes=1 << 19)
    calls = 0

    def dies(frame: DataFrame) -> DataFrame:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("killed")
        return with_day(frame)

    with pytest.raises(RuntimeError, match="killed"):
        export(spark, [archive], target, chunk_bytes=1 << 19, transform=dies)
    state = json.loads(Path(target, STATE_NAME).read_text())["exported"]
    stray = Path(target, "node=node0", "recording=0", f"from_position={state['node0/0']}", "day=2023-11-14")
    with_day(spark.read.format("ordo").load(archive).limit(5).drop("node", "recording", "day")).drop(
        "day"
    ).write.parquet(str(stray))
    export(spark, [archive], target, chunk_bytes=1 << 19)
    (last,) = spark.read.format("ordo").load(archive).agg({"position": "max"}).head(1)
    assert export(spark, [archive], target) == {"node0/0": last[0]}
    assert rows(read_export(spark, target)) == rows(spark.read.format("ordo").load(archive))


def test_files_are_laid_out_and_sorted_by_columns(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    target = str(tmp_path / "out")
    export(spark, [archive], target, partition_by=("kind",), sort_by=("session_id", "position"))
    assert rows(read_export(spark, target)) == rows(spark.read.format("ordo").load(archive))
    files = list(Path(target).rglob("kind=message/*.parquet"))
    assert files
    for file in files:
        keys = [(row["session_id"], row["position"]) for row in pq.read_table(file, partitioning=None).to_pylist()]
        assert keys == sorted(keys)
    with pytest.raises(PipelineError, match="no column 'price' to partition or sort by; there are "):
        export(spark, [archive], str(tmp_path / "none"), sort_by=("price",))


def test_the_life_of_each_session(spark: SparkSession, archive: str, shape: LogShape, tmp_path: Path) -> None:
    table = sessions(spark.read.format("ordo").load(archive))
    found = {row.session_id: row for row in table.collect()}
    assert sorted(found) == list(range(1, shape.terms * shape.sessions + 1))
    assert sum(row.messages for row in found.values()) == shape.messages
    assert found[1].channel == "aeron:udp?endpoint=localhost:20001"
    assert bytes(found[1].principal) == b"client-1"
    assert [found[index].close_reason for index in (1, 2, 3)] == ["service action", "timeout", "client action"]
    assert found[1].duration_s == pytest.approx(0.067)
    page = sessions_job.write_report(table, str(tmp_path))
    assert f"{shape.messages:,} messages" in Path(page).read_text()


def test_a_session_without_end_and_one_without_messages(spark: SparkSession, tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(session_open(0, 1, 1, 1000, b"c", b""))
        builder.append(session_message(0, 1, 1001, b"abc"))
        builder.append(session_open(0, 2, 2, 1002, b"c", b""))
        builder.append(session_close(0, 2, 1500, 9))
    table = sessions(spark.read.format("ordo").option("timeUnit", "millis").load(builder.directory))
    found = {row.session_id: row for row in table.collect()}
    assert (found[1].closed, found[1].messages, found[1].payload_bytes) == (None, 1, 3)
    assert (found[2].close_reason, found[2].messages, found[2].duration_s) == ("9", 0, pytest.approx(0.498))


def test_latency_from_a_time_in_the_payload(spark: SparkSession, tmp_path: Path) -> None:
    first = 1_700_000_000_000
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for index in range(200):
            sent_ns = (first + index * 1000) * 1_000_000 - (index + 1) * 10_000
            builder.append(session_message(0, 1 + index % 2, first + index * 1000, b"xx" + struct.pack("<q", sent_ns)))
        builder.append(session_message(0, 1, first, b"short"))
    log = spark.read.format("ordo").load(builder.directory)
    (row,) = latency(log, "i64@2:ns", ("kind",)).collect()
    assert (row["count"], row.p50, row.p90, row.p99, row.max) == (200, 1000.0, 1800.0, 1980.0, 2000.0)
    minutes = latency(log, "i64@2:ns", ("minute",)).collect()
    assert [row["count"] for row in minutes] == [40, 60, 60, 40]
    by_session = latency(log, "i64@2:ns", ("session_id",)).collect()
    assert [(row.session_id, row.mean) for row in by_session] == [(1, 1000.0), (2, 1010.0)]
    page = latency_job.write_report(log, "i64@2:ns", str(tmp_path / "report"))
    assert json.loads(Path(page).with_suffix(".json").read_text())["kind"][0]["p99"] == 1980.0


def test_gaps_between_messages_of_a_session(spark: SparkSession, tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for time in (100, 105, 125):
            builder.append(session_message(0, 1, time, b""))
            builder.append(session_message(0, 2, time, b""))
    log = spark.read.format("ordo").option("timeUnit", "millis").load(builder.directory)
    assert [(row.session_id, row["count"], row.max) for row in latency(log, None, ("session_id",)).collect()] == [
        (1, 2, 20000.0), (2, 2, 20000.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("sent", "by"), [("i64", ("minute",)), (None, ("hour",)), ("i32@0:ns", ("kind",))])
def test_wrong_arguments_are_named(spark: SparkSession, archive: str, sent: str | None, by: tuple[str, ...]) -> None:
    with pytest.raises(PipelineError, match=r"such as i64@0:ns|allowed are"):
        latency(spark.read.format("ordo").load(archive), sent, by)
