"""What was executed, once: frames of a log without the copies of requests that the cluster does not execute.

A request of which it is not known whether it is a copy (`is_repeat` is null) counts as executed; jobs say how many
there are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ordo.pipeline.decoding.batches import IS_REPEAT
from ordo.pipeline.decoding.errors import PipelineError

__all__ = ["IS_REPEAT", "describe_unknown", "executed_once", "was_executed", "with_repeats"]


def executed_once(log: DataFrame) -> DataFrame:
    """Return the log without copies of requests. Raises PipelineError where the frame does not say which those are."""
    return with_repeats(log).where(was_executed())


def with_repeats(log: DataFrame) -> DataFrame:
    """Return the log itself. Raises PipelineError where it has no column `is_repeat`."""
    if IS_REPEAT not in log.columns:
        raise PipelineError(
            f"the frame has no column {IS_REPEAT}, which says which requests were sent again and not executed: read it "
            f"as well (option columns), or take repeats too (repeats=True, --repeats)"
        )
    return log


def was_executed() -> Column:
    """Return the condition that a record is no copy, as far as that is known."""
    return ~F.coalesce(F.col(IS_REPEAT), F.lit(False))


def describe_unknown(count: int) -> str:
    """Say that some of what was counted may be copies."""
    return (
        f"Of {count:,} requests it is not known whether they are repeats, since the log's beginning was deleted: they "
        f"are counted."
    )
