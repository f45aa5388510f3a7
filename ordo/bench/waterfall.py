"""`ordo bench top`: where the time of a request goes, step by step, from traces of a share of the requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table as TextTable

from ordo.bench.loads.latency import new_histogram, percentiles_us, record
from ordo.cluster.client.requests.tracing import Tracing
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster, ServiceMode, SyncMode, Table
from ordo.runtime.errors import OrdoError
from ordo.runtime.reporting.spans import REQUEST, check_packages

if TYPE_CHECKING:
    from ordo.bench.span_collector import SpanCollector

SERVICE = "ordo.bench.loads.answering:Answering"
KINDS: dict[str, tuple[ServiceMode, SyncMode]] = {
    "inline, sync none": ("inline", "none"),
    "process, sync none": ("process", "none"),
    "process, sync commit": ("process", "commit"),
}
RATE = 0.1
"""Share of the requests that is traced: sending spans takes processor time of its own."""
SPANS_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.05
BAR_WIDTH = 20


class Moment(NamedTuple):
    """A hand-over of a request: the start or the end of one of its spans (docs/OPERATIONS.md, Traces)."""

    label: str
    span: str
    is_end: bool

    def of(self, spans: Mapping[str, Any]) -> int:
        """When it was, wall-clock time in ns."""
        span = spans[self.span]
        return int(span.end_time_unix_nano if self.is_end else span.start_time_unix_nano)


MOMENTS = (
    Moment("leader takes it", "ingress", False),
    Moment("in the log buffer", "ingress", True),
    Moment("sent to followers", "send", True),
    Moment("in the leader's log", "append", True),
    Moment("a follower gets it", "record", False),
    Moment("in the follower's log", "record", True),
    Moment("acknowledged", "acknowledge", True),
    Moment("on a quorum", "commit", True),
    Moment("service gets it", "service", False),
    Moment("service has executed", "service", True),
    Moment("answer is on its way", "reply", True),
    Moment("client has the answer", REQUEST, True),
)
"""In their usual order; a request begins when the client takes it. The follower is the one that was first. The leader
may have its own record on disk only after that."""
SPAN_NAMES = {moment.span for moment in MOMENTS}
FOLLOWER_SPAN_NAMES = {"record", "acknowledge"}


def measure_waterfall(size_bytes: int, round_trip_count: int) -> dict[str, Any]:
    """`waterfall_us`: by kind of cluster, the steps of a round trip as `describe` has them.

    One request is on the way at a time. Raises OrdoError where no spans come, ConfigurationError without the packages.
    """
    check_packages("ordo bench top")
    from ordo.bench.span_collector import SpanCollector

    figures = {}
    for kind, (service_mode, sync) in KINDS.items():
        with SpanCollector() as collector:
            tables: dict[str, Table] = {"tracing": {"endpoint": collector.endpoint, "rate": RATE}}
            with LocalCluster(SERVICE, sync=sync, service_mode=service_mode, tables=tables) as cluster:
                cluster.await_leader()
                _run(cluster, collector, size_bytes, round_trip_count)
                more_followers = len(cluster.member_ids) - 2
                span_count = len(SPAN_NAMES) + more_followers * len(FOLLOWER_SPAN_NAMES)
                figures[kind] = describe(_await_spans(collector, span_count))
    return {"waterfall_us": figures}


def _run(cluster: LocalCluster, collector: SpanCollector, size_bytes: int, count: int) -> None:
    settings = ClientSettings(tracing=Tracing(endpoint=collector.endpoint, rate=RATE))
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        for _ in range(count):
            client.request(bytes(size_bytes))


def _await_spans(collector: SpanCollector, span_count: int) -> list[dict[str, Any]]:
    """Wait for the requests of which all `span_count` spans have come.

    Those of the client are there, since it is closed.
    """
    asked = [trace_id for trace_id, spans in list(collector.traces.items()) if REQUEST in spans]
    deadline = time.monotonic() + SPANS_TIMEOUT_S
    while any(collector.counts[one] < span_count for one in asked) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    whole = [collector.traces[one] for one in asked if collector.counts[one] == span_count]
    if not whole:
        raise OrdoError(f"no request of {len(asked)} that were traced has all of its spans; give more round trips")
    return whole


def describe(traces: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each moment.

    Its `step`, when it was (`at`) and what the step `took`, medians, and the `p99` of that.

    All in us. `traces`: by name the spans of each request.
    """
    at, took = [new_histogram() for _ in MOMENTS], [new_histogram() for _ in MOMENTS]
    for spans in traces:
        begin = before = int(spans[REQUEST].start_time_unix_nano)
        for index, moment in enumerate(MOMENTS):
            now = moment.of(spans)
            record(at[index], [now - begin])
            record(took[index], [max(now - before, 0)])
            before = max(now, before)
    return [
        {
            "step": moment.label,
            "at": percentiles_us(at[index])["p50"],
            "took": percentiles_us(took[index])["p50"],
            "p99": percentiles_us(took[index])["p99"],
        }
        for index, moment in enumerate(MOMENTS)
    ]


def show_waterfall(console: Console, figures: Mapping[str, Any]) -> None:
    """Print a table for each kind of cluster, if they were measured."""
    for kind, steps in figures.get("waterfall_us", {}).items():
        table = TextTable(title=f"one request, {kind}", title_justify="left")
        table.add_column("what has happened", no_wrap=True)
        for name in ("at us", "took us", "p99 us"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        total_us = steps[-1]["at"]
        for step in steps:
            table.add_row(
                step["step"], f"{step['at']:,}", f"{step['took']:,}", f"{step['p99']:,}", draw_bar(step, total_us)
            )
        console.print(table)


def draw_bar(step: Mapping[str, Any], total_us: float) -> str:
    """When the step was, on a line of BAR_WIDTH characters that is the whole round trip."""
    end = round(BAR_WIDTH * min(float(step["at"]) / total_us, 1.0))
    start = round(BAR_WIDTH * float(step["at"] - step["took"]) / total_us)
    start = max(min(start, end - 1), 0)
    return " " * start + "━" * max(end - start, 1)
