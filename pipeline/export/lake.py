"""A log into a Delta table (delta-rs), repeatedly, each time only the new part; without Spark.

Each chunk is one commit, and the commit says up to which position of which recording the table goes (a transaction
identifier of Delta, `ordo:<node>/<recording>`), and the first one which cluster's log it is, as numbers of such
identifiers (`ordo.cluster:<part>`). So there is no state beside the table: whatever is interrupted, the rows are there
once, and of two exports at the same time one is refused. Payload columns that a newer schema brings are added to the
table; rows that were there before have null in them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.errors import PipelineError, own_error
from ordo.pipeline.decoding.payloads import PayloadDecoder, decode_batches, decoded_schema
from ordo.pipeline.export.chunks import Chunk, check_columns, checked_origin, chunks, up_to_what_is_written
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.schemas.log_schemas import ready
from ordo.pipeline.sql.local import load_library, read_part
from ordo.runtime.settings.kinds import check_counts, check_kinds

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

CLUSTER_PARTS = (*(f"ordo.cluster:{part}" for part in range(4)), "ordo.cluster:position")
_IDENTITY = struct.Struct(">4I")
LAKE_POSITION = "ordo.lake:position"
"""Identifier in a table that `ordo lake run` feeds: up to where it has the log."""
CHUNK_BYTES = 128 << 20
"""Bytes of the log per commit; a commit is in memory, decoded and again as Parquet, before its files are complete."""
HISTORY_MAX = 100
"""Commits that are looked at for one that has set the table back."""


@dataclass(frozen=True)
class LakeSettings:
    """How the table is laid out. `sort_by` sorts each chunk, so that files tell in their statistics what they lack."""

    columns: str | None = None
    decoder: PayloadDecoder | None = None
    partition_by: tuple[str, ...] = ("day",)
    sort_by: tuple[str, ...] = ()
    chunk_bytes: int = CHUNK_BYTES
    storage: dict[str, str] | None = None
    """Options of the table's object store."""
    source_storage: Mapping[str, object] | None = None
    """Options of the file system of copies in object storage that are read."""

    def __post_init__(self) -> None:
        check_kinds(self)
        check_counts(self, "chunk_bytes")


