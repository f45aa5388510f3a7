"""The log in SQL: tables, views, and the pandas interface."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ordo.pipeline.generate import LogShape
from ordo.pipeline.recordings.options import DESCRIPTIONS
from ordo.pipeline.spark.sink import OPTIONS
from ordo.pipeline.spark.source import OrdoLog, without_catalog_properties

pytestmark = pytest.mark.spark


def test_a_table_keeps_the_options_it_was_made_with(archive: str) -> None:
    """Spark calls the source like this: with options when the table is made, with none when it is read."""
    made = OrdoLog({"path": f"file:{archive}", "location": f"file:{archive}", "kinds": "timer", "option.kinds": "timer",
                    "provider": "ordo", "owner": "me"})  # fmt: skip
    schema = made.schema()
    assert OrdoLog({})._options(schema).predicates.kind == frozenset(["timer"])
    assert OrdoLog({"kinds": "message"})._options(schema).predicates.kind == frozenset(["message"])
    assert without_catalog_properties({"OWNER": "me", "path": "/x"}) == {"path": "/x"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tables_views_and_pandas(spark: SparkSession, archive: str, shape: LogShape) -> None:
    """A table made with CREATE TABLE once could not be read: its options were gone."""
    try:
        spark.sql(f"CREATE TABLE ordo_log USING ordo LOCATION '{archive}'")
        spark.sql(
            f"CREATE TABLE ordo_timers USING ordo OPTIONS (path '{archive}', kinds 'timer', columns 'position,kind')"
        )
        spark.sql(f"CREATE TEMPORARY VIEW ordo_opens USING ordo OPTIONS (path '{archive}', kinds 'session_open')")
        assert spark.sql("SELECT count(*) FROM ordo_log WHERE kind = 'message'").collect()[0][0] == shape.messages
        assert spark.table("ordo_timers").columns == ["position", "kind"]
        joined = spark.sql("SELECT t.kind FROM ordo_log l JOIN ordo_timers t ON l.position = t.position").collect()
        assert [row.kind for row in joined] == ["timer"] * shape.terms
        chosen = spark.sql("SELECT * FROM ordo_log WITH (`kinds` = 'new_term')").collect()
        assert [row.kind for row in chosen] == ["new_term"] * shape.terms
        assert spark.sql("SELECT * FROM ordo_opens").count() == shape.terms * shape.sessions
        frame = spark.table("ordo_opens").pandas_api()
        assert frame.session_id.nunique() == shape.terms * shape.sessions
        with pytest.raises(AnalysisException, match="without a list of columns"):
            spark.sql(f"CREATE TABLE ordo_own (position long) USING ordo LOCATION '{archive}'")
            spark.table("ordo_own").count()
    finally:
        for name in ("ordo_log", "ordo_timers", "ordo_own"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql("DROP VIEW IF EXISTS ordo_opens")
    assert os.listdir(archive), "dropping the table takes nothing from the archive"


def test_every_option_is_in_the_docs() -> None:
    """Also the other way round: an option in the tables is one that there is."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "PIPELINE.md").read_text()
    tables = re.findall(r"\| option \| meaning, default \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    documented = [
        {name.lower() for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
        for table in tables
    ]
    assert documented == [set(DESCRIPTIONS) - {"path", "paths"}, set(OPTIONS)]
