"""Runs a function over a list of tasks on Spark, for jobs whose work is not rows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULT_SCHEMA = "task_id int, result string"


def map_tasks(spark: SparkSession, tasks: list[Any], function: Callable[[Any], Any]) -> DataFrame:
    """One row (task_id, result as JSON) for each task; one Spark task each. `function` is a top-level one."""
    rows = [(index, pickle.dumps(task)) for index, task in enumerate(tasks)]
    frame = spark.createDataFrame(rows, "task_id int, task binary")
    frame = frame.repartitionByRange(max(1, len(tasks)), "task_id")
    return frame.mapInArrow(partial(_apply, function), RESULT_SCHEMA)


def collect_tasks(spark: SparkSession | None, tasks: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Return the results, as JSON keeps them, in the order of the tasks; without a session one after another, here."""
    if not tasks:
        return []
    if spark is None:
        return [json.loads(json.dumps(function(task))) for task in tasks]
    rows = map_tasks(spark, tasks, function).collect()
    return [json.loads(row.result) for row in sorted(rows, key=lambda row: int(row.task_id))]


def _apply(function: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        results = [json.dumps(function(pickle.loads(task))) for task in batch["task"].to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [batch["task_id"].cast(pa.int32()), pa.array(results, pa.string())], names=["task_id", "result"]
        )
