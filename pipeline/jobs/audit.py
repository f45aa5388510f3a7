"""The audit: checks that every byte of the logs is as it was written, and that all nodes' logs agree.

Every frame is checked (header fields, checksum, order of fragments), every record (terms and times never go back, new
terms and actions stand where they say), every segment is there, sessions send only between open and close, and all
nodes' logs are compared byte for byte. Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from ordo.archive.segments.frames import FAULT_REASONS
from ordo.archive.segments.segments import segment_name
from ordo.pipeline.decoding.auditor import SegmentAudit
from ordo.pipeline.jobs import agreement
from ordo.pipeline.jobs.agreement import AuditedLog
from ordo.pipeline.jobs.clock_stretches import find_stretches
from ordo.pipeline.jobs.order import check_holes, check_terms, check_times
from ordo.pipeline.nodes.node_archives import is_network
from ordo.pipeline.recordings.recordings import Recording, Segment, check_one_cluster, open_cursor, open_recordings
from ordo.pipeline.spark.tasks import collect_tasks
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.native.spread import Spread, joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NOT_WRITTEN = FAULT_REASONS[1]
NOT_SENT = "damaged: the node does not send it"
"""What a hole is in what a node has sent of its own log."""


@dataclass(frozen=True)
class AuditTask:
    """One segment of one node."""

    recording: Recording
    segment: Segment


def audit(
    spark: SparkSession | None,
    directories: list[str],
    recording: str = "log",
    commit: str = "auto",
    storage: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Return the facts of the report.

    `status` clean or damaged, `nodes`, `findings`, `differences`, `first_difference`.

    Findings and differences are in order of position and name node, segment file and position. `uncommitted` has the
    ends of logs that differ from the others' without being damage (`pipeline/jobs/agreement.py`), `shorter` the members
    whose log ends before the longest, and `not_proven` what these folders cannot show. `clock` of a node says for each
    stretch of its log how well the time was known (`pipeline/jobs/clock_stretches.py`), `arrivals` how long messages
    took from their arrival at the leader to their timestamp. `storage` has the options of the file system of copies in
    object storage; a task fetches the segment that it checks. Of addresses (`ordo://...`) each node's own log is
    checked.

    Raises OtherClusterError for folders of members of two clusters, as their stores say; logs that begin differently
    are for the audit to compare.
    """
    recordings = open_recordings(directories, recording, commit, storage=storage, by_member=True)
    check_one_cluster(recordings, looks_into_logs=False)
    tasks = [AuditTask(entry.lean, segment) for entry in recordings for segment in entry.segments(entry.start)]
    results = iter(collect_tasks(spark, tasks, audit_segment))
    audited = [(entry, [next(results) for _ in entry.segments(entry.start)]) for entry in recordings]
    nodes = [_node_facts(entry, found) for entry, found in audited]
    logs = [
        AuditedLog(replace(entry, limit=node["limit"]), node["term_last"])
        for (entry, _), node in zip(audited, nodes, strict=True)
        if entry.is_log
    ]
    compared = collect_tasks(spark, agreement.compare_tasks(logs), agreement.compare_range)
    differences = [difference for part in compared for difference in part]
    findings = [finding for _, found in audited for result in found for finding in result["findings"]]
    findings += [finding for node in nodes for finding in node.pop("order_findings")]
    begins = [term["position"] for node in nodes for term in node["terms"]]
    uncommitted = agreement.uncommitted_ends(logs, differences, findings, begins)
    differences = agreement.named_odd(agreement.without_ends(differences, uncommitted), len(logs))
    return {
        **_facts(nodes, findings, differences, logs),
        "uncommitted": uncommitted,
        "shorter": agreement.shorter(logs, uncommitted),
        "not_proven": agreement.not_proven(logs),
    }


def _recorded_end(recording: Recording, results: list[dict[str, Any]]) -> int:
    """Return the limit, or where the frames end when it is only known that they end before it."""
    ends = [result["end"] for result in results if result["frames"]]
    return recording.limit if recording.exact else max(ends, default=recording.start)


