"""Every query over a log that a page shows runs in both engines and gives the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ordo
from tests.patience import patient
from tests.pipeline.test_repeats import RecordedLog
from tests.snippets import texts_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
IN_QUOTES = re.compile(r'(?:--sql |\.sql\()"(SELECT[^"]* FROM log[^"]*)"')


def queries() -> list[str]:
    """Those that need neither a decoder's columns nor options of Spark's tables."""
    found: list[str] = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        found += IN_QUOTES.findall(text)
        for block in texts_of(text, "sql"):
            found += [one.partition("--")[0].strip(" ;\n") for one in block.splitlines()]
    chosen = [one for one in found if one.startswith("SELECT") and " FROM log" in one]
    return sorted({one for one in chosen if "record." not in one and "WITH (" not in one and "..." not in one})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    return RecordedLog(tmp_path_factory.mktemp("documented"), 200)


def run_locally(recorded: RecordedLog, query: str) -> list[tuple[Any, ...]]:
    rows = ordo.read(recorded.folder, commit="recorded").sql(query).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_there_are_such_queries_and_payments_a_minute_are_among_them() -> None:
    assert len(queries()) >= 3
    assert any("NOT is_repeat" in one and "date_trunc('minute'" in one for one in queries())


@pytest.mark.parametrize("query", queries())
def test_a_query_runs_on_duckdb(recorded: RecordedLog, query: str) -> None:
    rows = run_locally(recorded, query)
    assert rows
    if "NOT is_repeat" in query:
        executed = [one for one in recorded.entries.values() if one.payload and not one.is_repeat]
        assert sum(row[-1] for row in rows) == len(executed)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_all_queries_give_the_same_on_spark(spark: SparkSession, recorded: RecordedLog, tmp_path: Path) -> None:
    frame = spark.read.format("ordo").option("commit", "recorded").option("partitionBytes", "8192")
    log = frame.load(recorded.folder)
    log.createOrReplaceTempView("log")
    for query in queries():
        local = [tuple(map(str, row)) for row in run_locally(recorded, query)]
        found = [tuple(map(str, row)) for row in spark.sql(query).collect()]
        assert len(found) == len(local)
        assert [row[1:] for row in sorted(found)] == [row[1:] for row in sorted(local)], query
    columns = ["position", "kind", "body", "is_repeat"]
    recorded.check([row.asDict() for row in log.select(*columns).collect()])
    stream = spark.readStream.format("ordo").option("commit", "recorded").option("startingPosition", "earliest")
    running = (
        stream.option("maxBytesPerTrigger", "20000").load(recorded.folder).select(*columns)
        .writeStream.format("memory").queryName("repeats").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    running.awaitTermination(round(patient(120)))
    recorded.check([row.asDict() for row in spark.table("repeats").collect()])
