"""Writes node.toml: every key with its purpose; keys that are not set are commented out with their default."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.settings.settings_text import Key, Table, tables_of, toml_value

WIDTH = 100
HEAD = """\
# Configuration of member {member_id} of an Ordo cluster, written by `ordo init`.
# What is commented out is the default, or an example where nothing is the default.
# Members' files differ in [node], and in [metrics] when several run on one machine.
"""

Values = Mapping[str, Any]


def render_config(tables: Mapping[str, Values | Sequence[Values]]) -> str:
    """Return the file of one member.

    `tables` holds the keys that are set, by table; a list for a table that may be repeated.

    Keys and values are those of the file; its writer reads it with `load_config` before it is relied on.
    """
    node = tables["node"]
    assert isinstance(node, Mapping)
    parts = [HEAD.format(member_id=node["member_id"])]
    for table in tables_of(NodeSettings):
        given = tables.get(table.name, {})
        parts.append("\n".join(_table(table, [given] if isinstance(given, Mapping) else given)))
    return "\n".join(parts)


def _table(table: Table, given: Sequence[Values]) -> Iterator[str]:
    """Yield the lines of a table. Only the first of several with one name is commented; a missing one is a comment."""
    yield from _comment(table.description)
    yield f"# {table.header}" if table.is_list and not given[0] else table.header
    for key in table.keys:
        yield from _comment(key.description)
        yield _line(key, given[0])
    yield ""
    for values in given[1:]:
        yield table.header
        yield from (_line(key, values) for key in table.keys if key.name in values)
        yield ""


def _line(key: Key, values: Values) -> str:
    if key.name in values:
        return f"{key.name} = {toml_value(values[key.name])}"
    return f"# {key.name} = {key.default or key.example}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH)]