def _facts(
    nodes: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    differences: list[dict[str, Any]],
    logs: list[AuditedLog],
) -> dict[str, Any]:
    findings.sort(key=lambda finding: (finding["position"], finding["node"]))
    differences.sort(key=lambda difference: (difference["position"], difference["nodes"]))
    problems = sorted(findings + differences, key=lambda problem: problem["position"])
    limits = sorted(log.recording.limit for log in logs)
    return {
        "status": "damaged" if problems else "clean",
        "first_problem": problems[0] if problems else None,
        "first_difference": differences[0] if differences else None,
        "finding_count": sum(node["finding_count"] for node in nodes),
        "compared_to": limits[-2] if len(limits) > 1 else None,
        "nodes": nodes,
        "findings": findings,
        "differences": differences,
    }


def audit_segment(task: AuditTask) -> dict[str, Any]:
    """Return the counts and findings of one segment."""
    recording, segment = task.recording, task.segment
    cursor = open_cursor(segment, recording.descriptor, segment.start, segment.end, True, recording.exact)
    result = SegmentAudit(cursor, recording.is_log).run().result()
    is_remote = is_network(recording.directory)
    name = segment_name(recording.recording_id, segment.base) if is_remote else os.path.basename(segment.path)
    for finding in result["findings"]:
        finding.update(node=recording.node, recording=recording.recording_id, segment=name)
        if is_remote and finding["fault"] == NOT_WRITTEN:
            finding["fault"] = NOT_SENT
    result["segment"] = name
    result["bytes"] = segment.end - segment.start
    result["limit"], result["end"] = segment.end, cursor.position
    return result


def _node_facts(recording: Recording, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum over a recording's segments, and what only shows between segments."""
    kinds: dict[str, int] = {}
    for result in results:
        for kind, count in result["kinds"].items():
            kinds[kind] = kinds.get(kind, 0) + count
    order = check_terms(recording, results)
    order_findings = order.findings + check_times(recording, results) + check_holes(recording, results)
    return {
        "node": recording.node,
        "directory": recording.directory,
        "recording": recording.recording_id,
        "start": recording.start,
        "limit": _recorded_end(recording, results),
        "segments": [{key: result[key] for key in ("segment", "bytes", "finding_count")} for result in results],
        "finding_count": sum(result["finding_count"] for result in results) + len(order_findings),
        "order_findings": order_findings,
        **{key: sum(result[key] for result in results) for key in ("frames", "messages", "payload_bytes")},
        "kinds": kinds,
        "terms": order.terms,
        "term_last": order.term_last,
        "clock": find_stretches(results),
        "arrivals": _find_arrivals(results),
    }


class Arrivals(TypedDict):
    """How long messages took from their arrival at the leader to a timestamp, by the unit of that."""

    resolution_ns: int
    messages: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    before_arrival: int


class Waits(TypedDict):
    """How long messages of a segment took from their arrival to a timestamp of this unit, as native code counted."""

    unit: int
    longest: int
    counts: list[tuple[int, int]]


def _find_arrivals(results: Iterable[Mapping[str, list[Waits]]]) -> list[Arrivals]:
    """Return how long messages took from their arrival to their timestamp, for each unit of the log's time.

    Each figure is up to the end of the unit of the timestamp; p50 and p99 may be 1/128 too large besides.
    `before_arrival` counts timestamps that end before the arrival: cluster time was behind the leader's wall clock.
    """
    found: list[Arrivals] = []
    waits = [piece for result in results for piece in result["waits"]]
    for unit in TimeUnit:
        pieces = [piece for piece in waits if piece["unit"] == unit]
        if pieces:
            spread = joined(Spread(piece["longest"], dict(piece["counts"])) for piece in pieces)
            found.append(
                {
                    "resolution_ns": unit.length_ns,
                    "messages": spread.count,
                    "p50_ns": spread.percentile(0.5),
                    "p99_ns": spread.percentile(0.99),
                    "max_ns": spread.longest,
                    "before_arrival": spread.negative_count,
                }
            )
    return found
