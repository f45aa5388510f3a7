"""Jobs over copies in object storage: where they are, with the results that the folders give."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import ordo
from ordo.cli import EXIT_NOT_DONE, EXIT_USAGE, app, run
from ordo.pipeline.export.export import STATE_NAME, export, read_export
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.replay import emitted, replay
from ordo.pipeline.recordings.object_copy import copy_archive
from ordo.pipeline.recordings.object_store import Store
from tests.pipeline.test_network import SEGMENT, write_log
from tests.pipeline.test_object_store import change
from tests.pipeline.test_replay_verdict import HERE
from tests.pipeline.test_replay_verdict import write_log as write_tally

FETCHED = list[tuple[str, int, int]]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> FETCHED:
    """What is fetched of which object, by this process."""
    found: FETCHED = []
    find = Store.find

    def noting(store: Store, name: str, start: int | None = None, end: int | None = None) -> bytes | None:
        if start is not None and end is not None:
            found.append((name, start, end))
        return find(store, name, start, end)

    monkeypatch.setattr(Store, "find", noting)
    return found


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, and that of temporary files: both empty."""
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def assert_nothing_left(work: Path) -> None:
    assert not os.listdir(work / "here") and not os.listdir(work / "temporary")


def test_a_copy_is_audited_where_it_is_beside_a_folder(work: Path, s3: dict[str, Any], fetched: FETCHED) -> None:
    folder, url = str(work / "node0" / "archive"), "s3://bucket/audited"
    write_log(folder)
    list(copy_archive(folder, Store(url, s3)))
    facts = audit(None, [folder, url], storage=s3)
    assert facts["status"] == "clean" and facts["compared_to"] == ordo.read(folder).to_arrow()["position"][-1].as_py()
    assert [node["messages"] for node in facts["nodes"]] == [ordo.read(folder).to_arrow().num_rows] * 2
    assert [node["node"] for node in facts["nodes"]] == ["node0", url], "a copy of the same node has another name"
    assert len({name for name, _, _ in fetched}) == 4 and all(end - start <= SEGMENT for _, start, end in fetched)
    shown = CliRunner().invoke(
        app, ["pipeline", "audit", url, "--engine", "local", "--storage", json.dumps(s3), "--report", str(work / "r")]
    )
    assert shown.exit_code == 0 and "clean; report" in shown.output, shown.output
    assert_nothing_left(work)


def test_damage_of_a_copy_is_named_at_its_object(work: Path) -> None:
    folder, place = str(work / "node0" / "archive"), work / "copy"
    write_log(folder)
    list(copy_archive(folder, Store(f"file://{place}")))
    with open(place / f"0-{SEGMENT}-{2 * SEGMENT}.rec", "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff")
    os.remove(place / f"0-0-{SEGMENT}.rec")
    facts = audit(None, [folder, f"file://{place}"])
    assert facts["status"] == "damaged"
    found = [(finding["position"], finding["segment"]) for finding in facts["findings"]]
    names = [f"0-0-{SEGMENT}.rec", f"0-{SEGMENT}-{2 * SEGMENT}.rec"]
    assert found[:2] == [(0, names[0]), (SEGMENT, names[1])], found
    assert all(segment == names[1] for _, segment in found[2:]), "the other frames of the message that was damaged"
    assert {difference["position"] for difference in facts["differences"]} == {0, SEGMENT}
    assert_nothing_left(work)


def test_a_replay_runs_over_a_copy(work: Path, s3: dict[str, Any]) -> None:
    folder, _ = write_tally(work, (4, 8))
    url = "s3://bucket/replayed"
    list(copy_archive(folder, Store(url, s3)))
    expected = replay(None, folder, f"{HERE}:Tally")
    assert replay(None, url, f"{HERE}:Tally", storage=s3) == expected
    assert expected["status"] == "partly checked" and expected["snapshots_compared"] == 2
    assert replay(None, url, f"{HERE}:DoubleTally", storage=s3)["status"] == "differs"
    assert_nothing_left(work)


