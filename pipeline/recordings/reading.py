"""Plans a read by its options, and reads its tasks: from folders, from nodes over the network, from object storage."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ordo.follow.executions import Executions
from ordo.pipeline.decoding.batches import arrow_schema
from ordo.pipeline.decoding.errors import DataLossError, PipelineError
from ordo.pipeline.decoding.payloads import PayloadDecoder, decode_batches, decoded_schema, decoder_fields
from ordo.pipeline.recordings.network import (
    ANYWAY,
    NetworkLog,
    NetworkRun,
    check_not_lost,
    find_time_unit,
    plan_network,
    read_network,
)
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import Run, plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import Recording
from ordo.pipeline.recordings.repeats import (
    NETWORK_KEY,
    UNKNOWN,
    Repeats,
    RepeatScan,
    advance,
    advance_network,
    begin_scan,
    complete,
    native_columns,
    wants_numbers,
    wants_scan,
)

Task = tuple[Run, ...] | NetworkRun


def plan_read(options: ReadSettings, predicates: Predicates) -> list[Task]:
    """Return the tasks of a batch read, in the order of the log (of each node).

    Raises DataLossError when positions that were asked for are not there any more, PipelineError where the log ends
    before the one to begin at.
    """
    if options.network is not None:
        return [*_plan_network(options, options.network, predicates)]
    recordings = options.open_recordings()
    _check_start(options, recordings)
    return [*plan(recordings, predicates, options.partition_bytes, options.partitions, options.time_unit)]


def read_task(
    task: Task,
    options: ReadSettings,
    predicates: Predicates,
    columns: tuple[str, ...],
    repeats: Repeats | None = None,
) -> Iterator[pa.RecordBatch]:
    """Record batches of one task. `repeats`: those of its log, where the columns want them."""
    decoder = options.decoder
    added = set() if decoder is None else {one.name for one in decoder_fields(decoder)}
    if decoder is None or added.isdisjoint(columns):
        yield from _read_log(task, options, predicates, columns, repeats)
        return
    needed = decoded_from(columns, decoder)
    schema = decoded_schema(arrow_schema(needed), decoder)
    batches = _read_log(task, options, predicates, needed, repeats)
    for batch in decode_batches(decoder, "payload", schema, batches):
        yield batch.select(list(columns))


def schema_of(options: ReadSettings) -> pa.Schema:
    """Return the schema of what these options read, whose decoder is ready. Raises PipelineError."""
    decoder = options.decoder
    if decoder is None:
        return arrow_schema(options.columns)
    known = decoded_schema(arrow_schema(decoded_from(options.columns, decoder)), decoder)
    return pa.schema([known.field(name) for name in options.columns])


def decoded_from(columns: tuple[str, ...], decoder: PayloadDecoder) -> tuple[str, ...]:
    """Return the columns of the log that have to be read for these: themselves, and what payloads are decoded from."""
    added = {one.name for one in decoder_fields(decoder)}
    logged = [name for name in columns if name not in added]
    return tuple(dict.fromkeys([*logged, "payload", "kind", *decoder.inputs]))


def _read_log(
    task: Task, options: ReadSettings, predicates: Predicates, columns: tuple[str, ...], repeats: Repeats | None
) -> Iterator[pa.RecordBatch]:
    native = native_columns(columns)
    if isinstance(task, NetworkRun):
        batches = read_network(task, predicates, native, options.batch_rows)
    else:
        batches = read_runs(task, predicates, native, options.batch_rows, options.verify)
    return batches if native == columns else complete(batches, columns, repeats)


Scans = dict[str, RepeatScan | None]
"""Scans of logs in folders and copies, by their keys; None: nothing is known about that log's beginning.

One read's scans all number messages, or none does.
"""


def find_repeats(
    options: ReadSettings, predicates: Predicates, columns: tuple[str, ...], scans: Scans | None = None
) -> dict[str, Repeats]:
    """Return the repeats of each log that is read, by `key_of` its tasks; none where the columns do not want them.

    `scans`: those of earlier parts of the same logs, which go on, so that a log in parts is looked through once.
    """
    scans = {} if scans is None else scans
    if not wants_scan(columns, predicates):
        return {}
    after, upto = predicates.position[0] - 1, predicates.position[1]
    numbers = wants_numbers(columns, predicates)
    if options.network is not None:
        return {NETWORK_KEY: _find_network_repeats(options.network, (after, upto), options, scans, numbers)}
    found = {}
    for recording in options.open_recordings():
        if recording.is_log:
            if recording.key not in scans:
                scans[recording.key] = begin_scan(recording, options.storage, numbers=numbers)
            scan = scans[recording.key]
            if scan is not None:
                scan.forget(after)
                advance(scan, recording, upto, options.partition_bytes)
            found[recording.key] = UNKNOWN if scan is None else scan.repeats()
    return found


def _find_network_repeats(
    log: NetworkLog, positions: tuple[int, int], options: ReadSettings, scans: Scans, numbers: bool
) -> Repeats:
    after, upto = positions
    found = log.survey()
    if NETWORK_KEY not in scans:
        scans[NETWORK_KEY] = RepeatScan(Executions(numbers=numbers), 0) if found.start_position == 0 else None
    scan = scans[NETWORK_KEY]
    if scan is None:
        return UNKNOWN
    scan.forget(after)
    advance_network(scan, log, found, min(upto, found.end_position), options.partition_bytes)
    return scan.repeats()


def _plan_network(options: ReadSettings, log: NetworkLog, predicates: Predicates) -> list[NetworkRun]:
    found = log.survey()
    if options.start_position is not None:
        check_not_lost(options.start_position, found, log.lenient)
        _check_reached(options.start_position, found.end_position)
    after = max(predicates.position[0] - 1, 0)
    upto = min(found.end_position, predicates.position[1])
    if options.commit.isdigit():
        upto = min(upto, int(options.commit))
    unit = options.time_unit if options.time_unit is not None else find_time_unit(log, found)
    return plan_network(log, found, after, upto, unit or 0, options.partition_bytes, options.partitions)


def _check_start(options: ReadSettings, recordings: list[Recording]) -> None:
    position = options.start_position
    if position is None:
        return
    for recording in recordings:
        if position < recording.start and options.fail_on_data_loss:
            raise DataLossError(
                f"{recording.key}: position {position} was asked for, and the log begins at {recording.start}: what "
                f"was between was purged{ANYWAY}"
            )
    _check_reached(position, max((recording.limit for recording in recordings), default=position))


def _check_reached(position: int, end: int) -> None:
    """Raise PipelineError for a position to begin at that no log has reached: rows of none would look like no records.

    At the end there are none yet, as who goes on from there expects.
    """
    if position > end:
        raise PipelineError(
            f"position={position} is beyond the end of the log, which is position={end}: begin there or below"
        )
