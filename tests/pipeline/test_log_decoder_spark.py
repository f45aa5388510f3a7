"""Decoder `log` as an option of the Spark source: batches, streams, tables, schemas of one's own, jobs."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

import ordo
from ordo.pipeline.decoding.errors import PipelineError, own_error
from ordo.pipeline.decoding.payloads import parse_decoder
from ordo.pipeline.export.export import export, read_export
from ordo.pipeline.first_look import look_at_frame
from ordo.pipeline.jobs.decode import decode
from ordo.pipeline.pipeline_commands import app
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.schemas.log_schemas import ready, with_decoder
from ordo.pipeline.spark.source import LogStreamReader
from tests.pipeline.test_log_decoder_tables import GrowingLog
from tests.pipeline.typed_logs import event, write_log
from tests.service_api.messages.typed import (
    FIRST,
    ORDER,
    ORDER_VALUES,
    SECOND,
    SEVENTH,
    WRONG,
    Order7,
    Ping,
    Position,
    PositionWithCents,
)
from tests.snippets import texts_of

pytestmark = pytest.mark.spark
PAGE = Path(__file__).resolve().parents[2] / "docs" / "PIPELINE.md"


def frame_of(spark: SparkSession, folder: str, **options: str) -> DataFrame:
    return spark.read.format("ordo").options(decoder="log", **options).load(folder)


def test_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [Position(1), event(FIRST), ORDER, b"no message", Ping(), Position(2)])
    frame = frame_of(spark, folder, kinds="message")
    front, order, none, ping, position = frame.orderBy("position").collect()
    assert order.Order.asDict(recursive=True) == {**ORDER_VALUES, "digest": bytearray(b"\x01\xff")}
    assert (front.message, front.Position_1, ping.message) == (None, None, "Ping")
    assert "in front of it" in front.problem and "schema" in none.problem and bytes(none.payload) == b"no message"
    assert position.Position_1.account == 2
    total = frame.agg(F.sum("Order.price").alias("price"), F.count("problem").alias("bad")).collect()[0]
    assert (total.price, total.bad) == (Decimal("-12.50"), 2)


def test_a_stream_goes_on_where_its_schemas_end(spark: SparkSession, tmp_path: Path) -> None:
    """A query has the columns of when it began; started again with its checkpoint, it has the newer ones."""
    log = GrowingLog(tmp_path)
    log.append(event(FIRST), Position(1))

    def run() -> list[Any]:
        rows: list[Any] = []
        stream = spark.readStream.format("ordo").options(decoder="log", commit=log.end, kinds="message")
        frame = stream.option("startingPosition", "earliest").load(log.directory)
        query = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.orderBy("position").collect()))
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return rows

    (first,) = run()
    assert first.Position_1.account == 1
    log.append(b"\x00", event(SECOND), PositionWithCents(2, 20))
    broken, newer = run()
    assert broken.message is None and broken.problem
    assert newer.Position_1.asDict() == {"account": 2, "cents": Decimal(20)}


def rows_between(reader: LogStreamReader, start: str, end: str) -> list[dict[str, Any]]:
    """The rows of one micro-batch."""
    return [
        row
        for partition in reader.partitions({"node0/0": int(start)}, {"node0/0": int(end)})
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def test_a_stream_that_runs_takes_up_newer_schemas_for_the_columns_that_it_has(tmp_path: Path) -> None:
    """A newer version of a message fills its column; a message that is new has none, and says so."""
    log = GrowingLog(tmp_path)
    log.append(event(FIRST), Position(1))
    began = log.end
    options = with_decoder(
        ReadSettings.parse(
            {"path": log.directory, "decoder": "log", "commit": "recorded", "kinds": "message", "nodes": "node0"}
        )
    )
    columns = ("position", "message", "version", "problem", "Position_1")
    reader = LogStreamReader(options, columns)
    assert [row["Position_1"] for row in rows_between(reader, "0", began)] == [{"account": 1}]
    log.append(PositionWithCents(2, 20), event(SECOND), PositionWithCents(3, 30), event(SEVENTH), Order7("x"))
    middle = log.end
    early, late, new = rows_between(reader, began, middle)
    assert (late["Position_1"], late["version"], late["problem"]) == ({"account": 3}, 1, None)
    assert early["Position_1"] == {"account": 2}
    assert (new["message"], new["Position_1"]) == (None, None)
    assert new["problem"] == "Order_7 has no column: its fields came into the log when this stream ran; start it again"
    log.append(event(WRONG), Position(5))
    (last,) = rows_between(reader, middle, log.end)
    assert last["Position_1"] is None and "from position" in last["problem"], "the log vouches for it no more"


def test_a_table_keeps_the_schemas_that_it_was_made_with(spark: SparkSession, tmp_path: Path) -> None:
    log = GrowingLog(tmp_path)
    log.append(event(FIRST), Position(1))
    spark.sql(f"CREATE TABLE typed USING ordo OPTIONS (path '{log.directory}', decoder 'log', commit 'recorded')")
    try:
        log.append(event(SECOND), PositionWithCents(2, 20))
        found = spark.sql("SELECT Position_1.account AS account FROM typed WHERE message IS NOT NULL ORDER BY position")
        assert [row.account for row in found.collect()] == [1, 2]
    finally:
        spark.sql("DROP TABLE typed")


def test_a_schema_of_one_s_own(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), Position(1)])
    reader = spark.read.format("ordo").option("decoder", "log")
    rows = reader.schema("position long, Position_1 struct<account: bigint>").load(folder).orderBy("position").collect()
    assert rows[-1].Position_1.account == 1
    with pytest.raises(Exception, match="PipelineError") as error:
        reader.schema("Position_1 struct<account: string>").load(folder).collect()
    said = str(own_error(error.value))
    assert "column Position_1 struct<account:string> is not one of a log" in said and "\n" not in said


def test_a_log_without_schemas_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="PipelineError") as error:
        frame_of(spark, write_log(tmp_path, [ORDER]))
    said = str(own_error(error.value))
    assert said.startswith("decoder log: the log has no schema of messages yet") and "\n" not in said


def test_the_job_decode(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [event(FIRST), ORDER, Ping(), b"no"])
    options = look_at_frame([folder], "log", "auto", None)
    log = spark.read.format("ordo").option("kinds", "message").load(folder)
    decode(log, ready(parse_decoder("log"), options)).write.parquet(str(tmp_path / "orders"))
    rows = spark.read.parquet(str(tmp_path / "orders")).orderBy("position").collect()
    assert [row.message for row in rows] == ["Order", "Ping", None]
    assert rows[0].Order.price == Decimal("-12.50")


def test_the_program_of_the_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = [text for text in texts_of(PAGE.read_text(), "python") if '"decoder", "log"' in text]
    folder = write_log(tmp_path, [event(FIRST), ORDER])
    exec(program.replace("/data/node0/archive", folder), {"spark": spark, "ordo": ordo})
    assert "-12.50" in capsys.readouterr().out


def test_an_export_adds_the_columns_of_newer_schemas(spark: SparkSession, tmp_path: Path) -> None:
    """Chunks that were written before a schema came are null in its columns."""
    log, target = GrowingLog(tmp_path), str(tmp_path / "parquet")
    log.append(event(FIRST), Position(1))
    export(spark, [log.directory], target, decoder="log", commit=log.end)
    log.append(event(SECOND), PositionWithCents(2, 20), b"\x00")
    export(spark, [log.directory], target, decoder="log", commit=log.end, chunk_bytes=96)
    rows = read_export(spark, target).where("kind = 'message'").orderBy("position").collect()
    assert [row.message for row in rows] == ["Position_1", "Position_1", None] and rows[2].problem
    assert [row.Position_1 and row.Position_1.asDict() for row in rows] == [
        {"account": 1, "cents": None}, {"account": 2, "cents": Decimal(20)}, None,
    ]  # fmt: skip


def test_an_export_refuses_messages_that_are_called_like_its_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [b"\x01\x00\x00\x00"])
    schema = tmp_path / "day.xml"
    schema.write_text(DAY)
    with pytest.raises(PipelineError, match=r"the messages \['Day'\] are called like columns of the export"):
        export(spark, [folder], str(tmp_path / "parquet"), decoder=f"sbe:{schema}")


def test_an_export_from_the_command_line(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.pipeline.spark.session.local_session", lambda *_, **__: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    folder, target = write_log(tmp_path, [b"\x01\x00\x00\x00"]), str(tmp_path / "parquet")
    done = CliRunner().invoke(app, ["export", folder, "--to", target, "--decoder", "struct:<I:number"])
    assert done.exit_code == 0, done.output
    (row,) = read_export(spark, target).where("kind = 'message'").collect()
    assert row.message == "record" and row.record.number == 1
    refused = CliRunner().invoke(app, ["export", folder, "--to", target, "--decoder", "nosuch:x"])
    assert isinstance(refused.exception, PipelineError) and "nosuch" in str(refused.exception)


DAY = """<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="d" id="9" version="0">
<types><composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>
<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>
<type name="version" primitiveType="uint16"/></composite></types>
<sbe:message name="Day" id="1"><field name="number" id="1" type="uint32"/></sbe:message></sbe:messageSchema>
"""
