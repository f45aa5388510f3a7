"""Copies of archives in object storage: made, continued, checked, read where they are, and fetched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import ordo
from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cli import app
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.recordings.object_copy import copy_archive, fetch_archive
from ordo.pipeline.recordings.object_store import Store
from ordo.runtime.io.storage import FileStorage
from tests.pipeline.test_network import SEGMENT, TERM, purge, write_log


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A log of four segments, and a stopped recording beside it, as a snapshot is."""
    found = str(tmp_path / "node0" / "archive")
    write_log(found)
    with RecordingBuilder(found, stream_id=106) as snapshot:
        snapshot.append(b"state" * 100)
    return found


def rows(source: str, **options: Any) -> Any:
    return ordo.read(source, **options).to_arrow().combine_chunks()


def test_a_copy_on_s3_is_read_where_it_is_and_fetched(folder: str, s3: dict[str, Any], tmp_path: Path) -> None:
    url, storage = "s3://bucket/node0", json.dumps(s3)
    shown = CliRunner().invoke(app, ["pipeline", "copy", folder, "--to", url, "--storage", storage])
    assert shown.exit_code == 0 and shown.output.startswith("5 segments copied"), shown.output + str(shown.exception)
    again = CliRunner().invoke(app, ["pipeline", "copy", folder, "--to", url, "--storage", storage])
    assert again.output.startswith("0 segments copied") and "nothing new is closed" in again.output
    for options in ({}, {"partition_bytes": TERM}, {"start_position": 70_000, "end_position": 2 * SEGMENT + 99}):
        assert rows(url, storage_options=s3, **options) == rows(folder, **options)
        assert rows(f"file://{folder}", **options) == rows(folder, **options), "a folder, as Spark names it"
    assert rows(url, storage_options=storage, recording="all").num_rows == rows(folder, recording="all").num_rows
    back = str(tmp_path / "back" / "archive")
    fetched = CliRunner().invoke(app, ["pipeline", "fetch", url, back, "--storage", storage])
    assert fetched.exit_code == 0 and fetched.output.startswith("5 segments fetched")
    assert audit(None, [folder, back])["status"] == "clean"


@pytest.mark.spark
def test_spark_reads_a_copy(spark: SparkSession, folder: str, s3: dict[str, Any]) -> None:
    list(copy_archive(folder, Store("s3://bucket/spark", s3)))
    frame = spark.read.format("ordo").option("storageOptions", json.dumps(s3)).option("partitionBytes", TERM)
    found = frame.load("s3://bucket/spark").select("position", "kind").orderBy("position").collect()
    here = rows(folder, columns="position,kind").to_pylist()
    assert [row.asDict() for row in found] == here


def test_a_copy_keeps_what_the_node_purged(folder: str, tmp_path: Path) -> None:
    """And is gone on with when the node has started again: then the recording has another session id."""
    store = Store(f"file://{tmp_path}/copy")
    everything = rows(folder)
    limit = 2 * SEGMENT + 100
    change(folder, stop_position=-1)
    found = [segment.base for segment in copy_archive(folder, store, str(limit))]
    assert found[:2] == [0, SEGMENT] and 2 * SEGMENT not in found, "only what is closed"
    purge(folder, SEGMENT)
    change(folder, stop_position=everything["position"][-1].as_py(), session_id=-77)
    assert [segment.base for segment in copy_archive(folder, store)] == [2 * SEGMENT, 3 * SEGMENT]
    assert rows(store.url) == everything
    gone = Store(f"file://{tmp_path}/other")
    list(copy_archive(folder, gone))
    assert rows(gone.url) == rows(folder), "begins where the node begins"


def change(folder: str, **fields: int) -> None:
    catalog = Catalog.open(FileStorage(open_lmdb), folder)
    catalog.update(0, **fields)
    catalog.close()


def test_log_purged_between_two_copies_is_said(folder: str, tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/copy")
    stop = rows(folder)["position"][-1].as_py()
    change(folder, stop_position=-1)
    list(copy_archive(folder, store, str(SEGMENT + 100)))
    purge(folder, 2 * SEGMENT)
    change(folder, stop_position=stop)
    with pytest.raises(PipelineError, match=f"positions {SEGMENT} to {2 * SEGMENT} of recording 0 were purged before"):
        list(copy_archive(folder, store))


def test_damage_is_not_copied_and_not_read(folder: str, tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/copy")
    list(copy_archive(folder, store))
    copied = f"0-{SEGMENT}-{2 * SEGMENT}.rec"
    for path in (f"{tmp_path}/copy/{copied}", f"{folder}/0-{SEGMENT}.rec"):
        with open(path, "r+b") as file:
            file.seek(40)
            byte = file.read(1)[0]
            file.seek(40)
            file.write(bytes([byte ^ 1]))
    with pytest.raises(CorruptRecordingError, match=f"fault=checksum position={SEGMENT} file=file://"):
        rows(store.url)
    with pytest.raises(PipelineError, match=f"{copied} is damaged: its SHA-256"):
        list(fetch_archive(store, str(tmp_path / "back")))
    with pytest.raises(CorruptRecordingError, match=f"position={SEGMENT}"):
        list(copy_archive(folder, Store(f"file://{tmp_path}/third")))
    os.remove(f"{tmp_path}/copy/0-0-{SEGMENT}.rec")
    with pytest.raises(PipelineError, match="fault=the segment file is missing position=0 file=file://"):
        rows(store.url)


def test_the_end_of_a_stopped_log_is_copied_again_when_it_has_changed(tmp_path: Path) -> None:
    """What a stopped node had at its end may have been replaced when it ran again."""
    store, folder = Store(f"file://{tmp_path}/copy"), str(tmp_path / "archive")
    with RecordingBuilder(folder, term_length=TERM, segment_length=SEGMENT) as builder:
        builder.append(session_message(0, 1, 1, b"first"))
        builder.append(session_message(0, 1, 1, b"never committed"))
        descriptor = builder.descriptor
    assert len(list(copy_archive(folder, store))) == 1
    kept = rows(store.url)
    with RecordingBuilder(str(tmp_path / "again"), term_length=TERM, segment_length=SEGMENT) as builder:
        builder.append(session_message(0, 1, 1, b"first"))
        builder.append(session_message(0, 1, 1, b"committed later"))
    shutil.copy(tmp_path / "again" / "0-0.rec", f"{folder}/0-0.rec")
    assert descriptor.recording_id == 0 and len(list(copy_archive(folder, store))) == 1
    assert rows(store.url) != kept and rows(store.url)["payload"].to_pylist()[1] == b"committed later"
    assert list(copy_archive(folder, store)) == []


def test_the_copy_of_another_archive_is_left_alone(folder: str, tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/copy")
    list(copy_archive(folder, store))
    shutil.rmtree(folder)
    with RecordingBuilder(folder, term_length=1 << 17, segment_length=SEGMENT) as builder:
        builder.append(session_message(0, 1, 1, b"x"))
    with pytest.raises(PipelineError, match="has the copy of another archive"):
        list(copy_archive(folder, store))
    with pytest.raises(PipelineError, match="no copy of an archive is there"):
        rows(f"file://{tmp_path}/nothing")
