"""Replay: run a service over the log again, in parallel, and say where it comes out differently.

A snapshot cuts the log: each stretch from one snapshot to the next is a task of its own that starts from the snapshot
before it. At its end the state is compared with the snapshot the cluster took there. With a baseline, another version
of the service, both run side by side and the first message where they do something else is reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.planner import Run, plan, read_runs, time_unit_of
from pipeline.predicates import Predicates
from pipeline.recordings import Recording, open_recordings
from pipeline.replay_cluster import (
    Effect,
    OfferCheck,
    ReplayCluster,
    SnapshotState,
    decode_snapshot,
    iterate,
    lockstep,
)
from pipeline.report import Report
from pipeline.service_names import make_service
from pipeline.tasks import collect_tasks

SERVICE_SNAPSHOT_STREAM = 106
COLUMNS = ("kind", "position", "cluster_time", "session_id", "correlation_id", "payload", "timestamp")
EMITTED_SCHEMA = "position long, timestamp timestamp, kind string, key long, payload binary"
_EMITTED = pa.schema([
    ("position", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("kind", pa.string()), ("key", pa.int64()),
    ("payload", pa.binary()),
])  # fmt: skip


@dataclass(frozen=True)
class Stretch:
    """Records that end in (start, end]; from the snapshot at `start` (None: from the beginning) to that at `end`."""

    start: int
    end: int
    before: tuple[Run, ...] | None
    after: tuple[Run, ...] | None
    log: tuple[Run, ...]
    time_unit: int

    def records(self) -> Iterator[dict[str, Any]]:
        predicates = Predicates().narrowed("position", self.start + 1, self.end)
        return iterate(read_runs(self.log, predicates, COLUMNS, 8192, True))


def read_snapshot(runs: tuple[Run, ...]) -> SnapshotState:
    """The state in a snapshot recording."""
    rows = iterate(read_runs(runs, Predicates(), ("payload",), 1024, True))
    return decode_snapshot(row["payload"] for row in rows)


def snapshots(recordings: list[Recording]) -> dict[int, tuple[Run, ...]]:
    """Service snapshots by log position; recordings that are no whole snapshot are passed over."""
    found = {}
    for recording in recordings:
        if recording.descriptor.stream_id != SERVICE_SNAPSHOT_STREAM or recording.limit <= recording.start:
            continue
        runs = tuple(run for task in plan([recording], Predicates(), 1 << 40, time_unit=0) for run in task)
        try:
            found[read_snapshot(runs).log_position] = runs
        except PipelineError:
            continue
    return found


def stretches(directory: str, commit: str = "auto") -> list[Stretch]:
    """How a node's log is cut. Raises PipelineError when nothing tells the state at its beginning."""
    recordings = open_recordings([directory], "all", commit)
    logs = [entry for entry in recordings if entry.is_log]
    if not logs:
        raise PipelineError(f"no recording of the log in {directory}; nothing to replay")
    log = logs[-1]
    known = {position: runs for position, runs in snapshots(recordings).items() if log.start <= position <= log.limit}
    if log.start > 0 and log.start not in known:
        later = sorted(position for position in known if position >= log.start)
        if not later:
            raise PipelineError(f"the log in {directory} begins at {log.start} and no snapshot at or after it is there")
        cuts = later
    else:
        cuts = sorted({log.start, *known})
    cuts = [*cuts, log.limit] if cuts[-1] < log.limit else cuts
    unit = time_unit_of(log)
    return [
        Stretch(start, end, known.get(start), known.get(end), _runs(log, start, end, unit), unit)
        for start, end in pairwise(cuts)
    ]


def _runs(log: Recording, start: int, end: int, unit: int) -> tuple[Run, ...]:
    wanted = Predicates().narrowed("position", start + 1, end)
    return tuple(run for task in plan([log], wanted, 1 << 40, time_unit=unit) for run in task)


def open_cluster(service: str, stretch: Stretch) -> ReplayCluster:
    """The service at the beginning of a stretch."""
    before = read_snapshot(stretch.before) if stretch.before is not None else None
    return ReplayCluster(make_service(service), before, stretch.time_unit)


def replay(
    spark: SparkSession, directory: str, service: str, baseline: str | None = None, commit: str = "auto"
) -> dict[str, Any]:
    """Facts of the report: `status` agrees or differs, `stretches`, `first_difference`. Services are `module:Class`."""
    tasks = stretches(directory, commit)
    results = collect_tasks(spark, tasks, partial(run_stretch, service, baseline))
    differences = [result["first_difference"] for result in results if result["first_difference"]]
    differences.sort(key=lambda difference: difference["position"])
    return {
        "status": "differs" if differences else "agrees",
        "service": service,
        "baseline": baseline,
        "records": sum(result["records"] for result in results),
        "emitted": sum(result["emitted"] for result in results),
        "snapshots_compared": sum(1 for result in results if result["state"] != "no snapshot"),
        "first_difference": differences[0] if differences else None,
        "stretches": results,
    }


