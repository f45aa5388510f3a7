"""How lanes share the tests of processes: by file, but that all files that ask for the shared session of Spark go
together, since each lane that has one of them waits for a JVM, and for it to become warm."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[1]
ASKS_FOR_SPARK = "spark: SparkSession"
SPARK = "spark"


@cache
def scope_of(path: str) -> str:
    """Return what a file goes together with: itself, or Spark."""
    return SPARK if ASKS_FOR_SPARK in (ROOT / path).read_text() else path


class OneSpark(LoadFileScheduling):  # type: ignore[misc]
    """Gives files to lanes, the scope with the most tests first, which is that of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(str(super()._split_scope(nodeid)))
