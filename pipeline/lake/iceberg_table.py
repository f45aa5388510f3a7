"""An Iceberg table as the end of a feed: the position is a property of the snapshot that has the rows (pyiceberg).

Table and catalog are in one folder: the catalog is a SQLite file, and the table is `ordo.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.lake.tables import PARTITION_BY, POSITION, SMALL_FILE_BYTES, Progress, overtaken
from ordo.pipeline.sql.local import load_library

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

CATALOG, NAMESPACE, TABLE = "catalog.db", "ordo", "ordo.log"
POSITION_PROPERTY, CLUSTER_PROPERTY = "ordo.position", "ordo.cluster"
NO_RETRIES = {"commit.retry.num-retries": "0"}
"""pyiceberg commits once more, on top of what another writer has committed meanwhile, what a writer had meant for the
table as it was before. Rows would be there twice, so here a commit is tried once."""
PROPERTIES = {
    **NO_RETRIES,
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergLake:
    """A folder of this machine."""

    def __init__(self, folder: str) -> None:
        sql, self._errors = (
            load_library("pyiceberg.catalog.sql", "iceberg"),
            load_library("pyiceberg.exceptions", "iceberg"),
        )
        self._expressions = load_library("pyiceberg.expressions", "iceberg")
        self.name = folder
        self._columns: pa.Schema | None = None
        place = Path(folder).absolute()
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"cannot write to {folder}: {error.strerror}; give another folder") from error
        self._catalog = sql.SqlCatalog("lake", uri=f"sqlite:///{place / CATALOG}", warehouse=f"file://{place}")

    def table(self) -> Table | None:
        """Return the table as it is now; None where there is none yet."""
        try:
            found: Table = self._catalog.load_table(TABLE)
            return found
        except (self._errors.NoSuchTableError, self._errors.NoSuchNamespaceError):
            return None

    def _there(self) -> Table:
        """Return the table. Raises PipelineError where there is none."""
        found = self.table()
        if found is None:
            raise PipelineError(f"{self.name} has no table {TABLE}")
        return found

    def progress(self) -> Progress:
        there = self.table()
        return Progress() if there is None else self._progress_of(there)

    def _progress_of(self, there: Table) -> Progress:
        """Look for the newest snapshot of a feed below the current one: other programs may have made some since."""
        snapshot = there.current_snapshot()
        if snapshot is None:
            return Progress()
        while snapshot is not None:
            found = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if POSITION_PROPERTY in found:
                text = found.get(CLUSTER_PROPERTY)
                return Progress(int(found[POSITION_PROPERTY]), None if text is None else parse_identity(text))
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else there.snapshot_by_id(parent)
        raise PipelineError(f"{self.name}: no snapshot of {TABLE} says how far it has the log: begin a new table")

    def append(self, rows: pa.Table, known: Progress, end: int, origin: Origin | None) -> None:
        there = self.table() or self._make(rows.schema)
        if self._progress_of(there).position != known.position:
            raise overtaken(self.name, known)
        if any(there.properties.get(name) != value for name, value in NO_RETRIES.items()):
            with there.transaction() as change:
                change.set_properties(NO_RETRIES)
        if rows.schema != self._columns:  # those of a newer decoder are added
            with there.update_schema() as change:
                change.union_by_name(rows.schema)
            self._columns = rows.schema
        self._commit(known, lambda: there.append(rows, snapshot_properties=_properties(end, origin)))

    def _make(self, schema: pa.Schema) -> Table:
        """Make the table, by two commits at most: one that lacks its partitions has no rows yet."""
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        there: Table = self._catalog.create_table_if_not_exists(TABLE, schema=schema, properties=PROPERTIES)
        if not there.spec().fields:
            with there.update_spec() as change:
                for name in PARTITION_BY:
                    change.add_identity(name)
        return there

    def _commit(self, known: Progress, commit: Callable[[], object]) -> None:
        try:
            commit()
        except (self._errors.CommitFailedException, self._errors.ValidationError) as error:
            raise overtaken(self.name, known) from error

    def compact(self, keep: timedelta) -> tuple[int, int]:
        there = self.table()
        if there is None or there.current_snapshot() is None:
            return 0, 0
        known = self._progress_of(there)
        before = after = 0
        for low, high, count in list(self._small_runs(there)):
            wanted = self._between(low - 1, high)
            rows = there.scan(row_filter=wanted).to_arrow()
            properties = _properties(known.position, known.origin)
            merge = partial(there.overwrite, rows, overwrite_filter=wanted, snapshot_properties=properties)
            self._commit(known, merge)
            there = self._there()
            before, after = before + count, after + len(set(rows["day"].to_pylist()))
        self._forget(there, datetime.now(UTC) - keep)
        return before, after

    def _small_runs(self, there: Table) -> Iterator[tuple[int, int, int]]:
        """Yield the first and last position, and the number, of neighbouring files that are merged."""
        field = there.schema().find_field(POSITION).field_id
        files = sorted(
            (_integer(file.lower_bounds[field]), _integer(file.upper_bounds[field]), file.file_size_in_bytes)
            for file in (task.file for task in there.scan().plan_files())
        )
        run: list[tuple[int, int, int]] = []
        for file in [*files, (0, 0, SMALL_FILE_BYTES)]:
            if file[2] < SMALL_FILE_BYTES and sum(one[2] for one in run) < SMALL_FILE_BYTES:
                run.append(file)
                continue
            if len(run) > 2 * len(PARTITION_BY):
                yield run[0][0], max(one[1] for one in run), len(run)
            run = [file] if file[2] < SMALL_FILE_BYTES else []

    def _forget(self, there: Table, before: datetime) -> None:
        """Expire old snapshots, and delete the files that no other one names: pyiceberg leaves those where they are."""
        old = [one for one in there.snapshots() if one.timestamp_ms < before.timestamp() * 1000]
        if not old:
            return
        named = set(_files_of(there, there.snapshots()))
        there.maintenance.expire_snapshots().older_than(before.replace(tzinfo=None)).commit()
        there = self._there()
        for path in named - set(_files_of(there, there.snapshots())):
            with suppress(OSError):
                there.io.delete(path)

    def rows(self, after: int, end: int, columns: list[str]) -> pa.Table:
        found: pa.Table = (
            self._there().scan(row_filter=self._between(after, end), selected_fields=tuple(columns)).to_arrow()
        )
        return found

    def _between(self, after: int, end: int) -> BooleanExpression:
        make = self._expressions
        wanted: BooleanExpression = make.And(make.GreaterThan(POSITION, after), make.LessThanOrEqual(POSITION, end))
        return wanted


def _properties(end: int, origin: Origin | None) -> dict[str, str]:
    cluster = {} if origin is None else {CLUSTER_PROPERTY: identity_text(origin)}
    return {POSITION_PROPERTY: str(end), **cluster}


def _integer(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)


def _files_of(there: Table, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Yield the manifest lists, manifests and data files of snapshots."""
    seen: set[str] = set()
    for snapshot in snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(there.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(there.io))
