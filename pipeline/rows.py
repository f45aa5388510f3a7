"""Rows of a data frame for a report, however many there are: the first few in memory, all of them in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT_MAX = 1000
Row = dict[str, Any]


@dataclass
class KeptRows:
    """The first rows, how many there are, and the name of the file with all of them where these are more."""

    first: list[Row] = field(default_factory=list)
    count: int = 0
    file_name: str = ""

    def facts(self, name: str) -> dict[str, Any]:
        """What the report's JSON file says of them."""
        if not self.file_name:
            return {name: self.first}
        return {name: self.first, f"{name}_count": self.count, f"{name}_file": self.file_name}


def keep_rows(frame: DataFrame, folder: str, name: str, on_row: Callable[[Row], None] = lambda row: None) -> KeptRows:
    """Brings the rows here a partition at a time; beyond KEPT_MAX all go to `<name>.jsonl`, a row a line."""
    kept = KeptRows()
    target = Path(folder) / f"{name}.jsonl"
    target.unlink(missing_ok=True)
    rows = (row.asDict() for row in frame.toLocalIterator())
    for row in rows:
        kept.count += 1
        on_row(row)
        if kept.count <= KEPT_MAX:
            kept.first.append(row)
            continue
        kept.file_name = target.name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(target.name + ".new")
        with new.open("w") as file:
            for early in (*kept.first, row):
                _write(file.write, early)
            for late in rows:
                kept.count += 1
                on_row(late)
                _write(file.write, late)
        os.replace(new, target)
    return kept


def _write(write: Callable[[str], Any], row: Row) -> None:
    write(json.dumps(row, default=str) + "\n")
