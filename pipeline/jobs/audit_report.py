"""The audit in words, as a page and as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from ordo.pipeline.jobs.clock_stretches import FIGURES, Stretch, describe_clocks, find_clocks, milliseconds
from ordo.pipeline.jobs.report import GREEN, GREY, RED, Report, new_figure, position_axis
from ordo.pipeline.recordings.time_unit import moment
from ordo.runtime.native.cluster_time import TimeUnit

if TYPE_CHECKING:
    from ordo.pipeline.jobs.audit import Arrivals


def write_report(facts: dict[str, Any], folder: str) -> str:
    """`audit.html` and `audit.json` in a folder; returns the page's path."""
    report = Report("Audit of the log", facts)
    clean = facts["status"] == "clean"
    problem = facts["first_problem"]
    report.line(describe_status(facts) if clean else
                f"damaged: first at position {problem['position']}: {describe(problem)}", good=clean)  # fmt: skip
    for member in facts["shorter"]:
        report.line(describe_shorter(member))
    for sentence in facts["not_proven"]:
        report.line(sentence)
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
    suspects = {name for problem in facts["findings"] + facts["differences"] for name in suspected(problem)}
    report.table(
        columns, [[node[name] for name in columns] for node in facts["nodes"]], bad=lambda row: row[0] in suspects
    )
    report.picture(
        _map(facts),
        "Each node's log by position. Red: findings, and differences at the node that is alone with what it has; "
        "hollow red: differences where it is not known which node is right. Grey lines: new terms. Grey ends: never "
        "committed.",
    )
    _list_problems(report, facts)
    report.heading("Terms")
    terms = facts["nodes"][0]["terms"] if facts["nodes"] else []
    report.table(
        ("term", "position", "begun", "leader"),
        [(term["leadership_term"], term["position"], moment(term["cluster_time"]), term["leader"]) for term in terms],
    )
    _list_clocks(report, find_clocks(facts["nodes"]))
    _list_arrivals(report, find_arrivals(facts["nodes"]))
    return str(report.write(folder, "audit"))


def _list_clocks(report: Report, stretches: list[Stretch]) -> None:
    if not stretches:
        return
    report.heading("Clocks")
    for line in describe_clocks(stretches):
        report.line(line)
    names = ("position", "term", "begun", "member", "clock", "reports", *FIGURES)
    report.table(
        [name.removesuffix("_ns") for name in names],
        [
            [
                one["position"],
                one["leadership_term"],
                moment(one["cluster_time"]),
                "" if one["member"] is None else one["member"],
                one["clock"],
                one["reports"],
                *("" if (found := one[name]) is None else milliseconds(found) for name in FIGURES),
            ]
            for one in stretches
        ],
    )


class ArrivedNode(TypedDict):
    """What is used of a node's facts for that."""

    limit: int
    arrivals: list[Arrivals]


def find_arrivals(nodes: Iterable[ArrivedNode]) -> list[Arrivals]:
    """Return how long messages took from their arrival in the longest log; empty where it has no arrivals."""
    longest = max(nodes, key=lambda node: node["limit"], default=None)
    return [] if longest is None else longest["arrivals"]


def describe_arrivals(arrivals: list[Arrivals]) -> list[str]:
    """Return in words how long messages took from their arrival at the leader, one line for each unit of time."""
    lines = []
    for one in arrivals:
        half, most, longest = (milliseconds(value) for value in (one["p50_ns"], one["p99_ns"], one["max_ns"]))
        unit = next(unit.symbol for unit in TimeUnit if unit.length_ns == one["resolution_ns"])
        before = one["before_arrival"]
        behind = f"; {before:,} have a timestamp before their arrival" if before else ""
        lines.append(
            f"arrival: of {one['messages']:,} messages half were sequenced within {half} of their arrival at the "
            f"leader, 99 % within {most}, all within {longest}; cluster time is to 1 {unit} here, "
            f"and may be off the wall clock that arrivals are by{behind}"
        )
    return lines


def _list_arrivals(report: Report, arrivals: list[Arrivals]) -> None:
    if not arrivals:
        return
    report.heading("From arrival to timestamp")
    for line in describe_arrivals(arrivals):
        report.line(line)
    report.table(list(arrivals[0]), [list(one.values()) for one in arrivals])


