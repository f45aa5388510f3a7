"""Replay: runs a service over the log again, in parallel, and reports where the result differs.

A snapshot cuts the log: each stretch from one snapshot to the next is a task of its own that starts from the snapshot
before it (pipeline/jobs/stretches.py). Each ends in a verdict (pipeline/jobs/verdict.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ordo.follow.log_commands import describe_message
from ordo.follow.log_schemas import LogSchemas
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import application_bytes
from ordo.pipeline.jobs.report import Report
from ordo.pipeline.jobs.stretches import cut_log
from ordo.pipeline.jobs.verdict import AGREES, DIFFERS, guarded, open_cluster, run_stretch, verdict_of
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.replaying.replay_cluster import Effect, ReplayCluster
from ordo.pipeline.schemas.log_schemas import find_schemas
from ordo.pipeline.spark.tasks import collect_tasks
from ordo.runtime.reporting.output import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTPUTS_NOT_CHECKED = "what else was sent to clients is not on record, and needs --baseline"
EMITTED_SCHEMA = "position long, timestamp timestamp, kind string, key long, payload binary"
_EMITTED = pa.schema([
    ("position", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("kind", pa.string()), ("key", pa.int64()),
    ("payload", pa.binary()),
])  # fmt: skip


def replay(
    spark: SparkSession | None,
    directory: str,
    service: str,
    baseline: str | None = None,
    commit: str = "auto",
    end: str | None = None,
    storage: Mapping[str, object] | None = None,
    service_id: int | None = None,
) -> dict[str, Any]:
    """Facts of the report.

    Services are `module:Class`; `end` is a position, or `snapshot` for the last one; `service_id` says which of several
    services of the node is run.

    `status` is `agrees` when every stretch was checked and agrees, `differs`, `partly checked` or `not checked`;
    `coverage` counts records by verdict; then `first_difference` and `stretches`.
    """
    cut = cut_log(directory, commit, end, spark, storage, service_id)
    results = collect_tasks(spark, list(cut.stretches), partial(run_stretch, service, baseline))
    verdict = verdict_of(results)
    if verdict["first_difference"] is not None:
        say_messages(verdict["first_difference"], _schemas_of(directory, commit, storage))
    return {
        **verdict,
        "service": service,
        "baseline": baseline,
        "outputs_checked": baseline is not None,
        "records": sum(result["records"] for result in results),
        "emitted": sum(result["emitted"] for result in results),
        "outputs_compared": {
            name: sum(result[f"{name}_compared"] for result in results) for name in ("published", "answers", "hashes")
        },
        "snapshots_compared": sum(1 for result in results if result["state"] != "no snapshot"),
        "unreadable_snapshots": list(cut.unreadable_snapshots),
        "stretches": results,
    }


def _schemas_of(directory: str, commit: str, storage: Mapping[str, object] | None) -> LogSchemas:
    given = {"path": directory, "commit": commit}
    if storage:
        given["storageoptions"] = json.dumps(storage)
    try:
        return LogSchemas(find_schemas(ReadSettings.parse(given)))
    except PipelineError:  # what cannot be read was told of by the replay, if it needed it
        return LogSchemas()


def say_messages(first: dict[str, object], schemas: LogSchemas) -> None:
    """Say what the messages of a difference are by the log's schemas, where it has some.

    What was expected and what came stay as bytes where these schemas see no difference between them.
    """
    if isinstance(record := first["record"], dict):
        payload = application_bytes(record["kind"], bytes.fromhex(record["payload"]))
        if payload is not None and (said := describe_message(schemas.decode(payload))):
            record["message"] = printable(said)
    said_of = {name: _as_message(first[name], schemas) for name in ("expected", "actual")}
    if said_of["expected"] != said_of["actual"]:
        first.update(said_of)


def _as_message(text: object, schemas: LogSchemas) -> object:
    """Return an effect whose payload, in hexadecimal digits at its end, is shown as a message if it is one."""
    head, separator, digits = str(text or "").rpartition(": ")
    try:
        said = describe_message(schemas.decode(bytes.fromhex(digits)))
    except ValueError:
        return text
    return f"{head}{separator}{printable(said)}" if said else text


Observer = Callable[[dict[str, Any], list[Effect], ReplayCluster], list[dict[str, Any]]]


def emit_effects(record: dict[str, Any], effects: list[Effect], cluster: ReplayCluster) -> list[dict[str, Any]]:
    """Return every effect as a row of EMITTED_SCHEMA."""
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
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Rows that `observe` makes of each record, in parallel by stretch, in no order."""
    import pickle

    stretches = cut_log(directory, commit, spark=spark, storage=storage).stretches
    rows = [(index, pickle.dumps(task)) for index, task in enumerate(stretches)]
    frame = spark.createDataFrame(rows, "task_id int, task binary").repartitionByRange(max(1, len(rows)), "task_id")
    return frame.mapInArrow(partial(_observe, service, observe, schema), sql)


def emitted(
    spark: SparkSession,
    directory: str,
    service: str,
    commit: str = "auto",
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Everything the service does over the log: (position, timestamp, kind, key, payload)."""
    return observed(spark, directory, service, emit_effects, _EMITTED, EMITTED_SCHEMA, commit, storage)


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
                effects = guarded("service", record["position"], partial(cluster.execute, record))
                rows += observe(record, effects, cluster)
                if len(rows) >= 16384:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)
                    rows = []
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def describe_status(facts: dict[str, Any]) -> str:
    """Return the verdict in one line."""
    coverage, first = facts["coverage"], facts["first_difference"]
    if facts["status"] == DIFFERS:
        return f"differs first at position {first['position']:,}: {first['what']}"
    compared = f"{coverage['agrees']:,} of {coverage['records']:,} records were compared"
    on_record = facts["outputs_compared"]
    found = (
        f"{on_record['hashes']:,} hashes of the state, {on_record['published']:,} published messages and "
        f"{on_record['answers']:,} answers were compared"
    )
    outputs = "" if facts["baseline"] else f"; {found}; {OUTPUTS_NOT_CHECKED}"
    if facts["status"] == AGREES:
        snapshots = facts["snapshots_compared"]
        return f"agrees: all {coverage['records']:,} records were compared, {snapshots} snapshots{outputs}"
    return f"{facts['status']}: {compared}; nothing on record says what the others must lead to{outputs}"


def write_report(facts: dict[str, Any], folder: str) -> str:
    """`replay.html`, `replay.json`; returns the page's path."""
    report = Report(f"Replay of {facts['service']}", facts)
    first = facts["first_difference"]
    report.line(describe_status(facts), good={AGREES: True, DIFFERS: False}.get(facts["status"]))
    if first is not None:
        report.mapping({"position": first["position"], "expected": first["expected"], "actual": first["actual"],
                        "record": first["record"]})  # fmt: skip
    for text in facts["unreadable_snapshots"]:
        report.line(f"a snapshot was passed over: {text}", good=False)
    report.heading("Coverage")
    report.table(
        ("records", "agree", "in stretches that differ", "not checked"),
        [[facts["coverage"][name] for name in ("records", "agrees", "differs", "not_checked")]],
    )
    report.heading("Stretches")
    columns = ("start", "end", "records", "emitted", "verdict", "state", "reason", "emitted_hash")
    shown = [{**result, "emitted_hash": result["emitted_hash"][:12]} for result in facts["stretches"]]
    report.table(columns, [[result[name] for name in columns] for result in shown], bad=lambda row: row[4] == DIFFERS)
    return str(report.write(folder, "replay"))
