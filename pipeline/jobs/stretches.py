"""Divides a log for replay: at the service snapshots, so that each stretch between two of them is a task of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.recordings.member_store import SnapshotOwner
from ordo.pipeline.recordings.planner import Run, read_runs, whole_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recorded_feeds import feed_runs
from ordo.pipeline.recordings.recordings import Recording, open_recordings, with_owners
from ordo.pipeline.recordings.time_unit import time_unit_of
from ordo.pipeline.replaying.replay_cluster import SnapshotState, decode_snapshot, iterate, snapshot_position
from ordo.pipeline.replaying.skips import find_skips
from ordo.pipeline.replaying.version_events import refuse_version_event
from ordo.pipeline.spark.tasks import collect_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_SNAPSHOT = "snapshot"
COLUMNS = ("kind", "position", "cluster_time", "session_id", "correlation_id", "payload", "timestamp", "arrival_ns")
_HEAD_ROWS = 64


@dataclass(frozen=True)
class Stretch:
    """Records that end in (start, end]; from the snapshot at `start` (None: from the beginning) to that at `end`."""

    start: int
    end: int
    before: tuple[Run, ...] | None
    after: tuple[Run, ...] | None
    log: tuple[Run, ...]
    time_unit: int
    skips: dict[int, str] = field(default_factory=dict)
    """Records that are left out, by position."""
    feeds: dict[str, tuple[Run, ...]] = field(default_factory=dict)
    """The recordings of what was published, by topic."""
    service_id: int | None = None
    """The service to run, if there are several; None: not given."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield records in the order of the log.

        Raises VersionChangesError if the service was upgraded before the end.
        """
        predicates = Predicates().narrowed("position", self.start + 1, self.end)
        for record in iterate(read_runs(self.log, predicates, COLUMNS, 8192, True)):
            is_executed = record["kind"] == "version" and record["position"] not in self.skips
            if is_executed and record["position"] < self.end:
                refuse_version_event(bytes(record["payload"]), record["position"], self.service_id)
            yield record


def read_snapshot(runs: tuple[Run, ...]) -> SnapshotState:
    """Return the state in a snapshot recording. Raises PipelineError when it is none, or is damaged."""
    rows = iterate(read_runs(runs, Predicates(), ("payload",), 1024, True))
    return decode_snapshot(row["payload"] for row in rows)


@dataclass(frozen=True)
class Snapshots:
    """Service snapshots of a node by log position; `unreadable` says which recordings were passed over, and why."""

    by_position: dict[int, tuple[Run, ...]]
    unreadable: tuple[str, ...]


def snapshots(recordings: list[Recording], service_id: int = 0) -> Snapshots:
    """Return one service's snapshots, without evidence. Reads only their heads; the tasks read the rest."""
    known: dict[int, tuple[Run, ...]] = {}
    strays: dict[int, dict[int, tuple[Run, ...]]] = defaultdict(dict)
    unreadable = []
    for recording in recordings:
        is_other = recording.owner not in (None, SnapshotOwner(service_id))
        if not recording.is_service_snapshot or is_other or recording.limit <= recording.start:
            continue
        runs = whole_runs(recording, recording.start, recording.limit, 0, recording.exact)
        rows = iterate(read_runs(runs, Predicates(), ("payload",), _HEAD_ROWS, True))
        try:
            position = snapshot_position(row["payload"] for row in islice(rows, 1))
        except PipelineError as error:
            unreadable.append(f"recording {recording.recording_id}: {error}")
            continue
        if recording.owner is None:
            strays[position][recording.recording_id] = runs
        else:
            known[position] = runs
    for position, found in strays.items():
        if len(found) == 1:
            known.setdefault(position, *found.values())
        elif position not in known:
            unreadable.append(_of_unknown_services(position, list(found)))
    return Snapshots(known, tuple(unreadable))


def _of_unknown_services(position: int, recording_ids: list[int]) -> str:
    listed = ", ".join(map(str, recording_ids))
    return (
        f"recordings {listed}: snapshots at position {position}, and nothing says of which service each is; give the "
        f"archive where its node has it, beside the folder `cluster`, or a copy of that"
    )


@dataclass(frozen=True)
class Cut:
    """A log as stretches, in order, and which snapshots could not be used."""

    stretches: tuple[Stretch, ...]
    unreadable_snapshots: tuple[str, ...]


def cut_log(
    directory: str,
    commit: str = "auto",
    end: str | None = None,
    spark: SparkSession | None = None,
    storage: Mapping[str, object] | None = None,
    service_id: int | None = None,
) -> Cut:
    """How a node's log is cut, up to `end`: a position, `snapshot` for the last one, or None for all that may be read.

    `service_id`: of several services the one that is run over it.

    With `spark`, its tasks look for what is left out, which is all over the log.
    Raises PipelineError when nothing tells the state at the log's beginning.
    """
    recordings = with_owners(open_recordings([directory], "all", commit, storage=storage))
    logs = [entry for entry in recordings if entry.is_log]
    if not logs:
        raise PipelineError(f"no recording of the log in {directory}; nothing to replay")
    log = logs[-1]
    read = snapshots(recordings, service_id or 0)
    known = {position: runs for position, runs in read.by_position.items() if log.start <= position <= log.limit}
    limit = _limit(log, known, end)
    cuts = _cuts(directory, log, known, limit)
    unit = time_unit_of(log)
    parts = []
    for begin, until in pairwise(cuts):
        exact = until in known or (log.exact and until == log.limit)
        log_runs = whole_runs(log, begin, until, unit, exact)
        parts.append(Stretch(begin, until, known.get(begin), known.get(until), log_runs, unit))
    feeds = feed_runs(recordings)
    skips: dict[int, str] = {}
    for found in collect_tasks(spark, [part.log for part in parts], _find_skips):
        for position, text in found:
            skips.setdefault(position, text)
    completed = (replace(one, skips=_between(skips, one), feeds=feeds, service_id=service_id) for one in parts)
    return Cut(tuple(completed), read.unreadable)


def _find_skips(runs: tuple[Run, ...]) -> list[tuple[int, str]]:
    """(position, text). Up to the first damage, which the reader of the stretch finds and reports, too."""
    found: dict[int, str] = {}
    records = iterate(read_runs(runs, Predicates(kind=frozenset({"skip"})), ("payload",), 1024, True))
    try:
        for record in records:
            for position, text in find_skips([record]).items():
                found.setdefault(position, text)
    except CorruptRecordingError:
        pass
    return list(found.items())


def _between(skips: dict[int, str], part: Stretch) -> dict[int, str]:
    return {position: text for position, text in skips.items() if part.start < position <= part.end}


def _limit(log: Recording, known: dict[int, tuple[Run, ...]], end: str | None) -> int:
    if end is None:
        return log.limit
    if end == LAST_SNAPSHOT:
        if not known:
            raise PipelineError(f"end={end}: no service snapshot of this log is in {log.directory}; give a position")
        return max(known)
    if not end.isdigit() or not log.start < int(end) <= log.limit:
        raise PipelineError(f"end={end!r}: must be {LAST_SNAPSHOT}, or a position above {log.start}, up to {log.limit}")
    return int(end)


def _cuts(directory: str, log: Recording, known: dict[int, tuple[Run, ...]], limit: int) -> list[int]:
    """Positions where stretches begin and end; the state at the first is known."""
    cuts = sorted(position for position in known if position <= limit)
    if log.start == 0:
        cuts = sorted({0, *cuts})
    if not cuts:
        raise PipelineError(f"the log in {directory} begins at {log.start} and no snapshot at or after it is there")
    return [*cuts, limit] if cuts[-1] < limit else cuts