def _list_problems(report: Report, facts: dict[str, Any]) -> None:
    columns: tuple[str, ...]
    if facts["findings"]:
        report.heading("Findings")
        columns = ("position", "node", "segment", "fault")
        report.table(
            (*columns, "expected", "actual"),
            [
                [*(finding[name] for name in columns), str(finding["expected"]), str(finding["actual"])]
                for finding in facts["findings"]
            ],
        )
    if facts["differences"]:
        report.heading("Differences between nodes")
        columns = ("position", "byte", "field", "nodes", "left", "right", "odd")
        report.table(columns, [[difference[name] for name in columns] for difference in facts["differences"]])
    if facts["uncommitted"]:
        report.heading("Ends that were never committed")
        columns = ("node", "position", "bytes", "cut_off_by_term", "reference")
        report.table(columns, [[end[name] for name in columns] for end in facts["uncommitted"]])


def describe_status(facts: dict[str, Any]) -> str:
    """Return in words what a clean audit has shown."""
    said = "clean: every byte is what was written"
    if facts["compared_to"] is None:
        return said
    return f"{said}, and the {len(facts['nodes'])} nodes agree up to position {facts['compared_to']:,}"


def describe_shorter(member: dict[str, Any]) -> str:
    """Return one line for a member whose log ends before the longest."""
    committed = member["committed_bytes"]
    part = "none of them committed" if not committed else f"{committed:,} of them committed"
    return (f"{member['node']} is shorter: it ends at position {member['position']:,}, {member['bytes']:,} bytes "
            f"before {member['reference']}, {part}")  # fmt: skip


def describe(problem: dict[str, Any]) -> str:
    """Return one line for a finding or a difference."""
    if "fault" in problem:
        return (f"node {problem['node']}, {problem['segment']}: {problem['fault']} expected={problem['expected']} "
                f"actual={problem['actual']}")  # fmt: skip
    odd = f", {problem['odd']} is alone" if problem["odd"] else ""
    left, right = problem["nodes"][:2]
    return (f"nodes {left} and {right} differ at byte {problem['byte']} ({problem['field']}): "
            f"{problem['left']} and {problem['right']}{odd}")  # fmt: skip


def describe_end(end: dict[str, Any]) -> str:
    """Return one line for an end of a log that was never committed."""
    return (f"uncommitted end of {end['node']}: {end['bytes']:,} bytes from position {end['position']}, where term "
            f"{end['cut_off_by_term']} begins on {end['reference']}")  # fmt: skip


def suspected(problem: dict[str, Any]) -> list[str]:
    """Return the nodes that a problem lies with; both of a difference when nothing tells which is right."""
    if "fault" in problem:
        return [problem["node"]]
    return [problem["odd"]] if problem["odd"] else list(problem["nodes"])


def _map(facts: dict[str, Any]) -> Any:
    nodes = facts["nodes"]
    figure, axis = new_figure(7, 0.9 + 0.5 * max(1, len(nodes)))
    for row, node in enumerate(nodes):
        axis.barh(row, node["limit"] - node["start"], left=node["start"], height=0.5, color=GREEN)
        for end in facts["uncommitted"]:
            if end["node"] == node["node"]:
                axis.barh(row, end["bytes"], left=end["position"], height=0.5, color="#cccccc")
        for term in node["terms"]:
            axis.plot([term["position"]] * 2, [row - 0.25, row + 0.25], color=GREY, linewidth=0.8)
        _marks(axis, facts, row, node["node"])
    axis.set_yticks(range(len(nodes)), [f"{node['node']}/{node['recording']}" for node in nodes])
    axis.set_ylim(-0.6, len(nodes) - 0.4)
    axis.invert_yaxis()
    position_axis(axis)
    return figure


def _marks(axis: Any, facts: dict[str, Any], row: int, node: str) -> None:
    """Mark only the node at which a problem lies: marks at every node of a difference would accuse the good ones."""
    known = [finding["position"] for finding in facts["findings"] if finding["node"] == node]
    known += [one["position"] for one in facts["differences"] if one["odd"] == node]
    unknown = [one["position"] for one in facts["differences"] if not one["odd"] and node in one["nodes"]]
    axis.plot(known, [row] * len(known), "v", color=RED)
    axis.plot(unknown, [row] * len(unknown), "v", markerfacecolor="none", markeredgecolor=RED)
