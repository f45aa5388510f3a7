"""The feed of a lake: a log into tables, as it grows, each executed record once.

Each commit has the rows of a stretch of the log and the position where the stretch ends. A feed that is started goes on
at the position that the table itself names, so nothing that dies between two steps loses a record or doubles one.
Tables that do not end at the same position, since a feed died between their commits, each get what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ordo.cluster.wire.log_identity import Origin
from ordo.pipeline.decoding.batches import IS_REPEAT
from ordo.pipeline.decoding.errors import DataLossError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.decoding.payloads import PayloadDecoder
from ordo.pipeline.export.chunks import checked_origin
from ordo.pipeline.export.lake import table_schema, with_day
from ordo.pipeline.lake.tables import COMPACT_EVERY, POSITION, LakeTable, Progress
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import Recording, open_recordings
from ordo.pipeline.schemas.log_schemas import SCHEMA_KIND, find_schemas, schemas_in
from ordo.pipeline.sql.local import read_part
from ordo.runtime.settings.kinds import check_counts, check_kinds
from ordo.service_api.messages.logged import LoggedSchema

CHUNK_BYTES = 16 << 20
KEEP = timedelta(days=7)


@dataclass(frozen=True)
class FeedSettings:
    """What a feed reads, and how it keeps its tables."""

    decoder: PayloadDecoder | None = None
    commit: str = "auto"
    chunk_bytes: int = CHUNK_BYTES
    """Bytes of the log in one commit, at most; its rows are in memory."""
    compact_every: int = COMPACT_EVERY
    """Commits after which small files are merged."""
    keep: timedelta = KEEP
    """How long versions of a table are kept."""

    def __post_init__(self) -> None:
        check_kinds(self)
        check_counts(self, "chunk_bytes", "compact_every")


def executed(rows: pa.Table) -> pa.Table:
    """Return the rows without copies of requests, as far as it is known which those are."""
    return rows.filter(pc.invert(pc.fill_null(rows[IS_REPEAT], False)))


class Feed:
    """Feeds tables from one log; belongs to one thread."""

    def __init__(
        self,
        source: str,
        tables: Sequence[LakeTable],
        settings: FeedSettings,
        on_step: Callable[[str], object] = lambda step: None,
    ) -> None:
        """`source`: an archive folder, a copy of one, or a cluster's addresses (`ordo://...`).

        `on_step` hears what comes next: in tests the feed dies there.
        """
        self._source = source
        self._tables = tables
        self._settings = settings
        self._on_step = on_step
        self._scans: Scans = {}
        self._logged: tuple[LoggedSchema, ...] | None = None
        self._commits = {table.name: 0 for table in tables}

    def open_log(self) -> Recording:
        """Return the log as far as it may be read now. Raises PipelineError, also while no node answers."""
        (*_, log) = open_recordings([self._source], "log", self._settings.commit)
        return log

    def run_to(self, log: Recording) -> None:
        """Bring the tables up to the limit of `log`, by one `step` after another."""
        while self.step(log):
            pass

    def step(self, log: Recording) -> bool:
        """Feed the next stretch of the log to those tables that lack it; return whether there was any.

        Raises DataLossError where a table ends before the log begins, OtherClusterError for the log of another cluster
        than a table's, and PipelineError when another feed writes to a table.
        """
        known = {table.name: table.progress() for table in self._tables}
        origins = {name: self._origin(log, name, found) for name, found in known.items()}
        starts = {name: self._start(log, name, found) for name, found in known.items()}
        after = min(starts.values())
        later = [start for start in starts.values() if start > after]
        end = min([log.limit, after + self._settings.chunk_bytes, *later])
        if end <= after:
            return False
        self._on_step(f"read from {after} to {end}")
        rows, last = self._rows(log, after, end)
        if end == log.limit and not log.exact:  # what lies between is not written yet
            end = last
        if end <= after:
            return False
        for table in self._tables:
            if starts[table.name] == after:
                self._on_step(f"write {table.name}")
                table.append(rows, known[table.name], end, origins[table.name])
                self._on_step(f"written {table.name}")
                self._keep_up(table)
        return True

    def describe(self) -> str:
        """Return in a line how far the tables are."""
        return ", ".join(f"{table.name}: to position {table.progress().position}" for table in self._tables)

    def _origin(self, log: Recording, name: str, found: Progress) -> Origin | None:
        return checked_origin([log], {log.key: max(found.position, 0)}, found.origin, name)

    @staticmethod
    def _start(log: Recording, name: str, found: Progress) -> int:
        if found.position < 0:
            return log.start
        if found.position < log.start:
            raise DataLossError(
                f"{name} ends at position {found.position}, and the log begins at {log.start}: what was between was "
                f"purged before it was fed; begin a new table to go on with what is there"
            )
        return found.position

    def _rows(self, log: Recording, after: int, end: int) -> tuple[pa.Table, int]:
        """Return what was executed of (after, end], and the last position that a record ends at; -1: there is none."""
        settings = self._settings
        try:
            part = read_part(
                log.directory, self._scans, commit=settings.commit, nodes=log.node,
                recording=None if is_network(log.directory) else log.recording_id,
                start_position=after, end_position=end,
            )  # fmt: skip
            logged = pa.Table.from_batches(part.batches(), part.schema)
            decoder = self._decoder_of(log, logged)
            schema = table_schema(part.schema, decoder)
            read = pa.Table.from_batches(with_day(logged.to_batches(), schema, decoder), schema)
        except BaseException:
            self._scans.clear()  # it may have gone only a part of its way
            raise
        last = pc.max(read[POSITION]).as_py()
        return executed(read), -1 if last is None else last

    def _decoder_of(self, log: Recording, rows: pa.Table) -> PayloadDecoder | None:
        """Return what decodes these rows; where that goes by the log, by the schemas that it has got so far."""
        if not isinstance(self._settings.decoder, LogDecoder):
            return self._settings.decoder
        if self._logged is None:
            self._logged = find_schemas(ReadSettings.parse({"path": log.directory, "commit": self._settings.commit}))
        coming = schemas_in(rows.filter(pc.equal(rows["kind"], SCHEMA_KIND)))
        self._logged = tuple(dict.fromkeys((*self._logged, *coming)))
        return LogDecoder(self._logged)

    def _keep_up(self, table: LakeTable) -> None:
        self._commits[table.name] += 1
        if self._commits[table.name] % self._settings.compact_every == 0:
            self._on_step(f"compact {table.name}")
            table.compact(self._settings.keep)
            self._on_step(f"compacted {table.name}")
