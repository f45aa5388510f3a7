"""What a feed needs of a table, whatever its format: how far it has the log, and one commit for rows and position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import pyarrow as pa

from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.errors import PipelineError

POSITION = "position"
PARTITION_BY = ("day",)
COMPACT_EVERY = 60
"""Commits after which small files are merged."""
SMALL_FILE_BYTES = 32 << 20
"""Files below this size are merged, into files of about this size."""


@dataclass(frozen=True)
class Progress:
    """What a table says of itself: it has the log of this cluster up to this position; -1: it has nothing yet."""

    position: int = -1
    origin: Origin | None = None


class LakeTable(Protocol):
    """A table that one feed writes to."""

    name: str

    def progress(self) -> Progress:
        """Raise PipelineError for a table that no feed has written."""
        ...

    def append(self, rows: pa.Table, known: Progress, end: int, origin: Origin | None) -> None:
        """Commit the rows that follow what is `known` of the table, together with their `end`.

        Raises PipelineError where the table has got any further meanwhile: another feed writes to it.
        """
        ...

    def compact(self, keep: timedelta) -> tuple[int, int]:
        """Make few files of many, and forget versions older than `keep`; how many files became how many."""
        ...

    def rows(self, after: int, end: int, columns: list[str]) -> pa.Table:
        """Return what the table has of (after, end]."""
        ...


def overtaken(name: str, known: Progress) -> PipelineError:
    """Return the error of a feed that finds another one at its table."""
    return PipelineError(
        f"{name}: another feed has written to it; this one has stopped and wrote nothing after position "
        f"{max(known.position, 0)}. Run one `ordo lake run` to a table"
    )
