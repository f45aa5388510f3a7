"""Audit: is every byte of the logs what was written, and do all nodes' logs agree?

Every frame is checked (header fields, checksum, order of fragments), every record (terms and times never go back, new
terms and actions stand where they say), every segment is there, sessions send only between open and close, and all
nodes' logs are compared byte for byte. Nothing is changed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.auditor import SegmentAudit
from pipeline.cursor import MessageCursor
from pipeline.jobs import agreement
from pipeline.jobs.agreement import AuditedLog
from pipeline.recordings import Recording, Segment, open_recordings
from pipeline.report import Report, new_figure
from pipeline.tasks import collect_tasks


@dataclass(frozen=True)
class AuditTask:
    """One segment of one node."""

    recording: Recording
    segment: Segment


def audit(spark: SparkSession, directories: list[str], recording: str = "log", commit: str = "auto") -> dict[str, Any]:
    """The facts of the report: `status` clean or damaged, `nodes`, `findings`, `differences`, `first_difference`.

    Findings and differences are in order of position and name node, segment file and position. `uncommitted` has the
    ends of logs that differ from the others' without being damage (`pipeline/jobs/agreement.py`).
    """
    recordings = open_recordings(directories, recording, commit)
    tasks = [AuditTask(entry, segment) for entry in recordings for segment in entry.segments(entry.start)]
    results = collect_tasks(spark, tasks, audit_segment)
    by_recording = [
        [result for task, result in zip(tasks, results, strict=True) if task.recording == entry] for entry in recordings
    ]
    logs = [_audited(entry, found) for entry, found in zip(recordings, by_recording, strict=True) if entry.is_log]
    compared = collect_tasks(spark, agreement.compare_tasks(logs), agreement.compare_range)
    differences = [difference for part in compared for difference in part]
    nodes = [_node_facts(entry, found) for entry, found in zip(recordings, by_recording, strict=True)]
    findings = [finding for result in results for finding in result["findings"]]
    findings += [finding for node in nodes for finding in node.pop("order_findings")]
    uncommitted = agreement.uncommitted_ends(logs, differences, findings)
    differences = agreement.named_odd(agreement.without_ends(differences, uncommitted), len(logs))
    return {**_facts(nodes, findings, differences, logs), "uncommitted": uncommitted}


def _audited(recording: Recording, results: list[dict[str, Any]]) -> AuditedLog:
    terms = [result["term_last"] for result in results if result["term_last"] is not None]
    return AuditedLog(
        replace(recording, limit=_recorded_end(recording, results)), max(terms, default=agreement.NULL_TERM)
    )


def _recorded_end(recording: Recording, results: list[dict[str, Any]]) -> int:
    """The limit, or where the frames end when it is only known that they end before it."""
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
    """Counts and findings of one segment."""
    recording, segment = task.recording, task.segment
    cursor = MessageCursor(
        segment.path, recording.descriptor, segment.base, segment.start, segment.end, True, recording.exact
    )
    result = SegmentAudit(cursor, recording.is_log).run().result()
    for finding in result["findings"]:
        finding.update(node=recording.node, recording=recording.recording_id, segment=os.path.basename(segment.path))
    result["segment"] = os.path.basename(segment.path)
    result["bytes"] = segment.end - segment.start
    result["limit"], result["end"] = segment.end, cursor.position
    return result


def _node_facts(recording: Recording, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums over a recording's segments, and what only shows between segments."""
    kinds: dict[str, int] = {}
    for result in results:
        for kind, count in result["kinds"].items():
            kinds[kind] = kinds.get(kind, 0) + count
    order_findings = _order_between(recording, results) + _holes(recording, results)
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
        "terms": [term for result in results for term in result["terms"]],
    }


