"""A query reads the columns that it names, once, and gives what it gives over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import ordo.pipeline.recordings.reading
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.sql.local import LocalLog, read
from ordo.pipeline.sql.query import query
from ordo.pipeline.sql.sql_columns import columns_of

NAMES = ("position", "kind", "session_id", "payload")
PLAIN = {
    "SELECT kind, count(*) FROM log GROUP BY ALL ORDER BY kind": ("kind",),
    "SELECT count(*) FROM log": ("position",),
    "SELECT max(L.POSITION) FROM log AS l WHERE l.kind = 'message' AND octet_length(payload) > 3": (
        "position",
        "kind",
        "payload",
    ),
    "SELECT lower(kind) AS k, k || '!' AS loud FROM log ORDER BY k, position LIMIT 5": ("position", "kind"),
    "SELECT DISTINCT ON (kind) session_id FROM log ORDER BY kind, position": ("position", "kind", "session_id"),
    "SELECT position, lag(position) OVER (PARTITION BY session_id ORDER BY position) FROM log ORDER BY 1": (
        "position",
        "session_id",
    ),
}
NOT_PLAIN = [
    "SELECT * FROM log",
    "FROM log",
    "SELECT COLUMNS('pos.*') FROM log",
    "SELECT log FROM log",
    "SELECT l FROM log l",
    "SELECT #2 FROM log",
    "SELECT kind FROM log TABLESAMPLE 10%",
    "SELECT kind FROM log USING SAMPLE 10%",
    "SELECT a FROM log AS l(a)",
    "SELECT kind FROM log UNION ALL SELECT kind FROM log",
    "SELECT count(*) FROM (SELECT kind FROM log)",
    "SELECT kind FROM log WHERE position = (SELECT max(position) FROM log)",
    "WITH m AS (SELECT kind FROM log) SELECT kind FROM m",
    "SELECT a.kind FROM log a, log b",
    "SELECT list_transform([1], lambda x: x + 1) FROM log",
    "SELECT kind FROM log; SELECT position FROM log",
    "SELECT 1",
    "DESCRIBE log",
]


@pytest.mark.parametrize("sql", [*PLAIN, *NOT_PLAIN])
def test_only_a_plain_query_is_known_to_need_less(sql: str) -> None:
    with duckdb.connect() as database:
        assert columns_of(database, sql, NAMES) == PLAIN.get(sql)


@pytest.mark.parametrize("sql", PLAIN)
def test_the_rows_are_those_over_all_columns(sql: str, archive: str) -> None:
    log = read(archive)
    with duckdb.connect() as database:
        database.register("log", log.to_arrow())
        expected = database.sql(sql).to_arrow_table()
    with query(log, sql) as rows:
        assert rows.read_all() == expected == log.sql(sql)


def test_no_more_is_read_and_nothing_for_a_mistake(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    read_task = ordo.pipeline.recordings.reading.read_task

    def watch(
        task: Any, options: Any, predicates: Any, columns: tuple[str, ...], repeats: Any
    ) -> Iterator[pa.RecordBatch]:
        assert repeats is None, "no query asks for them"
        seen.append(columns)
        return read_task(task, options, predicates, columns, repeats)

    monkeypatch.setattr("ordo.pipeline.sql.local.read_task", watch)
    log: LocalLog = read(archive)
    with query(log, "SELECT max(position) FROM log WHERE kind = 'message'") as rows:
        rows.read_all()
    assert set(seen) == {("position", "kind")}
    seen.clear()
    for sql in ("SELECT nothing FROM log", "SELEC", "DROP TABLE other"):
        with pytest.raises(PipelineError), query(log, sql) as rows:
            rows.read_all()
        with pytest.raises(PipelineError):
            log.sql(sql)
    assert seen == []


def test_a_part_of_the_columns_is_planned_with_the_log(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anew, it would end where the files end by now."""
    log = read(archive)
    monkeypatch.setattr("ordo.pipeline.sql.local.plan_read", None)
    part = log.select(("position", "kind"))
    assert part.to_arrow() == log.to_arrow().select(["position", "kind"])
