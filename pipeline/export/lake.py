"""A log into a Delta table (delta-rs), again and again, each time only what is new; without Spark.

Each chunk is one commit, and the commit says up to which position of which recording the table goes (a transaction
identifier of Delta, `ordo:<node>/<recording>`), and the first one which cluster's log it is, as numbers of such
identifiers (`ordo.cluster:<part>`). So there is no state beside the table: whatever is interrupted, the rows are there
once, and of two exports at the same time one is refused. Payload columns that a newer schema brings are added to the
table; rows that were there before have null in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.errors import MissingLibraryError, PipelineError, own_error
from ordo.pipeline.decoding.payloads import PayloadDecoder, decode_batches, decoded_schema
from ordo.pipeline.export.chunks import Chunk, check_columns, checked_origin, chunks
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.sql.local import LocalLog, load_library, read_part

CLUSTER_PARTS = (*(f"ordo.cluster:{part}" for part in range(4)), "ordo.cluster:position")
_IDENTITY = struct.Struct(">4I")
CHUNK_BYTES = 128 << 20
"""Of the log; a commit is in memory, decoded and once more as Parquet, before its files are whole."""


@dataclass(frozen=True)
class LakeOptions:
    """How the table is laid out. `sort_by` sorts each chunk, so that files tell in their statistics what they lack."""

    columns: str | None = None
    decoder: PayloadDecoder | None = None
    partition_by: tuple[str, ...] = ("day",)
    sort_by: tuple[str, ...] = ()
    chunk_bytes: int = CHUNK_BYTES
    storage: dict[str, str] | None = None
    """Of the table's object store."""
    source_storage: Mapping[str, Any] | None = None
    """Of the file system of copies in object storage that are read."""


def export_delta(
    folders: list[str],
    table: str,
    options: LakeOptions,
    *,
    recording: str = "log",
    commit: str = "auto",
    on_progress: Callable[[Chunk, int, int], None] = lambda chunk, done, total: None,
) -> dict[str, int]:
    """Append what is new, and return the position up to which the table has each recording.

    Raises PipelineError when another export to the same table has come between; what that one wrote stands.
    OtherClusterError for the log of another cluster than that of the table.
    """
    delta = load_delta()
    recordings = open_recordings(folders, recording, commit, storage=options.source_storage)
    known = _positions(delta, table, [entry.key for entry in recordings], options)
    origin = checked_origin(recordings, known, _read_origin(_find(delta, table, options.storage)), table)
    pending = list(chunks(recordings, known, options.chunk_bytes))
    total, done = sum(chunk.end - chunk.start for chunk in pending), 0
    scans: Scans = {}
    for chunk in pending:
        _append(delta, table, chunk, options, commit, scans, origin)
        known[chunk.recording.key] = chunk.end
        done += chunk.end - chunk.start
        on_progress(chunk, done, total)
    return known


def load_delta() -> Any:
    """Import the library. Raises PipelineError that says how to get it."""
    try:
        return load_library("deltalake")
    except PipelineError as error:
        raise MissingLibraryError("deltalake is not installed; run: pip install 'ordo-sequencer[delta]'") from error


def _positions(delta: Any, table: str, keys: Iterable[str], options: LakeOptions) -> dict[str, int]:
    there = _find(delta, table, options.storage)
    if there is None:
        return {}
    parted = there.metadata().partition_columns
    if tuple(parted) != options.partition_by:
        raise PipelineError(f"{table} is partitioned by {','.join(parted) or 'nothing'}: say --partition-by so again")
    found = {key: there.transaction_version(_application(key)) for key in keys}
    return {key: position for key, position in found.items() if position is not None}


def _read_origin(there: Any) -> Origin | None:
    """Return which cluster's log a table has, as its commits say; None: those of an earlier release do not."""
    numbers = [None if there is None else there.transaction_version(name) for name in CLUSTER_PARTS]
    found = [number for number in numbers if number is not None]
    return Origin(_IDENTITY.pack(*found[:-1]), found[-1]) if len(found) == len(numbers) else None


def _transactions(delta: Any, there: Any, chunk: Chunk, origin: Origin | None) -> list[Any]:
    """Return what a chunk's commit says of the table from then on."""
    found = [delta.Transaction(_application(chunk.recording.key), chunk.end)]
    if origin is not None and origin != _read_origin(there):
        numbers = (*_IDENTITY.unpack(origin.identity), origin.position)
        found += [delta.Transaction(name, number) for name, number in zip(CLUSTER_PARTS, numbers, strict=True)]
    return found


