"""Plans a read by its options, and reads its tasks: from folders, from nodes over the network, from object storage."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipeline.errors import DataLossError
from pipeline.network import ANYWAY, NetworkLog, NetworkRun, check_not_lost, find_time_unit, plan_network, read_network
from pipeline.options import ReadOptions
from pipeline.planner import Run, plan, read_runs
from pipeline.predicates import Predicates
from pipeline.recordings import Recording

Task = tuple[Run, ...] | NetworkRun


def plan_read(options: ReadOptions, predicates: Predicates) -> list[Task]:
    """The tasks of a batch read, in the order of the log (of each node).

    Raises DataLossError when positions that were asked for are not there any more.
    """
    if options.network is not None:
        return [*_plan_network(options, options.network, predicates)]
    recordings = options.open_recordings()
    _check_start(options, recordings)
    return [*plan(recordings, predicates, options.partition_bytes, options.partitions, options.time_unit)]


def read_task(
    task: Task, options: ReadOptions, predicates: Predicates, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task."""
    if isinstance(task, NetworkRun):
        return read_network(task, predicates, columns, options.batch_rows)
    return read_runs(task, predicates, columns, options.batch_rows, options.verify)


def _plan_network(options: ReadOptions, log: NetworkLog, predicates: Predicates) -> list[NetworkRun]:
    if predicates.node is not None and log.name not in predicates.node:
        return []
    found = log.survey()
    if options.start_position is not None:
        check_not_lost(options.start_position, found, log.lenient)
    after = max(predicates.position[0] - 1, 0)
    upto = min(found.end_position, predicates.position[1])
    if options.commit.isdigit():
        upto = min(upto, int(options.commit))
    unit = options.time_unit if options.time_unit is not None else find_time_unit(log, found)
    return plan_network(log, found, after, upto, unit or 0, options.partition_bytes, options.partitions)


def _check_start(options: ReadOptions, recordings: list[Recording]) -> None:
    position = options.start_position
    for recording in recordings:
        if position is not None and position < recording.start and options.fail_on_data_loss:
            raise DataLossError(
                f"{recording.key}: position {position} was asked for, and the log begins at {recording.start}: what "
                f"was between was purged{ANYWAY}"
            )
