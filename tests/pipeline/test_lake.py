"""A log in a Delta table: each row once whatever is interrupted, columns that newer schemas bring, few files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ordo
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.decoding.payloads import StructDecoder
from ordo.pipeline.export import lake
from ordo.pipeline.export.lake import LakeSettings, compact, export_delta
from ordo.pipeline.generate import LogShape, RecordingBuilder, new_term, session_message
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.recordings.recordings import open_recordings

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'ordo-sequencer[delta]'")
DAY_MS = 24 * 3600 * 1000


def rows(table: str, *names: str) -> list[tuple[Any, ...]]:
    found = deltalake.DeltaTable(table).to_pyarrow_table(columns=list(names)).to_pylist()
    return sorted(tuple(row[name] for name in names) for row in found)


def log_rows(folder: str, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in ordo.read(folder).to_arrow().to_pylist())


NAMES = ("position", "kind", "session_id", "payload", "timestamp")


def test_the_table_holds_the_log_and_later_what_is_new(archive: str, shape: LogShape, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    options = LakeSettings(chunk_bytes=1 << 20)
    (log,) = open_recordings([archive])
    first = export_delta([archive], table, options, commit="1500000")
    assert first == {"node0/0": 1_500_000}
    assert 0 < len(rows(table, "position")) < shape.messages
    assert export_delta([archive], table, options) == {"node0/0": log.limit}
    assert rows(table, *NAMES) == log_rows(archive, *NAMES)
    version = deltalake.DeltaTable(table).version()
    export_delta([archive], table, options)
    assert deltalake.DeltaTable(table).version() == version, "there was nothing to write"
    assert deltalake.DeltaTable(table).metadata().partition_columns == ["day"]


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_export_that_dies_loses_and_doubles_nothing(
    archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """In the middle of a chunk's rows, and behind a commit of which the dying process never heard."""
    table, options, calls = str(tmp_path / "table"), LakeSettings(chunk_bytes=1 << 20), 0
    write = deltalake.write_deltalake

    def dying(*given: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3 and not is_committed:
            raise RuntimeError("killed")
        write(*given, **named)
        if calls == 3:
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(deltalake, "write_deltalake", dying)
        with pytest.raises(RuntimeError, match="killed"):
            export_delta([archive], table, options)
    assert len(rows(table, "position")) < len(log_rows(archive, "position"))
    export_delta([archive], table, options)
    assert rows(table, *NAMES) == log_rows(archive, *NAMES)


def test_of_two_exports_at_the_same_time_one_is_refused(
    archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, options = str(tmp_path / "table"), LakeSettings(chunk_bytes=1 << 20)
    export_delta([archive], table, options, commit="1048576")
    write = deltalake.write_deltalake

    def overtaken(*given: Any, **named: Any) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(deltalake, "write_deltalake", write)
            export_delta([archive], table, options)
        write(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(deltalake, "write_deltalake", overtaken)
        with pytest.raises(PipelineError, match="another export of node0/0 wrote at the same time"):
            export_delta([archive], table, options)
    assert rows(table, *NAMES) == log_rows(archive, *NAMES)


def write_orders(folder: Path, payloads: list[bytes]) -> str:
    with RecordingBuilder(str(folder / "node0" / "archive")) as builder:
        builder.append(new_term(0, 0, 1_700_000_000_000, 0, 1))
        for number, payload in enumerate(payloads):
            builder.append(session_message(0, 1 + number % 3, 1_700_000_000_000 + number * DAY_MS // 4, payload))
    return builder.directory


def test_columns_of_a_newer_schema_are_added(tmp_path: Path) -> None:
    """The service's next version writes a longer record: its field is new in the struct, and null before."""
    old, new = StructDecoder("<I", ("number",), "order"), StructDecoder("<Iq", ("number", "price"), "order")
    folder = write_orders(tmp_path, [old._form().pack(number) for number in range(4)] + [new._form().pack(4, 99)])
    table = str(tmp_path / "table")
    (log,) = open_recordings([folder])
    columns = "position,timestamp,kind,payload"
    before = str(log.limit - 96)  # the newest message is not committed yet
    export_delta([folder], table, LakeSettings(columns, old), commit=before)
    export_delta([folder], table, LakeSettings(columns, new))
    found = deltalake.DeltaTable(table).to_pyarrow_table().sort_by("position").to_pylist()
    orders = [row["order"] for row in found]
    assert orders[1:] == [*({"number": number, "price": None} for number in range(4)), {"number": 4, "price": 99}]
    assert orders[0] is None, "the record that begins the term is no order"


def test_many_small_files_become_few_and_the_export_goes_on(tmp_path: Path) -> None:
    folder, table = write_orders(tmp_path, [b"x" * 40] * 60), str(tmp_path / "table")
    options = LakeSettings(partition_by=("kind",), sort_by=("session_id", "position"), chunk_bytes=1024)
    export_delta([folder], table, options, commit="4096")
    many = len(deltalake.DeltaTable(table).file_uris())
    before, after = compact(table)
    assert many == before + 1 and after == 1, "the one of kind new_term is alone"
    export_delta([folder], table, options)
    compact(table, ("session_id",))
    assert rows(table, *NAMES) == log_rows(folder, *NAMES)
    with pytest.raises(PipelineError, match="no column 'price' to partition or sort by"):
        compact(table, ("price",))
    with pytest.raises(PipelineError, match="is no Delta table"):
        compact(str(tmp_path))


def test_rows_of_a_chunk_are_sorted(tmp_path: Path) -> None:
    folder, table = write_orders(tmp_path, [b"x"] * 30), str(tmp_path / "table")
    export_delta([folder], table, LakeSettings(partition_by=(), sort_by=("session_id", "position")))
    found = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    keys = [(row["session_id"], row["position"]) for row in found if row["session_id"] is not None]
    assert keys == sorted(keys) and len({key[0] for key in keys}) == 3


def test_mistakes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, table = write_orders(tmp_path, [b"x"]), str(tmp_path / "table")
    with pytest.raises(PipelineError, match="no column 'price' to partition or sort by; there are "):
        export_delta([folder], table, LakeSettings(sort_by=("price",)))
    with pytest.raises(PipelineError, match="timestamp has to be among them"):
        export_delta([folder], table, LakeSettings("position"))
    export_delta([folder], table, LakeSettings())
    with pytest.raises(PipelineError, match="is partitioned by day: say --partition-by so again"):
        export_delta([folder], table, LakeSettings(partition_by=("kind",)))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(PipelineError, match=r"run: pip install 'ordo-sequencer\[delta\]'"):
        export_delta([folder], table, LakeSettings())


def test_what_was_purged_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, table = write_orders(tmp_path, [b"x"] * 9), str(tmp_path / "table")
    export_delta([folder], table, LakeSettings(), commit="320")
    (log,) = open_recordings([folder])
    purged = log.descriptor._replace(start_position=640)
    later = log.__class__(log.node, log.directory, purged, log.limit, log.exact)
    monkeypatch.setattr(lake, "open_recordings", lambda *_, **__: [later])
    with pytest.raises(DataLossError, match="exported up to position 320, and the log begins at 640"):
        export_delta([folder], table, LakeSettings())


def test_from_the_command_line(tmp_path: Path) -> None:
    folder, table = write_orders(tmp_path, [b"\1\0\0\0"] * 9), str(tmp_path / "table")
    command = ["export", folder, "--to", table, "--format", "delta", "--sort-by", "position"]
    done = CliRunner().invoke(app, [*command, "--decoder", "struct:<I:number", "--compact"])
    assert done.exit_code == 0 and "node0/0: exported to position " in done.output, done.output
    assert " files became " in done.output
    assert [row[0] for row in rows(table, "kind")].count("message") == 9
    refused = CliRunner().invoke(app, [*command, "--cores", "2"])
    assert "--format delta runs in this process" in str(refused.exception)
    spark_only = CliRunner().invoke(app, ["export", folder, "--to", table, "--compact"])
    assert "are for --format delta" in str(spark_only.exception)