def run_stretch(service: str, baseline: str | None, stretch: Stretch) -> dict[str, Any]:
    """One stretch: what it came to, and the first thing that differs."""
    cluster = open_cluster(service, stretch)
    other = open_cluster(baseline, stretch) if baseline else None
    offers, digest = OfferCheck(), hashlib.blake2b(digest_size=16)
    records = emitted = 0
    first: dict[str, Any] | None = None
    for record in stretch.records():
        records += 1
        effects = cluster.execute(record)
        emitted += len(effects)
        for effect in effects:
            digest.update(f"{record['position']} {effect.describe()}\n".encode())
        if first is None:
            first = _difference(record, effects, offers, other)
        elif other is not None:
            other.execute(record)
        offers.note(effects)
    state = compare_state(cluster, stretch)
    if first is None and state not in ("agrees", "no snapshot"):
        first = {
            "position": stretch.end,
            "what": f"snapshot: {state}",
            "expected": None,
            "actual": None,
            "record": None,
        }
    return {
        "start": stretch.start, "end": stretch.end, "records": records, "emitted": emitted,
        "emitted_hash": digest.hexdigest(), "state": state, "first_difference": first,
    }  # fmt: skip


def _difference(
    record: dict[str, Any], effects: list[Effect], offers: OfferCheck, other: ReplayCluster | None
) -> dict[str, Any] | None:
    """Where this record shows that the service is not the one that ran: against the log, then against the baseline."""
    if record["kind"] == "message" and record["session_id"] < 0:
        expected = offers.unexpected(record["payload"])
        if expected is not None:
            return _described(record, "message of the service in the log", record["payload"].hex(), expected.hex())
    pair = lockstep(other.execute(record), effects) if other is not None else None
    if pair is None:
        return None
    expected_effect, actual = pair
    return _described(record, "what the service did", expected_effect and expected_effect.describe(),
                      actual and actual.describe())  # fmt: skip


def _described(record: dict[str, Any], what: str, expected: str | None, actual: str | None) -> dict[str, Any]:
    shown = {"kind": record["kind"], "session_id": record["session_id"], "cluster_time": record["cluster_time"],
             "payload": record["payload"].hex()}  # fmt: skip
    return {"position": record["position"], "what": what, "expected": expected, "actual": actual, "record": shown}


def compare_state(cluster: ReplayCluster, stretch: Stretch) -> str:
    """`agrees`, `no snapshot`, or in what the state differs from the snapshot at the end of the stretch."""
    if stretch.after is None:
        return "no snapshot"
    expected, actual = read_snapshot(stretch.after), cluster.take_snapshot()
    if expected.sessions != actual.sessions:
        first, second = ([entry[0] for entry in state.sessions] for state in (expected, actual))
        return f"sessions differ: {first} and {second}"
    if expected.timers != actual.timers:
        return f"timers differ: {list(expected.timers)} and {list(actual.timers)}"
    if expected.data == actual.data:
        return "agrees"
    if len(expected.data) != len(actual.data):
        return f"state has {len(actual.data)} bytes, the snapshot {len(expected.data)}"
    place = next(index for index, (a, b) in enumerate(zip(expected.data, actual.data, strict=True)) if a != b)
    return f"state differs at byte {place}: {expected.data[place]} and {actual.data[place]}"


Observer = Callable[[dict[str, Any], list[Effect], ReplayCluster], list[dict[str, Any]]]


def emit_effects(record: dict[str, Any], effects: list[Effect], cluster: ReplayCluster) -> list[dict[str, Any]]:
    """Every effect as a row of EMITTED_SCHEMA."""
    return [
        {
            "position": record["position"],
            "timestamp": record["timestamp"],
            "kind": effect.kind,
            "key": effect.key,
            "payload": effect.value if isinstance(effect.value, bytes) else str(effect.value).encode(),
        }
        for effect in effects
    ]


def observed(
    spark: SparkSession,
    directory: str,
    service: str,
    observe: Observer,
    schema: pa.Schema,
    sql: str,
    commit: str = "auto",
) -> DataFrame:
    """Rows that `observe` makes of each record, in parallel by stretch, in no order."""
    import pickle

    rows = [(index, pickle.dumps(task)) for index, task in enumerate(stretches(directory, commit))]
    frame = spark.createDataFrame(rows, "task_id int, task binary").repartitionByRange(max(1, len(rows)), "task_id")
    return frame.mapInArrow(partial(_observe, service, observe, schema), sql)


def emitted(spark: SparkSession, directory: str, service: str, commit: str = "auto") -> DataFrame:
    """Everything the service does over the log: (position, timestamp, kind, key, payload)."""
    return observed(spark, directory, service, emit_effects, _EMITTED, EMITTED_SCHEMA, commit)


def _observe(
    service: str, observe: Observer, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pickle

    for batch in batches:
        for packed in batch["task"].to_pylist():
            stretch = pickle.loads(packed)
            cluster = open_cluster(service, stretch)
            rows: list[dict[str, Any]] = []
            for record in stretch.records():
                rows += observe(record, cluster.execute(record), cluster)
                if len(rows) >= 16384:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)
                    rows = []
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def write_report(facts: dict[str, Any], folder: str) -> str:
    """`replay.html`, `replay.json`; answers the page's path."""
    report = Report(f"Replay of {facts['service']}", facts)
    first = facts["first_difference"]
    report.line(
        f"agrees at {facts['snapshots_compared']} snapshots, {facts['records']:,} records" if first is None else
        f"differs first at position {first['position']}: {first['what']}", good=first is None)  # fmt: skip
    if first is not None:
        report.mapping({"position": first["position"], "expected": first["expected"], "actual": first["actual"],
                        "record": first["record"]})  # fmt: skip
    report.heading("Stretches")
    columns = ("start", "end", "records", "emitted", "state", "emitted_hash")
    report.table(columns, [[result[name] for name in columns] for result in facts["stretches"]])
    return str(report.write(folder, "replay"))
