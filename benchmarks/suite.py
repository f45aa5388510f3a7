"""`ordo bench`: runs the benchmarks, prints them as tables, and writes them as one JSON object.

    machine               processor, cores, kernel, Python
    floor_rtt_us          percentiles of four bare processes and four UDP hops, by size
    rtt_us                percentiles of a three-node cluster with a Python echo service, one message outstanding,
                          by service mode, sync mode and size
    throughput_msgs_per_s by service (python, cython), sync mode and size
    open_loop_us          percentiles from the intended time of sending, by rate
    record_mb_per_s, replay_mb_per_s   of one archive, through shared memory, by sync mode
    idle_cpu_percent      of one core, node and container together
    node_rss_mb           of the leader, after the load

All messages stay on this machine's loopback.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.archive_rate import measure_record_mb_per_s, measure_replay_mb_per_s
from benchmarks.echo_session import EchoSession
from benchmarks.floor import measure_floor
from benchmarks.latency import percentiles_us
from benchmarks.machine import describe_machine
from benchmarks.node_cost import measure_idle_cpu_percent, measure_rss_mb
from cluster.launcher import LocalCluster, ServiceMode, SyncMode

PYTHON_ECHO = "examples.echo:Echo"
NATIVE_ECHO = "examples.echo_native:NativeEcho"
SERVICES = {"python": PYTHON_ECHO, "cython": NATIVE_ECHO}
SIZES_BYTES = (32, 288, 1024)
SYNC_MODES: tuple[SyncMode, ...] = ("none", "commit")
SERVICE_MODES: tuple[ServiceMode, ...] = ("process", "inline")
RATES = (1_000, 5_000, 20_000)
Figures = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured. Times in seconds."""

    floor_count: int
    round_trip_count: int
    warm_up_count: int
    message_count: int
    window: int
    open_loop_s: float
    archive_mb: int
    idle_s: float


FULL = Effort(
    floor_count=20_000, round_trip_count=5_000, warm_up_count=500, message_count=150_000, window=512, open_loop_s=4.0,
    archive_mb=256, idle_s=10.0,
)  # fmt: skip
QUICK = Effort(
    floor_count=2_000, round_trip_count=500, warm_up_count=100, message_count=5_000, window=256, open_loop_s=0.5,
    archive_mb=32, idle_s=2.0,
)  # fmt: skip


def run_suite(what: str, json_path: Path | None, *, quick: bool, console: Console | None = None) -> Figures:
    """Runs `rtt`, `throughput` or `all`; prints the figures, writes them to `json_path` if given, and answers them."""
    console = console or Console()
    effort = QUICK if quick else FULL
    figures: Figures = {"machine": describe_machine(), "quick": quick}
    start_s = time.monotonic()
    for name, measure in PARTS[what]:
        console.print(f"{time.monotonic() - start_s:6.1f} s  measuring {name}", style="dim")
        figures |= measure(effort)
    figures["seconds"] = round(time.monotonic() - start_s, 1)
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    show(console, figures)
    return figures


def measure_floor_rtt(effort: Effort) -> Figures:
    return {"floor_rtt_us": {str(size): measure_floor(size, effort.floor_count) for size in SIZES_BYTES}}


def measure_rtt(effort: Effort) -> Figures:
    figures: Figures = {}
    for service_mode in SERVICE_MODES:
        for sync in SYNC_MODES:
            with _cluster(PYTHON_ECHO, sync, service_mode) as cluster:
                by_size = {str(size): _round_trips(cluster, size, effort) for size in SIZES_BYTES}
            figures.setdefault(service_mode, {})[sync] = by_size
    return {"rtt_us": figures}


def measure_throughput(effort: Effort) -> Figures:
    figures: Figures = {}
    for name, service in SERVICES.items():
        for sync in SYNC_MODES:
            with _cluster(service, sync) as cluster:
                by_size = {str(size): _throughput(cluster, size, effort) for size in SIZES_BYTES}
            figures.setdefault(name, {})[sync] = by_size
    return {"throughput_msgs_per_s": figures}