@pytest.mark.spark
@pytest.mark.thorough  # jobs run over folders and nodes, and Spark reads a copy, in `make test`
def test_spark_jobs_run_over_a_copy(spark: SparkSession, work: Path, s3: dict[str, Any]) -> None:
    folder, _ = write_tally(work, (4, 8))
    url, service = "s3://bucket/jobs", f"{HERE}:Tally"
    list(copy_archive(folder, Store(url, s3)))
    assert audit(spark, [url], storage=s3)["status"] == "clean"
    assert replay(spark, url, service, storage=s3)["snapshots_compared"] == 2
    effects = emitted(spark, url, service, storage=s3).orderBy("position").collect()
    assert effects == emitted(spark, folder, service).orderBy("position").collect() and len(effects) == 12
    target = str(work / "parquet")
    exported = export(spark, [url], target, storage=s3)
    assert exported == export(spark, [folder], str(work / "other")) and os.path.exists(f"{target}/{STATE_NAME}")
    columns = ("position", "kind", "payload")
    pair = [
        read_export(spark, where).select(*columns).orderBy("position").collect()
        for where in (target, str(work / "other"))
    ]
    assert pair[0] == pair[1] and len(pair[0]) == 14
    assert_nothing_left(work)


@pytest.mark.spark
@pytest.mark.thorough
def test_a_stream_follows_a_copy_that_grows(spark: SparkSession, work: Path, s3: dict[str, Any]) -> None:
    folder, url = str(work / "node0" / "archive"), "s3://bucket/streamed"
    write_log(folder)
    everything = ordo.read(folder, columns="position").to_arrow()["position"].to_pylist()
    change(folder, stop_position=-1)
    seen: list[int] = []

    def follow() -> None:
        frame = spark.readStream.format("ordo").option("startingPosition", "earliest").option("columns", "position")
        frame = frame.option("storageOptions", json.dumps(s3)).option("maxBytesPerTrigger", 300_000)
        writer = frame.load(url).writeStream.foreachBatch(
            lambda batch, _: seen.extend(row.position for row in batch.orderBy("position").collect())
        )
        options = {"checkpointLocation": str(work / "checkpoint")}
        writer.options(**options).trigger(availableNow=True).start().awaitTermination()

    list(copy_archive(folder, Store(url, s3), str(2 * SEGMENT + 100)))
    follow()
    assert seen == [position for position in everything if position <= 2 * SEGMENT]
    change(folder, stop_position=everything[-1])
    list(copy_archive(folder, Store(url, s3)))
    follow()
    assert seen == everything
    assert_nothing_left(work)


def test_a_delta_table_on_s3_is_appended_once_from_a_copy_on_s3(work: Path, s3: dict[str, Any]) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder, url, table = str(work / "node0" / "archive"), "s3://bucket/lake-source", "s3://bucket/lake"
    write_log(folder)
    list(copy_archive(folder, Store(url, s3)))
    target = {
        "AWS_ENDPOINT_URL": s3["client_kwargs"]["endpoint_url"], "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    options = LakeSettings(chunk_bytes=SEGMENT, storage=target, source_storage=s3)
    first = export_delta([url], table, options, commit=str(2 * SEGMENT))
    assert first == {"node0/0": 2 * SEGMENT}
    shown = CliRunner().invoke(
        app,
        ["pipeline", "export", url, "--to", table, "--format", "delta", "--storage", json.dumps(s3), "--to-storage",
         json.dumps(target)],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    found = deltalake.DeltaTable(table, storage_options=target).to_pyarrow_table(columns=["position"])
    expected = ordo.read(folder, columns="position").to_arrow()["position"].to_pylist()
    assert sorted(found["position"].to_pylist()) == expected
    assert_nothing_left(work)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "file:///nowhere", "--engine", "local"], "no copy of an archive is there"),
        (["audit", "COPY", "--engine", "local", "--commit", "recorded"], "of a copy in object storage only auto or"),
        (["audit", "nosuch://x", "--engine", "local"], "nosuch"),
        (["copy", "COPY", "--to", "file:///tmp/x"], "only an archive folder can be copied"),
        (["index", "COPY"], "indexes are of archive folders"),
        (["query", "COPY", "--sql", "SELECT 1", "--storage", "{"], "must be a JSON object"),
        (["query", "FOLDER", "--sql", "SELECT 1", "--storage", "{}"], "storageOptions is for object storage"),
    ],
)
def test_mistakes_are_one_line(
    work: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = write_tally(work, ())
    copy = f"file://{work}/copy"
    list(copy_archive(folder, Store(copy)))
    given = [{"COPY": copy, "FOLDER": folder}.get(word, word) for word in arguments]
    assert run(["pipeline", *given]) in (EXIT_USAGE, EXIT_NOT_DONE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ordo: ") and words in line
