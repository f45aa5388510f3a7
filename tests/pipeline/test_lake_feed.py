"""A log in Delta and Iceberg tables as it grows: each executed record once, wherever the feed dies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ordo
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.decoding.payloads import StructDecoder
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.lake.check import check_table
from ordo.pipeline.lake.feed import Feed, FeedSettings, executed
from ordo.pipeline.lake.tables import LakeTable
from tests.pipeline.test_lake import write_orders
from tests.pipeline.test_repeats import RecordedLog

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'ordo-sequencer[delta]'")
sql_catalog = pytest.importorskip(
    "pyiceberg.catalog.sql", reason="pyiceberg is not installed: pip install 'ordo-sequencer[iceberg]'"
)
from ordo.pipeline.lake.delta_table import DeltaLake  # noqa: E402
from ordo.pipeline.lake.iceberg_table import IcebergLake, _files_of  # noqa: E402

ALL = (1 << 62,)
SMALL = FeedSettings(commit="recorded", chunk_bytes=8 << 10, compact_every=2, keep=timedelta())


class KilledError(BaseException):
    """What no part of the feed catches."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    """A log with copies of requests: what was executed is less than what is there."""
    return RecordedLog(tmp_path_factory.mktemp("lake"), 120)


def tables_in(folder: Path) -> list[LakeTable]:
    return [DeltaLake(str(folder / "delta")), IcebergLake(str(folder / "iceberg"))]


def table_of(folder: str) -> Any:
    return IcebergLake(folder).table()


def rows_of(table: LakeTable) -> list[dict[str, Any]]:
    found = table.rows(-1, *ALL, ["position", "kind", "session_id", "payload", "cluster_time", "timestamp"])
    rows: list[dict[str, Any]] = found.sort_by("position").to_pylist()
    return rows


def expected_of(folder: str, commit: str = "recorded") -> list[dict[str, Any]]:
    found = executed(ordo.read(folder, commit=commit).to_arrow())
    rows: list[dict[str, Any]] = found.select(
        ["position", "kind", "session_id", "payload", "cluster_time", "timestamp"]
    ).to_pylist()
    return rows


def feed_all(source: str, tables: list[LakeTable], settings: FeedSettings = SMALL, **options: Any) -> Feed:
    feed = Feed(source, tables, settings, **options)
    feed.run_to(feed.open_log())
    return feed


def dying_at(number: int) -> Callable[[str], None]:
    steps = 0

    def on_step(step: str) -> None:
        nonlocal steps
        steps += 1
        if steps == number:
            raise KilledError(step)

    return on_step


def test_what_was_executed_is_there_once_in_every_format(recorded: RecordedLog, tmp_path: Path) -> None:
    feed = feed_all(recorded.folder, tables_in(tmp_path))
    expected = expected_of(recorded.folder)
    assert len(ordo.read(recorded.folder, commit="recorded").to_arrow()) > len(expected) > 100
    for table in tables_in(tmp_path):
        assert rows_of(table) == expected
        assert check_table(feed.open_log(), table, "recorded").problem == ""
    assert not feed.step(feed.open_log()), "there is nothing new"


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8, 9, 10, 12, 13, 14])
def test_a_feed_that_dies_at_any_step_is_continued(recorded: RecordedLog, tmp_path: Path, number: int) -> None:
    """Before and after each read, each commit to each table, and each merging of files."""
    with pytest.raises(KilledError):
        feed_all(recorded.folder, tables_in(tmp_path), on_step=dying_at(number))
    feed_all(recorded.folder, tables_in(tmp_path))
    for table in tables_in(tmp_path):
        assert rows_of(table) == expected_of(recorded.folder), table.name


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("which", ["delta", "iceberg"])
def test_a_feed_that_dies_in_a_commit_is_continued(
    recorded: RecordedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, number: int, is_committed: bool
) -> None:
    """When its files are there and the commit is not, and when it never heard that the commit was done."""
    owner, name = (deltalake, "write_deltalake") if which == "delta" else (sql_catalog.SqlCatalog, "commit_table")
    commit, calls = getattr(owner, name), 0

    def dying(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and not is_committed:
            raise KilledError
        done = commit(*given, **named)
        if calls == number:
            raise KilledError
        return done

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(KilledError):
            feed_all(recorded.folder, tables_in(tmp_path))
    feed_all(recorded.folder, tables_in(tmp_path))
    for table in tables_in(tmp_path):
        assert rows_of(table) == expected_of(recorded.folder), table.name


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("is_new", [False, True])
def test_of_two_feeds_to_a_table_one_is_refused(
    recorded: RecordedLog, tmp_path: Path, which: int, is_new: bool
) -> None:
    if not is_new:
        with pytest.raises(KilledError):
            feed_all(recorded.folder, [tables_in(tmp_path)[which]], on_step=dying_at(4))

    def other(step: str) -> None:
        if step.startswith("write "):
            feed_all(recorded.folder, [tables_in(tmp_path)[which]])

    with pytest.raises(PipelineError, match="another feed has written to it; this one has stopped"):
        feed_all(recorded.folder, [tables_in(tmp_path)[which]], on_step=other)
    assert rows_of(tables_in(tmp_path)[which]) == expected_of(recorded.folder)


@pytest.mark.parametrize("which", ["delta", "iceberg"])
def test_of_two_feeds_that_commit_together_one_is_refused(
    recorded: RecordedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """The other one commits when this one has looked at the table already."""
    index = ["delta", "iceberg"].index(which)
    owner, name = (deltalake, "write_deltalake") if which == "delta" else (sql_catalog.SqlCatalog, "commit_table")
    with pytest.raises(KilledError):
        feed_all(recorded.folder, [tables_in(tmp_path)[index]], on_step=dying_at(4))
    commit = getattr(owner, name)

    def overtaken(*given: Any, **named: Any) -> Any:
        with monkeypatch.context() as inner:
            inner.setattr(owner, name, commit)
            feed_all(recorded.folder, [tables_in(tmp_path)[index]])
        return commit(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, overtaken)
        with pytest.raises(PipelineError, match="another feed has written to it; this one has stopped"):
            feed_all(recorded.folder, [tables_in(tmp_path)[index]])
    assert rows_of(tables_in(tmp_path)[index]) == expected_of(recorded.folder)


def test_small_files_are_merged_and_old_versions_go(recorded: RecordedLog, tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    settings = FeedSettings(commit="recorded", chunk_bytes=4 << 10, compact_every=1 << 20)
    feed_all(recorded.folder, tables, settings)
    for table in tables:
        before, after = table.compact(timedelta())
        assert before >= 8 and after == 1, table.name
        assert rows_of(table) == expected_of(recorded.folder)
        assert table.compact(timedelta())[0] <= 1
    there = table_of(str(tmp_path / "iceberg"))
    kept = {path.removeprefix("file://") for path in _files_of(there, there.snapshots())}
    data = {str(path) for path in (tmp_path / "iceberg").rglob("*") if path.suffix in (".parquet", ".avro")}
    assert data == kept, "what no version names is not there"
    assert len(list((tmp_path / "delta").rglob("*.parquet"))) <= 3
    feed_all(recorded.folder, tables)


def test_the_first_record_that_is_missing_doubled_or_changed_is_named(recorded: RecordedLog, tmp_path: Path) -> None:
    feed = feed_all(recorded.folder, tables_in(tmp_path))
    log = feed.open_log()
    positions = [row["position"] for row in expected_of(recorded.folder)]
    delta, iceberg = tables_in(tmp_path)
    deltalake.DeltaTable(delta.name).delete(f"position in ({positions[20]}, {positions[70]})")
    assert check_table(log, delta, "recorded").problem == f"the record at position {positions[20]} is missing"
    there = table_of(iceberg.name)
    again = iceberg.rows(positions[40] - 1, positions[40], list(there.schema().column_names))
    there.append(again)
    assert check_table(log, iceberg, "recorded").problem == f"the record at position {positions[40]} is there twice"
    there = table_of(iceberg.name)
    there.delete(f"position == {positions[40]}")
    there.append(again.set_column(again.schema.get_field_index("payload"), "payload", pa.array([b"other"])))
    assert (
        check_table(log, iceberg, "recorded").problem == f"the record at position {positions[40]} has another payload"
    )
    there = table_of(iceberg.name)
    there.delete(f"position == {positions[-1]}")
    there.delete(f"position == {positions[40]}")
    there.append(again)
    assert check_table(log, iceberg, "recorded").problem == f"the record at position {positions[-1]} is missing"


def test_typed_columns_hold_unsigned_numbers_and_nanoseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read back by deltalake, pyiceberg, Polars and DuckDB."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # newer ones warn that a plugin of theirs is quicker
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    decoder = StructDecoder("<Qq", ("number", "price"), "order")
    time_ns, largest = 1_700_000_000_123_456_789, 2**64 - 1
    with RecordingBuilder(str(tmp_path / "node0" / "archive")) as builder:
        builder.append(new_term(0, 0, time_ns, 0, 1, 2))
        for number in (0, 2**63, largest):
            builder.append(session_message(0, 1, time_ns + 1, decoder._form().pack(number, -number // 4)))
    feed_all(builder.directory, tables_in(tmp_path), FeedSettings(decoder))
    expected = [(time_ns + 1, Decimal(number), -number // 4) for number in (0, 2**63, largest)]
    delta = deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()
    iceberg = table_of(str(tmp_path / "iceberg"))
    frames = [
        delta, iceberg.scan().to_arrow(), polars.read_delta(str(tmp_path / "delta")).to_arrow(),
        polars.scan_iceberg(iceberg).collect().to_arrow(),
        duckdb.connect().sql("SELECT * FROM delta").to_arrow_table(),
    ]  # fmt: skip
    for frame in frames:
        rows = [row for row in frame.sort_by("position").to_pylist() if row["kind"] == "message"]
        found = [(row["cluster_time"], row["order"]["number"], row["order"]["price"]) for row in rows]
        assert found == expected


def test_columns_of_a_newer_schema_are_added(tmp_path: Path) -> None:
    old, new = StructDecoder("<I", ("number",), "order"), StructDecoder("<Iq", ("number", "price"), "order")
    folder = write_orders(tmp_path, [old._form().pack(1), new._form().pack(4, 99)])
    first = str(ordo.read(folder, columns="position").to_arrow()["position"][1])
    feed_all(folder, tables_in(tmp_path), FeedSettings(old, commit=first))
    feed_all(folder, tables_in(tmp_path), FeedSettings(new))
    for table in tables_in(tmp_path):
        found = table.rows(-1, *ALL, ["position", "order"]).sort_by("position")["order"].to_pylist()
        assert found == [None, {"number": 1, "price": None}, {"number": 4, "price": 99}], table.name


def test_tables_of_others_are_refused(recorded: RecordedLog, tmp_path: Path) -> None:
    exported, (delta, _) = str(tmp_path / "exported"), tables_in(tmp_path)
    export_delta([recorded.folder], exported, LakeSettings(), commit="recorded")
    with pytest.raises(PipelineError, match="`ordo lake run` has not made: give a place of its own"):
        feed_all(recorded.folder, [DeltaLake(exported)])
    feed_all(recorded.folder, [delta])
    with pytest.raises(PipelineError, match="is fed by `ordo lake run`: an export needs a table of its own"):
        export_delta([recorded.folder], delta.name, LakeSettings(), commit="recorded")


def test_an_export_of_what_is_on_disk_ends_at_the_last_record(recorded: RecordedLog, tmp_path: Path) -> None:
    """The file goes on after it: what is recorded there later was taken for exported once."""
    found = export_delta([recorded.folder], str(tmp_path / "table"), LakeSettings(), commit="recorded")
    last = ordo.read(recorded.folder, commit="recorded", columns="position").to_arrow()["position"][-1].as_py()
    assert list(found.values()) == [last]


def test_a_table_that_was_set_back_is_refused(recorded: RecordedLog, tmp_path: Path) -> None:
    """Delta sets back the rows, and not the position: going on there would leave out what was between."""
    delta, exported = DeltaLake(str(tmp_path / "delta")), str(tmp_path / "exported")
    feed_all(recorded.folder, [delta], FeedSettings(commit="recorded", chunk_bytes=8 << 10))
    settings = LakeSettings(chunk_bytes=4 << 10)
    export_delta([recorded.folder], exported, settings, commit="recorded")
    for name in (delta.name, exported):
        deltalake.DeltaTable(name).restore(0)
    with pytest.raises(PipelineError, match="was restored to an earlier version"):
        feed_all(recorded.folder, [delta])
    with pytest.raises(PipelineError, match="was restored to an earlier version"):
        export_delta([recorded.folder], exported, settings, commit="recorded")


def test_an_iceberg_table_that_was_set_back_gets_what_it_lost(recorded: RecordedLog, tmp_path: Path) -> None:
    lake = IcebergLake(str(tmp_path / "iceberg"))
    feed_all(recorded.folder, [lake], FeedSettings(commit="recorded", chunk_bytes=4 << 10))
    there = table_of(lake.name)
    there.manage_snapshots().rollback_to_snapshot(there.snapshots()[1].snapshot_id).commit()
    assert len(rows_of(lake)) < len(expected_of(recorded.folder))
    feed_all(recorded.folder, [lake])
    assert rows_of(lake) == expected_of(recorded.folder)


def test_what_was_purged_before_it_was_fed_is_an_error(recorded: RecordedLog, tmp_path: Path) -> None:
    (delta, _) = tables_in(tmp_path)
    with pytest.raises(KilledError):
        feed_all(recorded.folder, [delta], on_step=dying_at(4))
    feed = Feed(recorded.folder, [delta], SMALL)
    log = feed.open_log()
    late = log.descriptor._replace(start_position=delta.progress().position + 64)
    with pytest.raises(DataLossError, match="was purged before it was fed"):
        feed.step(type(log)(log.node, log.directory, late, log.limit, log.exact))
