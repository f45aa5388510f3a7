"""Export: a log as Parquet, repeatedly, each time only the new part.

    <target>/node=node0/recording=0/from_position=0/day=2026-01-31/part-....parquet
    <target>/_ordo_export.json        how far each recording was exported, and which cluster's log it is

A chunk covers the positions from `from_position` to where the next one begins, and is written whole before the state
file says so. A run that was interrupted leaves a chunk the state file does not know; the next run writes it again over
the old one. So the same rows come out whatever happens between, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.chunks import Chunk, check_columns, checked_origin, chunks, up_to_what_is_written
from ordo.pipeline.export.target import open_target
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.recordings import open_recordings

STATE_NAME = "_ordo_export.json"
CHUNK_BYTES = 1 << 30
LAYOUT_COLUMNS = ("day", "from_position")
"""What an export adds to the columns of the log."""


def with_day(log: DataFrame) -> DataFrame:
    """Return the log with the day (UTC) of each record, by which Parquet files are laid out."""
    return log.withColumn("day", F.to_date("timestamp"))


def read_state(spark: SparkSession, target: str) -> dict[str, int]:
    """Position up to which each recording was exported."""
    return ExportState.parse(open_target(spark, target, STATE_NAME).read()).exported


@dataclass
class ExportState:
    """The content of the state file."""

    exported: dict[str, int]
    """Keyed by recording: the position up to which it was exported."""
    origin: Origin | None = None
    """Which cluster's log it is; None: no folder has said it."""

    @classmethod
    def parse(cls, text: str | None) -> ExportState:
        """Read the file of any release; None is that of a new export."""
        found = {} if text is None else json.loads(text)
        exported = {key: int(position) for key, position in found.get("exported", {}).items()}
        return cls(exported, parse_identity(found["cluster"]) if "cluster" in found else None)

    def text(self) -> str:
        """As the file has it."""
        identity = {} if self.origin is None else {"cluster": identity_text(self.origin)}
        return json.dumps({"exported": self.exported, **identity}, indent=2) + "\n"


def export(
    spark: SparkSession,
    directories: list[str],
    target: str,
    *,
    recording: str = "log",
    columns: str | None = None,
    decoder: str | None = None,
    commit: str = "auto",
    chunk_bytes: int = CHUNK_BYTES,
    transform: Callable[[DataFrame], DataFrame] = with_day,
    partition_by: tuple[str, ...] = ("day",),
    sort_by: tuple[str, ...] = (),
    storage: Mapping[str, object] | None = None,
    on_progress: Callable[[Chunk, int, int], None] = lambda chunk, done, total: None,
) -> dict[str, int]:
    """Write what is new below `target`, a folder or what Hadoop's file systems reach.

    Returns the position each recording is exported to. Raises OtherClusterError for the log of another cluster than
    what is there.

    `transform` is applied to each chunk before it is written; `partition_by` and `sort_by` name columns of its result.
    Rows are sorted within each file. `decoder` makes columns of payloads, as the option of the Spark source does; they
    have the schemas that the log had when their chunk was written. `storage` has the options of the file system of
    copies in object storage.
    `on_progress(chunk, done_bytes, total_bytes)` is called after each chunk.
    """
    file = open_target(spark, target, STATE_NAME)
    state = ExportState.parse(file.read())
    exported = state.exported
    recordings = up_to_what_is_written(open_recordings(directories, recording, commit, storage=storage), commit)
    before, state.origin = state.origin, checked_origin(recordings, exported, state.origin, target)
    pending = list(chunks(recordings, exported, chunk_bytes))
    if exported and state.origin != before:
        file.write(state.text())
    total = sum(chunk.end - chunk.start for chunk in pending)
    done = 0
    for chunk in pending:
        frame = transform(_read(spark, chunk, columns, decoder, commit, storage))
        check_columns(frame.columns, partition_by, sort_by)
        if sort_by:  # by what is partitioned first, as the files are written so
            frame = frame.sortWithinPartitions(*partition_by, *sort_by)
        frame.write.mode("overwrite").partitionBy(*partition_by).parquet(f"{target.rstrip('/')}/{chunk.path}")
        exported[chunk.recording.key] = chunk.end
        file.write(state.text())
        done += chunk.end - chunk.start
        on_progress(chunk, done, total)
    return exported


def _read(
    spark: SparkSession,
    chunk: Chunk,
    columns: str | None,
    decoder: str | None,
    commit: str,
    storage: Mapping[str, object] | None,
) -> DataFrame:
    """Return the rows of a chunk, without what its path says already."""
    reader = spark.read.format("ordo").option("commit", commit)
    if not is_network(chunk.recording.directory):
        reader = reader.option("recording", chunk.recording.recording_id)
    reader = reader.option("startPosition", chunk.start).option("endPosition", chunk.end)
    reader = reader.option("nodes", chunk.recording.node)
    if columns:
        reader = reader.option("columns", columns)
    if decoder:
        reader = reader.option("decoder", decoder)
    if storage is not None and chunk.recording.copied:
        reader = reader.option("storageOptions", json.dumps(storage))
    frame = reader.load(chunk.recording.directory)
    if taken := sorted(name for name in frame.columns if name.lower() in LAYOUT_COLUMNS):
        raise PipelineError(f"the messages {taken} are called like columns of the export: rename those in the decoder")
    return frame.drop("node", "recording")


def read_export(spark: SparkSession, target: str) -> DataFrame:
    """Return an export as one data frame; chunks that the state file does not vouch for are left out.

    Columns that came with a newer schema are null in the rows of chunks that were written before.
    """
    frame = spark.read.option("basePath", target).option("mergeSchema", True).parquet(target)
    known = [
        (F.col("node") == key.rpartition("/")[0])
        & (F.col("recording") == int(key.rpartition("/")[2]))
        & (F.col("from_position") < position)
        for key, position in read_state(spark, target).items()
    ]
    condition = F.lit(False)
    for part in known:
        condition = condition | part
    return frame.where(condition)