def export_delta(
    folders: list[str],
    table: str,
    settings: LakeSettings,
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
    recordings = open_recordings(folders, recording, commit, storage=settings.source_storage)
    settings = replace(settings, decoder=_ready(folders, recording, commit, settings))
    recordings = up_to_what_is_written(recordings, commit)
    known = _positions(delta, table, [entry.key for entry in recordings], settings)
    origin = checked_origin(recordings, known, read_origin(find_table(delta, table, settings.storage)), table)
    pending = list(chunks(recordings, known, settings.chunk_bytes))
    total, done = sum(chunk.end - chunk.start for chunk in pending), 0
    scans: Scans = {}
    for chunk in pending:
        _append(delta, table, chunk, settings, commit, scans, origin)
        known[chunk.recording.key] = chunk.end
        done += chunk.end - chunk.start
        on_progress(chunk, done, total)
    return known


def _ready(folders: list[str], recording: str, commit: str, settings: LakeSettings) -> PayloadDecoder | None:
    """Return the decoder, with the schemas of the log where it goes by these. Raises PipelineError."""
    given = {"paths": json.dumps(folders), "recording": recording, "commit": commit}
    if settings.source_storage:
        given["storageoptions"] = json.dumps(settings.source_storage)
    return ready(settings.decoder, ReadSettings.parse(given)) if settings.decoder is not None else None


def load_delta() -> Any:
    """Import the library. Raises PipelineError that says how to install it."""
    return load_library("deltalake", "delta")


def _positions(delta: Any, table: str, keys: Iterable[str], settings: LakeSettings) -> dict[str, int]:
    there = find_table(delta, table, settings.storage)
    if there is None:
        return {}
    if there.transaction_version(LAKE_POSITION) is not None:
        raise PipelineError(f"{table} is fed by `ordo lake run`: an export needs a table of its own")
    check_not_restored(there, table)
    parted = there.metadata().partition_columns
    if tuple(parted) != settings.partition_by:
        raise PipelineError(f"{table} is partitioned by {','.join(parted) or 'nothing'}: say --partition-by so again")
    found = {key: there.transaction_version(_application(key)) for key in keys}
    return {key: position for key, position in found.items() if position is not None}


def read_origin(there: Any) -> Origin | None:
    """Return which cluster's log a table has, as its commits say; None: those of an earlier release do not."""
    numbers = [None if there is None else there.transaction_version(name) for name in CLUSTER_PARTS]
    found = [number for number in numbers if number is not None]
    return Origin(_IDENTITY.pack(*found[:-1]), found[-1]) if len(found) == len(numbers) else None


def transactions(delta: Any, there: Any, application: str, end: int, origin: Origin | None) -> list[Any]:
    """Return what a commit says of the table from then on: it goes up to `end`, and which cluster's log it has."""
    found = [delta.Transaction(application, end)]
    if origin is not None and origin != read_origin(there):
        numbers = (*_IDENTITY.unpack(origin.identity), origin.position)
        found += [delta.Transaction(name, number) for name, number in zip(CLUSTER_PARTS, numbers, strict=True)]
    return found


def find_table(delta: Any, table: str, storage: dict[str, str] | None) -> Any:
    """Return the table as it is now; None where there is none."""
    is_there = delta.DeltaTable.is_deltatable(table, storage)
    return delta.DeltaTable(table, storage_options=storage) if is_there else None


def _application(key: str) -> str:
    return f"ordo:{key}"


def _append(
    delta: Any,
    table: str,
    chunk: Chunk,
    settings: LakeSettings,
    commit: str,
    scans: Scans,
    origin: Origin | None,
) -> None:
    application = _application(chunk.recording.key)
    there = find_table(delta, table, settings.storage)
    properties = delta.CommitProperties(app_transactions=transactions(delta, there, application, chunk.end, origin))
    if there is not None and (there.transaction_version(application) or chunk.recording.start) != chunk.start:
        raise _overtaken(table, chunk)
    write_commit(
        delta, table, there, _rows(chunk, settings, commit, scans), settings, properties, _overtaken(table, chunk)
    )


def write_commit(
    delta: ModuleType,
    table: str,
    there: DeltaTable | None,
    rows: pa.RecordBatchReader | pa.Table,
    settings: LakeSettings,
    properties: CommitProperties,
    overtaken: PipelineError,
) -> None:
    """Append rows to the table `there`, or make it where that is None, in one commit with these properties.

    Raises `overtaken` when another writer has come between, PipelineError for what delta-rs refuses.
    """
    how: dict[str, str] = {"mode": "error"} if there is None else {"mode": "append", "schema_mode": "merge"}
    try:
        delta.write_deltalake(
            table if there is None else there, rows, **how, partition_by=list(settings.partition_by) or None,
            storage_options=settings.storage, commit_properties=properties,
        )  # fmt: skip
    except delta.exceptions.CommitFailedError as error:
        raise overtaken from error
    except delta.exceptions.DeltaError as error:
        raise own_error(error) or PipelineError(f"{table}: {str(error).splitlines()[0]}") from error


def check_not_restored(there: DeltaTable, table: str) -> None:
    """Raise PipelineError where the table was set back to an earlier version after it was last written.

    Delta sets back the rows and not the transaction identifiers, which say up to where the table goes.
    """
    for entry in there.history(HISTORY_MAX):
        if entry.get("operation") == "RESTORE":
            raise PipelineError(
                f"{table} was restored to an earlier version, and says nothing of which rows it has since: begin a "
                f"new table"
            )
        if entry.get("operation") == "WRITE":
            return


def _overtaken(table: str, chunk: Chunk) -> PipelineError:
    return PipelineError(
        f"{table}: another export of {chunk.recording.key} wrote at the same time; this one stopped and wrote nothing "
        f"behind position {chunk.start}. Run one export to a table at a time"
    )


def _rows(chunk: Chunk, settings: LakeSettings, commit: str, scans: Scans) -> pa.RecordBatchReader:
    """Return the rows of a chunk, read as they are asked for; all at once where they are to be sorted."""
    entry = chunk.recording
    log = read_part(
        entry.directory, scans, commit=commit, recording=None if is_network(entry.directory) else entry.recording_id,
        nodes=entry.node, columns=settings.columns,
        start_position=chunk.start, end_position=chunk.end,
        storage_options=settings.source_storage if entry.copied else None,
    )  # fmt: skip
    schema = table_schema(log.schema, settings.decoder)
    check_columns(schema.names, settings.partition_by, settings.sort_by)
    batches = with_day(log.batches(), schema, settings.decoder)
    if not settings.sort_by:
        return pa.RecordBatchReader.from_batches(schema, batches)
    table = pa.Table.from_batches(batches, schema)
    order = [(name, "ascending") for name in settings.sort_by]
    return table.sort_by(order).to_reader(max_chunksize=65_536)


def table_schema(log: pa.Schema, decoder: PayloadDecoder | None) -> pa.Schema:
    """Columns of the table: those of the log, `day`, and those of the decoder."""
    if "timestamp" not in log.names:
        raise PipelineError("columns: timestamp has to be among them, which gives the column day")
    dated = log.append(pa.field("day", pa.date32()))
    return dated if decoder is None else decoded_schema(dated, decoder)


def with_day(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, decoder: PayloadDecoder | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a log as `table_schema` has them."""
    dated = (
        pa.RecordBatch.from_arrays(
            [*batch.columns, pc.cast(batch["timestamp"], pa.date32())],
            schema=pa.schema(list(schema)[: batch.num_columns + 1]),
        )
        for batch in batches
    )
    return dated if decoder is None else decode_batches(decoder, "payload", schema, dated)


def compact(table: str, sort_by: tuple[str, ...] = (), storage: dict[str, str] | None = None) -> tuple[int, int]:
    """Make few large files of many small ones, ordered by `sort_by` (Z-order); how many files became how many.

    The rows stay the same, and so does how far the table goes. The old files stay until they are vacuumed.
    """
    delta = load_delta()
    there = find_table(delta, table, storage)
    if there is None:
        raise PipelineError(f"{table} is no Delta table")
    check_columns([field.name for field in there.schema().fields], sort_by)
    optimizer = there.optimize
    done = optimizer.z_order(list(sort_by)) if sort_by else optimizer.compact()
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])
