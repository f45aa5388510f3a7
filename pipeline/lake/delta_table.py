"""A Delta table as the end of a feed: the position is a transaction identifier of the commit (delta-rs)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.lake import (
    LAKE_POSITION,
    LakeSettings,
    check_not_restored,
    find_table,
    load_delta,
    read_origin,
    transactions,
    write_commit,
)
from ordo.pipeline.lake.tables import PARTITION_BY, POSITION, SMALL_FILE_BYTES, Progress, overtaken

if TYPE_CHECKING:
    from deltalake import DeltaTable


class DeltaLake:
    """A folder, or what delta-rs reaches, such as s3://bucket/table; `storage` are delta-rs's options of that."""

    def __init__(self, name: str, storage: dict[str, str] | None = None) -> None:
        self.name = name
        self._delta = load_delta()
        self._settings = LakeSettings(partition_by=PARTITION_BY, storage=storage or None)

    def _find(self) -> DeltaTable | None:
        found: DeltaTable | None = find_table(self._delta, self.name, self._settings.storage)
        return found

    def _there(self) -> DeltaTable:
        """Return the table. Raises PipelineError where there is none."""
        found = self._find()
        if found is None:
            raise PipelineError(f"{self.name} is no Delta table")
        return found

    def progress(self) -> Progress:
        there = self._find()
        if there is None:
            return Progress()
        position = there.transaction_version(LAKE_POSITION)
        if position is None:
            raise PipelineError(f"{self.name} is a table that `ordo lake run` has not made: give a place of its own")
        check_not_restored(there, self.name)
        return Progress(position, read_origin(there))

    def append(self, rows: pa.Table, known: Progress, end: int, origin: Origin | None) -> None:
        there = self._find()
        position = None if there is None else there.transaction_version(LAKE_POSITION)
        if (-1 if position is None else position) != known.position:
            raise overtaken(self.name, known)
        made = transactions(self._delta, there, LAKE_POSITION, end, origin)
        properties = self._delta.CommitProperties(app_transactions=made)
        write_commit(self._delta, self.name, there, rows, self._settings, properties, overtaken(self.name, known))

    def compact(self, keep: timedelta) -> tuple[int, int]:
        there = self._find()
        if there is None:
            return 0, 0
        done = there.optimize.compact(target_size=SMALL_FILE_BYTES)
        there = self._there()
        there.create_checkpoint()
        hours = int(keep.total_seconds() // 3600)
        there.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def rows(self, after: int, end: int, columns: list[str]) -> pa.Table:
        there = self._there()
        wanted = (ds.field(POSITION) > after) & (ds.field(POSITION) <= end)
        found: pa.Table = there.to_pyarrow_dataset().to_table(columns=columns, filter=wanted)
        return found