def _order_between(recording: Recording, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Terms and times that go back from one segment to the next."""
    timed = [result for result in results if result["time_last"] is not None]
    found = []
    for before, after in pairwise(timed):
        for what, name in (("term", "leadership term goes back"), ("time", "time goes back")):
            if after[f"{what}_first"] < before[f"{what}_last"]:
                position = int(after["segment"].split("-")[1].removesuffix(".rec"))
                found.append({
                    "fault": name, "position": position, "expected": before[f"{what}_last"],
                    "actual": after[f"{what}_first"], "node": recording.node, "recording": recording.recording_id,
                    "segment": after["segment"],
                })  # fmt: skip
    return found


def _holes(recording: Recording, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Segments that end too early for what the next ones hold, in a recording whose end is not known."""
    filled = [result for result in results if result["frames"]]
    if recording.exact or not filled:
        return []
    before_last = results[: results.index(filled[-1])]
    return [
        {
            "fault": "no frame was written here",
            "position": result["end"],
            "expected": 0,
            "actual": 0,
            "node": recording.node,
            "recording": recording.recording_id,
            "segment": result["segment"],
        }
        for result in before_last
        if result["end"] < result["limit"] and not result["finding_count"]
    ]


def session_violations(log: DataFrame) -> DataFrame:
    """Sessions that do what the log's order forbids: (node, recording, session_id, violation, position).

    A message before its session's open or after its close, a session opened or closed twice. Sessions whose open lies
    before the beginning of the log count as open from there.
    """
    is_kind = {kind: F.when(F.col("kind") == kind, F.col("position")) for kind in
               ("message", "session_open", "session_close")}  # fmt: skip
    sessions = (
        log.where("session_id > 0")
        .groupBy("node", "recording", "session_id")
        .agg(
            F.min(is_kind["message"]).alias("message_first"),
            F.max(is_kind["message"]).alias("message_last"),
            F.min(is_kind["session_open"]).alias("opened"),
            F.min(is_kind["session_close"]).alias("closed"),
            F.max(is_kind["session_close"]).alias("closed_last"),
            F.count(is_kind["session_open"]).alias("open_count"),
            F.count(is_kind["session_close"]).alias("close_count"),
        )
    )
    rules = [
        ("message before open", "message_first < opened", "message_first"),
        ("message after close", "message_last > closed", "message_last"),
        ("opened twice", "open_count > 1", "opened"),
        ("closed twice", "close_count > 1", "closed_last"),
    ]
    found = None
    for name, condition, place in rules:
        part = sessions.where(condition).select(
            "node", "recording", "session_id", F.lit(name).alias("violation"), F.col(place).alias("position")
        )
        found = part if found is None else found.unionByName(part)
    assert found is not None
    return found.orderBy("node", "recording", "position")


def write_report(facts: dict[str, Any], folder: str) -> str:
    """`audit.html` and `audit.json` in a folder; answers the page's path."""
    report = Report("Audit of the log", facts)
    clean = facts["status"] == "clean"
    problem = facts["first_problem"]
    report.line("clean: every byte is what was written, and all nodes agree" if clean else
                f"damaged: first at position {problem['position']}: {describe(problem)}", good=clean)  # fmt: skip
    report.heading("Nodes")
    columns: tuple[str, ...] = (
        "node",
        "recording",
        "start",
        "limit",
        "frames",
        "messages",
        "payload_bytes",
        "finding_count",
    )
    report.table(columns, [[node[name] for name in columns] for node in facts["nodes"]])
    report.picture(
        _map(facts),
        "Each node's log by position; red marks are findings and differences, grey lines new terms, "
        "grey ends never committed",
    )
    if facts["findings"]:
        report.heading("Findings")
        columns = ("position", "node", "segment", "fault", "expected", "actual")
        report.table(columns, [[finding[name] for name in columns] for finding in facts["findings"]])
    if facts["differences"]:
        report.heading("Differences between nodes")
        columns = ("position", "byte", "field", "nodes", "left", "right", "odd")
        report.table(columns, [[difference[name] for name in columns] for difference in facts["differences"]])
    if facts["uncommitted"]:
        report.heading("Ends that were never committed")
        columns = ("node", "position", "bytes", "cut_off_by_term", "reference")
        report.table(columns, [[end[name] for name in columns] for end in facts["uncommitted"]])
    report.heading("Terms")
    terms = facts["nodes"][0]["terms"] if facts["nodes"] else []
    report.table(
        ("term", "position", "cluster time", "leader"),
        [(term["leadership_term"], term["position"], term["cluster_time"], term["leader"]) for term in terms],
    )
    return str(report.write(folder, "audit"))


def describe(problem: dict[str, Any]) -> str:
    """One line for a finding or a difference."""
    if "fault" in problem:
        return (f"node {problem['node']}, {problem['segment']}: {problem['fault']} expected={problem['expected']} "
                f"actual={problem['actual']}")  # fmt: skip
    odd = f", {problem['odd']} is alone" if problem["odd"] else ""
    left, right = problem["nodes"][:2]
    return (f"nodes {left} and {right} differ at byte {problem['byte']} ({problem['field']}): "
            f"{problem['left']} and {problem['right']}{odd}")  # fmt: skip


def describe_end(end: dict[str, Any]) -> str:
    """One line for an end that was never committed."""
    return (f"uncommitted end of {end['node']}: {end['bytes']:,} bytes from position {end['position']}, where term "
            f"{end['cut_off_by_term']} begins on {end['reference']}")  # fmt: skip


def _map(facts: dict[str, Any]) -> Any:
    nodes = facts["nodes"]
    figure, axis = new_figure(9, 0.6 + 0.5 * max(1, len(nodes)))
    for row, node in enumerate(nodes):
        axis.barh(row, node["limit"] - node["start"], left=node["start"], height=0.5, color="#7fb98f")
        for end in facts["uncommitted"]:
            if end["node"] == node["node"]:
                axis.barh(row, end["bytes"], left=end["position"], height=0.5, color="#cccccc")
        for term in node["terms"]:
            axis.plot([term["position"]] * 2, [row - 0.25, row + 0.25], color="#777", linewidth=0.8)
        marks = [finding["position"] for finding in facts["findings"] if finding["node"] == node["node"]]
        marks += [difference["position"] for difference in facts["differences"] if node["node"] in difference["nodes"]]
        axis.plot(marks, [row] * len(marks), "v", color="#a3121f")
    axis.set_yticks(range(len(nodes)), [f"{node['node']}/{node['recording']}" for node in nodes])
    axis.set_xlabel("position (bytes)")
    return figure