def _find(delta: Any, table: str, storage: dict[str, str] | None) -> Any:
    """Return the table as it is now; None where there is none."""
    is_there = delta.DeltaTable.is_deltatable(table, storage)
    return delta.DeltaTable(table, storage_options=storage) if is_there else None


def _application(key: str) -> str:
    return f"ordo:{key}"


def _append(
    delta: Any,
    table: str,
    chunk: Chunk,
    options: LakeOptions,
    commit: str,
    scans: Scans,
    origin: Origin | None,
) -> None:
    application = _application(chunk.recording.key)
    there = _find(delta, table, options.storage)
    properties = delta.CommitProperties(app_transactions=_transactions(delta, there, chunk, origin))
    if there is not None and (there.transaction_version(application) or chunk.recording.start) != chunk.start:
        raise _overtaken(table, chunk)
    how = {"mode": "error"} if there is None else {"mode": "append", "schema_mode": "merge"}
    try:
        delta.write_deltalake(
            table if there is None else there, _rows(chunk, options, commit, scans), **how,
            partition_by=list(options.partition_by) or None,
            storage_options=options.storage, commit_properties=properties,
        )  # fmt: skip
    except delta.exceptions.CommitFailedError as error:
        raise _overtaken(table, chunk) from error
    except delta.exceptions.DeltaError as error:
        raise own_error(error) or PipelineError(f"{table}: {str(error).splitlines()[0]}") from error


def _overtaken(table: str, chunk: Chunk) -> PipelineError:
    return PipelineError(
        f"{table}: another export of {chunk.recording.key} wrote at the same time; this one stopped and wrote nothing "
        f"behind position {chunk.start}. Run one export to a table at a time"
    )


def _rows(chunk: Chunk, options: LakeOptions, commit: str, scans: Scans) -> pa.RecordBatchReader:
    """Return the rows of a chunk, read as they are asked for; all at once where they are to be sorted."""
    entry = chunk.recording
    log = read_part(
        entry.directory, scans, recording=entry.recording_id, commit=commit, nodes=entry.node, columns=options.columns,
        start_position=chunk.start, end_position=chunk.end,
        storage_options=options.source_storage if entry.copied else None,
    )  # fmt: skip
    schema = table_schema(log.schema, options.decoder)
    check_columns(schema.names, options.partition_by, options.sort_by)
    batches = _with_day(log, schema, options.decoder)
    if not options.sort_by:
        return pa.RecordBatchReader.from_batches(schema, batches)
    table = pa.Table.from_batches(batches, schema)
    order = [(name, "ascending") for name in options.sort_by]
    return table.sort_by(order).to_reader(max_chunksize=65_536)


def table_schema(log: pa.Schema, decoder: PayloadDecoder | None) -> pa.Schema:
    """Columns of the table: those of the log, `day`, and those of the decoder."""
    if "timestamp" not in log.names:
        raise PipelineError("columns: timestamp has to be among them, which gives the column day")
    dated = log.append(pa.field("day", pa.date32()))
    return dated if decoder is None else decoded_schema(dated, decoder)


def _with_day(log: LocalLog, schema: pa.Schema, decoder: PayloadDecoder | None) -> Iterator[pa.RecordBatch]:
    dated = pa.schema(list(schema)[: len(log.schema) + 1])
    batches = (
        pa.RecordBatch.from_arrays([*batch.columns, pc.cast(batch["timestamp"], pa.date32())], schema=dated)
        for batch in log.batches()
    )
    return batches if decoder is None else decode_batches(decoder, "payload", schema, batches)


def compact(table: str, sort_by: tuple[str, ...] = (), storage: dict[str, str] | None = None) -> tuple[int, int]:
    """Make few large files of many small ones, ordered by `sort_by` (Z-order); how many files became how many.

    The rows stay the same, and so does how far the table goes. The old files stay until they are vacuumed.
    """
    delta = load_delta()
    there = _find(delta, table, storage)
    if there is None:
        raise PipelineError(f"{table} is no Delta table")
    check_columns([field.name for field in there.schema().fields], sort_by)
    optimizer = there.optimize
    done = optimizer.z_order(list(sort_by)) if sort_by else optimizer.compact()
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])
