"""docs/METRICS.md, out of the table that names the metrics. `python -m tools.metrics_page` writes it."""

from __future__ import annotations

from collections.abc import Iterable

from ordo.cluster.monitoring.metric_names import (
    DETAIL_TYPES,
    NODE_METRICS,
    OWN_METRICS,
    REFUSED_METRIC,
    STAGE_METRICS,
    SYSTEM_METRICS,
    Kind,
    Metric,
)
from tools.source import ROOT, Problem

PAGE = ROOT / "docs" / "METRICS.md"
HEAD = """# Metrics of a node

<!-- Written by `make fix` out of cluster/monitoring/metric_names.py; do not edit. -->

Served at `/metrics` where `[metrics] port` is set ([OPERATIONS.md](OPERATIONS.md)). Each has the labels `cluster` and
`member`. While a node is down, only those are served that do not come from its counters; its process ends with it.
"""
TAIL = """## What is no metric

`ordo stat` shows every counter. These have no metric of their own, because there would be one for each client or
stream, or because they are no quantity:

| type | why |
|---|---|
"""


def render() -> str:
    """The whole page."""
    sections = (
        ("The member", [*OWN_METRICS.values(), *NODE_METRICS.values()]),
        ("How long things take", STAGE_METRICS.values()),
        ("Its media driver", [*SYSTEM_METRICS, REFUSED_METRIC]),
    )
    parts = [HEAD, *(_section(title, metrics) for title, metrics in sections)]
    rows = "".join(f"| {int(type_id)} | {why} |\n" for type_id, why in sorted(DETAIL_TYPES.items()))
    return "\n".join([*parts, TAIL + rows])


def _section(title: str, metrics: Iterable[Metric]) -> str:
    rows = "".join(f"| `{_shown(metric)}` | {metric.kind} | {metric.help} |\n" for metric in metrics)
    return f"## {title}\n\n| metric | kind | what it tells |\n|---|---|---|\n{rows}"


def _shown(metric: Metric) -> str:
    return metric.name + ("_total" if metric.kind is Kind.COUNTER else "")


def check() -> list[Problem]:
    """A problem when the page is not what the table says."""
    is_current = PAGE.exists() and PAGE.read_text() == render()
    return [] if is_current else [Problem(PAGE, 1, "not what the metrics' table says; write it with `make fix`")]


if __name__ == "__main__":
    PAGE.write_text(render())
