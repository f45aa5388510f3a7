"""Decoder `log` in tables: Delta by exports, Delta and Iceberg as a log grows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.pipeline.lake.feed import Feed, FeedSettings
from ordo.pipeline.lake.lake_commands import lake_app
from ordo.pipeline.lake.tables import LakeTable
from tests.pipeline.typed_logs import Record, event, payload_of, write_log
from tests.service_api.messages.typed import FIRST, ORDER, ORDER_VALUES, SECOND, Ping, Position, PositionWithCents

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'ordo-sequencer[delta]'")
pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed: pip install 'ordo-sequencer[iceberg]'")
from ordo.pipeline.lake.delta_table import DeltaLake  # noqa: E402
from ordo.pipeline.lake.iceberg_table import IcebergLake  # noqa: E402

MAKERS: list[Callable[[str], LakeTable]] = [DeltaLake, IcebergLake]


class GrowingLog:
    """A log that is read while it is written."""

    def __init__(self, folder: Path) -> None:
        self._builder = RecordingBuilder(str(folder / "archive"), stopped=False)
        self.directory = self._builder.directory

    @property
    def end(self) -> str:
        """How far it is written, as option `commit`."""
        return str(self._builder.writer.position)

    def append(self, *records: object) -> None:
        for one in records:
            self._builder.append(one if isinstance(one, Record) else session_message(0, 1, 5, payload_of(one)))
        self._builder.writer.flush()


def rows_of(table: LakeTable, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.rows(-1, 1 << 62, ["position", *columns]).sort_by("position").to_pylist()
    return found


@pytest.mark.parametrize("make", MAKERS)
def test_a_lake_goes_by_the_schemas_as_they_come(tmp_path: Path, make: Callable[[str], LakeTable]) -> None:
    """It begins before there is any, and is told of newer ones by the log alone."""
    log, table = GrowingLog(tmp_path), make(str(tmp_path / "table"))
    feed = Feed(log.directory, [table], FeedSettings(LogDecoder(), commit="recorded"))
    log.append(Position(1))
    feed.run_to(feed.open_log())
    (first,) = rows_of(table, "message", "problem")
    assert first["message"] is None and first["problem"] == "schema 1 is not in the log, which has none"
    log.append(event(FIRST), Position(2), ORDER, Ping())
    feed.run_to(feed.open_log())
    log.append(event(SECOND), PositionWithCents(3, 30))
    feed.run_to(feed.open_log())
    columns = ("message", "Position_1", "Order")
    found = [row for row in rows_of(table, *columns) if row["message"] is not None]
    assert [row["message"] for row in found] == ["Position_1", "Order", "Ping", "Position_1"]
    assert found[0]["Position_1"] == {"account": 2, "cents": None} and found[1]["Order"] == ORDER_VALUES
    assert found[3]["Position_1"] == {"account": 3, "cents": Decimal(30)}


def test_a_lake_that_is_started_again_knows_the_schemas_of_before(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path)
    for records in ([event(FIRST), Position(1)], [Position(2)]):
        log.append(*records)
        table = DeltaLake(str(tmp_path / "table"))
        feed = Feed(log.directory, [table], FeedSettings(LogDecoder(), commit="recorded"))
        feed.run_to(feed.open_log())
    assert [row["Position_1"] for row in rows_of(table, "Position_1")] == [None, {"account": 1}, {"account": 2}]


def test_an_export_to_delta(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), ORDER, Position(1)])
    export_delta([folder], str(tmp_path / "table"), LakeSettings(decoder=LogDecoder()))
    rows = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table().sort_by("position").to_pylist()
    assert [row["message"] for row in rows] == [None, "Order", "Position_1"] and rows[1]["Order"] == ORDER_VALUES


def test_an_export_without_schemas_is_refused(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [ORDER])
    with pytest.raises(PipelineError, match=r"^decoder log: the log has no schema of messages yet"):
        export_delta([folder], str(tmp_path / "table"), LakeSettings(decoder=LogDecoder()))
    assert not (tmp_path / "table").exists()


def test_the_command_takes_it(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), Position(1)])
    delta = str(tmp_path / "delta")
    done = CliRunner().invoke(lake_app, ["run", folder, "--delta", delta, "--decoder", "log", "--once"])
    assert done.exit_code == 0, done.output
    assert rows_of(DeltaLake(delta), "Position_1")[-1]["Position_1"] == {"account": 1}
