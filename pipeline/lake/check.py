"""Whether a table has each executed record of the log, once and as it is: the first that it has not, by position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from ordo.pipeline.decoding.batches import IS_REPEAT
from ordo.pipeline.lake.feed import executed
from ordo.pipeline.lake.tables import POSITION, LakeTable
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.reading import Scans
from ordo.pipeline.recordings.recordings import Recording
from ordo.pipeline.sql.local import read_part

CHUNK_BYTES = 64 << 20
COMPARED = [POSITION, "kind", "session_id", "correlation_id", "cluster_time", "payload"]


@dataclass(frozen=True)
class Checked:
    """What was found of a table: `problem` is empty where it is complete up to `position`."""

    position: int
    records: int
    problem: str = ""


def check_table(
    log: Recording, table: LakeTable, commit: str = "auto", on_progress: Callable[[int], object] = lambda position: None
) -> Checked:
    """Compare a table with the log, stretch by stretch, up to where the table says that it goes."""
    known = table.progress().position
    after, records, scans = log.start, 0, Scans()
    while after < min(known, log.limit):
        end = min(after + CHUNK_BYTES, known, log.limit)
        expected, found = _of_log(log, after, end, commit, scans), table.rows(after, end, COMPARED).sort_by(POSITION)
        problem = first_problem(expected, found.select(COMPARED))
        records += expected.num_rows
        if problem:
            return Checked(known, records, problem)
        on_progress(end)
        after = end
    if table.rows(known, 1 << 62, [POSITION]).num_rows:
        return Checked(known, records, f"rows after position {known}, where the table says that it ends")
    if known > log.limit:
        return Checked(known, records, f"the table goes to position {known}, and the log to {log.limit}")
    return Checked(known, records)


def _of_log(log: Recording, after: int, end: int, commit: str, scans: Scans) -> pa.Table:
    part = read_part(
        log.directory, scans, commit=commit, nodes=log.node,
        recording=None if is_network(log.directory) else log.recording_id,
        start_position=after, end_position=end, columns=[*COMPARED, IS_REPEAT],
    )  # fmt: skip
    rows = pa.Table.from_batches(part.batches(), part.schema)
    return executed(rows).select(COMPARED)


def first_problem(expected: pa.Table, found: pa.Table) -> str:
    """Return what is wrong with the first record that is missing, doubled, changed or not of the log; or nothing."""
    wanted, there = expected[POSITION].to_numpy(), found[POSITION].to_numpy()
    count = min(len(wanted), len(there))
    differing = (wanted[:count] != there[:count]).nonzero()[0]
    place = int(differing[0]) if len(differing) else count
    changed = _first_changed(expected.slice(0, place), found.slice(0, place))
    if changed:
        return changed
    if place == len(wanted) == len(there):
        return ""
    if place < len(there) and place and there[place] == there[place - 1]:
        return f"the record at position {there[place]} is there twice"
    if place < len(wanted) and (place == len(there) or wanted[place] < there[place]):
        return f"the record at position {wanted[place]} is missing"
    return f"the record at position {there[place]} is not of the log"


def _first_changed(expected: pa.Table, found: pa.Table) -> str:
    for name in expected.column_names:
        left, right = expected[name], found[name].cast(expected.schema.field(name).type)
        if not left.equals(right):
            pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
            place = next(index for index, (one, other) in enumerate(pairs) if one != other)
            return f"the record at position {expected[POSITION][place]} has another {name}"
    return ""
