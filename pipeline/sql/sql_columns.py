"""Which columns of the log a query needs, so that the others are not read, and whether it can be streamed to it.

DuckDB says what it has parsed (`json_serialize_sql`). One SELECT over table `log` alone, without subqueries, common
table expressions and stars, names all that it needs, and asks for each row once; anything else may not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ordo.pipeline.decoding.errors import PipelineError


def columns_of(database: Any, sql: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return those of `names` that one pass over table `log` has to bring, in their order.

    None means that all may be needed, or more than one pass. `database` is a connection of DuckDB.
    """
    ((text,),) = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    statements = json.loads(text).get("statements", [])
    if len(statements) != 1 or not _is_plain(statements[0]["node"]):
        return None
    node = statements[0]["node"]
    known = {name.lower(): name for name in names}
    own = {one["alias"].lower() for one in node["select_list"]}
    references = [
        [part.lower() for part in one["column_names"]] for one in _objects(node) if one.get("class") == "COLUMN_REF"
    ]
    if any(len(parts) == 1 and parts[0] not in known and parts[0] not in own for parts in references):
        return None  # the table's own name stands for whole rows
    found = {known[part] for parts in references for part in parts if part in known}
    return tuple(name for name in names if name in found) or names[:1]


def _is_plain(node: dict[str, Any]) -> bool:
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or node["sample"] is not None:
        return False
    table = node["from_table"]
    if table["type"] != "BASE_TABLE" or table["table_name"].lower() != "log" or table["column_name_alias"]:
        return False
    other = ("STAR", "SUBQUERY", "LAMBDA", "POSITIONAL_REFERENCE")
    return table["sample"] is None and all(one.get("class") not in other for one in _objects(node))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value, itself among them."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _objects(one)


def check(database: Any, sql: str, empty: Any) -> None:
    """Raise PipelineError for what gives no rows, and DuckDB's own error for what it refuses, before the log is read.

    `empty`: a table with the log's columns.
    """
    database.register("log", empty)
    if database.sql(sql) is None:
        raise PipelineError("query: gives no rows; write a SELECT over table log")
    database.unregister("log")