def measure_open_loop(effort: Effort) -> Figures:
    figures: Figures = {}
    for sync in SYNC_MODES:
        with _cluster(PYTHON_ECHO, sync) as cluster:
            for rate in RATES:
                with EchoSession(cluster.ingress_endpoints, SIZES_BYTES[0]) as session:
                    session.pipelined(effort.warm_up_count, effort.window)
                    histogram = session.open_loop(rate, effort.open_loop_s)
                figures.setdefault(sync, {})[str(rate)] = percentiles_us(histogram)
    return {"open_loop_us": figures}


def measure_archive(effort: Effort) -> Figures:
    return {
        "record_mb_per_s": {sync: measure_record_mb_per_s(sync, effort.archive_mb) for sync in SYNC_MODES},
        "replay_mb_per_s": measure_replay_mb_per_s(effort.archive_mb),
    }


def measure_node_cost(effort: Effort) -> Figures:
    with _cluster(PYTHON_ECHO, "commit") as cluster:
        with EchoSession(cluster.ingress_endpoints, SIZES_BYTES[0]) as session:
            session.pipelined(effort.message_count // 10, effort.window)
        rss_mb = measure_rss_mb(cluster)
        return {"node_rss_mb": rss_mb, "idle_cpu_percent": measure_idle_cpu_percent(cluster, effort.idle_s)}


PARTS: dict[str, list[tuple[str, Callable[[Effort], Figures]]]] = {
    "rtt": [("the raw floor", measure_floor_rtt), ("round trips", measure_rtt)],
    "throughput": [("throughput", measure_throughput)],
}
PARTS["all"] = [
    *PARTS["rtt"],
    *PARTS["throughput"],
    ("open loop", measure_open_loop),
    ("recording and replay", measure_archive),
    ("an idle node", measure_node_cost),
]


@contextmanager
def _cluster(service: str, sync: SyncMode, service_mode: ServiceMode = "process") -> Iterator[LocalCluster]:
    with LocalCluster(service, sync=sync, service_mode=service_mode) as cluster:
        cluster.await_leader()
        yield cluster


def _round_trips(cluster: LocalCluster, size_bytes: int, effort: Effort) -> dict[str, float]:
    with EchoSession(cluster.ingress_endpoints, size_bytes) as session:
        session.round_trips(effort.warm_up_count)
        return percentiles_us(session.round_trips(effort.round_trip_count))


def _throughput(cluster: LocalCluster, size_bytes: int, effort: Effort) -> int:
    with EchoSession(cluster.ingress_endpoints, size_bytes) as session:
        session.pipelined(effort.message_count // 10, effort.window)
        return round(effort.message_count / session.pipelined(effort.message_count, effort.window))


def show(console: Console, figures: Figures) -> None:
    """Prints the figures that are there."""
    machine = figures["machine"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, loopback", markup=False
    )
    _show_latencies(console, figures)
    if "throughput_msgs_per_s" in figures:
        table = Table("service", "sync", *(f"{size} bytes" for size in SIZES_BYTES), title="messages a second")
        for service, modes in figures["throughput_msgs_per_s"].items():
            for sync, by_size in modes.items():
                table.add_row(service, sync, *(f"{value:,}" for value in by_size.values()))
        console.print(table)
    for name in ("record_mb_per_s", "replay_mb_per_s", "idle_cpu_percent", "node_rss_mb"):
        if name in figures:
            console.print(f"{name}: {figures[name]}", markup=False)


def _show_latencies(console: Console, figures: Figures) -> None:
    names = ("p50", "p90", "p99", "p999", "p9999")
    table = Table("round trip, us", "sync", "bytes", *names)

    def add(what: str, sync: str, size: str, values: dict[str, float]) -> None:
        table.add_row(what, sync, size, *(f"{values[name]:,}" for name in names))

    for size, values in figures.get("floor_rtt_us", {}).items():
        add("raw floor", "-", size, values)
    for service_mode, modes in figures.get("rtt_us", {}).items():
        for sync, by_size in modes.items():
            for size, values in by_size.items():
                add(f"cluster, {service_mode}", sync, size, values)
    for sync, rates in figures.get("open_loop_us", {}).items():
        for rate, values in rates.items():
            add(f"open loop, {int(rate):,}/s", sync, str(SIZES_BYTES[0]), values)
    if table.row_count:
        console.print(table)
