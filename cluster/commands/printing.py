"""What `ordo cluster` prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

EXIT_NO_QUORUM = 3


def make_table(*columns: str, **options: Any) -> Any:
    """Return a table of rich, which is imported when one is shown: most commands show none.

    Without lines between the cells, so that the usual rows fit into 80 columns.
    """
    from ordo.runtime.reporting.terminal import OutputTable

    return OutputTable(*columns, **{"box": None, "pad_edge": False, **options})


def show(shown: Any) -> None:
    from ordo.runtime.reporting.terminal import output_console

    output_console().print(shown)


def print_values(values: dict[str, Any]) -> None:
    table = make_table(show_header=False, pad_edge=True)
    for name, value in values.items():
        table.add_row(name.replace("_", " "), show_cell(value))
    show(table)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def or_null(value: Any) -> Any:
    """Return a counter's value for JSON, or None if the counter does not exist."""
    from ordo.cluster.monitoring.counter_values import NOT_THERE

    is_missing = value == "-" or (value == NOT_THERE and not isinstance(value, bool))
    return None if is_missing else value


def show_cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int) else str(value)
