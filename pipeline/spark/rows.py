"""Rows of a data frame for a report, however many there are: the first few in memory, all of them in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordo.pipeline.decoding.errors import PipelineError

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
        """Return what the report's JSON file says of them."""
        if not self.file_name:
            return {name: self.first}
        return {name: self.first, f"{name}_count": self.count, f"{name}_file": self.file_name}


def rows_of(frame: DataFrame) -> Iterator[Row]:
    """Bring the rows here a partition at a time."""
    return (row.asDict() for row in frame.toLocalIterator())


def keep_rows(
    found: Iterable[Row], folder: str, name: str, on_row: Callable[[Row], None] = lambda row: None
) -> KeptRows:
    """Keep the first rows; beyond KEPT_MAX all go to `<name>.jsonl`, a row a line.

    Raises PipelineError where the file cannot be written.
    """
    target = Path(folder) / f"{name}.jsonl"
    try:
        return _keep_rows(found, target, on_row)
    except OSError as error:
        raise PipelineError(f"{error.filename or target} cannot be written: {error.strerror}") from error


def _keep_rows(found: Iterable[Row], target: Path, on_row: Callable[[Row], None]) -> KeptRows:
    kept = KeptRows()
    with suppress(NotADirectoryError):
        target.unlink(missing_ok=True)

    def counted() -> Iterator[Row]:
        for row in found:
            kept.count += 1
            on_row(row)
            yield row

    rows = counted()
    kept.first = list(islice(rows, KEPT_MAX))
    late = next(rows, None)
    if late is None:
        return kept
    kept.file_name = target.name
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(target.name + ".new")
    with new.open("w") as file:
        for row in chain(kept.first, (late,), rows):
            file.write(json.dumps(row, default=str) + "\n")
    os.replace(new, target)
    return kept
