"""`ordo bench`: runs the benchmarks, prints them as tables, and writes them as one JSON object.

    machine                processor, cores, memory, kernel, Python, load when it began
    configuration          what holds where a figure does not say otherwise: members, service mode, sync mode, size
    floor_rtt_us           percentiles of four bare processes and four UDP hops; `floor_rtt_us_by_size` as well
    rtt_us                 by sync mode and size: percentiles of a three-node cluster with a Python echo service, one
                           message outstanding, the service in its own process; `rtt_inline_us` on the node's thread
    throughput_msgs_per_s  by service (python, cython), sync mode and size: a native client, the best of the windows
    throughput_by_window   the same by window as well: messages that one session has on the way
    throughput_by_sessions by number of sessions in one native client: cython service, sync none, `window` in all
    throughput_by_mtu      by MTU of ingress and log, and size: native client, best window, cython service, sync none
    throughput_python_client_msgs_per_s   by service, sync mode and size: the Python client with `window`
    cost_us                by kind of run and role: processor time of one message in us, beside `per_s`
    system_calls           by kind of run and role: system calls of one message by name, from a run under strace;
                           empty where strace is not installed
    open_loop_us           by rate: percentiles from the intended time of sending; `open_loop_sync_none_us` as well
    record_mb_per_s, replay_mb_per_s   MiB a second of one archive, messages of 1 KiB through shared memory
    encryption             by kind (plain, encrypted): `msgs_per_s` and `rtt_us` by size, cython service inline, sync
                           none, native client, medians; `encryption_cost` by size: what is lost. Not part of `all`
    requests               by kind (raw, typed, request, typed request): `rtt_us` and `msgs_per_s` of one Python client,
                           Python service, sync none, `window` messages and batches of 4,096 requests, and `cpu_us`,
                           what client and members take of a processor for one of these; medians;
                           `request_cost_percent` by percentile: what a round trip takes longer; `typed_cost_percent`
                           by kind: the same for messages with types, and `msgs_per_s` and `cpu` more. Not part of `all`
    snapshot_pause_ms      by kind (forked, standing), of one member with a service of `snapshot_state_mb` MiB in
                           Python objects: the longest round trip before and during a snapshot, and the fork itself,
                           in ms; `round_trips` that were made during it. Not part of `all`
    waterfall_us           by kind of cluster: for each step of a request its `step`, the medians of when it was (`at`)
                           and of what it `took`, and the p99 of that, from traces. Not part of `all`
    message_codec_ns       by way (Ordo, struct, and msgspec and protobuf where they are installed): `encode` and
                           `decode` of a message with eight fields, and its `bytes`. Not part of `all`
    idle_cpu_percent       of one core: the busiest of the nodes, with its container; `idle_cpu_percent_by_role` as well
    node_rss_mb            MiB of the leader with its container after load; `node_rss_mb_by_part` as well
    node_pss_mb            the same, with what several processes share counted by its share

All messages stay on this machine's loopback; files are in the system's temporary folder.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ordo.bench.archive_rate import measure_record_mb_per_s, measure_replay_mb_per_s
from ordo.bench.costs import measure_calls, measure_cpu_us
from ordo.bench.encryption_cost import measure_encryption
from ordo.bench.floor import measure_floor
from ordo.bench.loads.echo_session import EchoSession
from ordo.bench.loads.latency import percentiles_us
from ordo.bench.loads.load_process import LoadPlan
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.machine import describe_machine
from ordo.bench.message_codecs import measure_message_codecs, show_message_codecs
from ordo.bench.node_cost import measure_idle_cpu_percent, measure_pss_mb, measure_rss_mb
from ordo.bench.request_cost import measure_requests, show_requests
from ordo.bench.snapshot_pause import measure_snapshot_pause
from ordo.bench.waterfall import measure_waterfall, show_waterfall
from ordo.deploy.launcher import LocalCluster, ServiceMode, SyncMode
from ordo.runtime.reporting.terminal import output_console

PYTHON_ECHO = "ordo.bench.loads.echo:Echo"
NATIVE_ECHO = "ordo.bench.loads.echo_native:NativeEcho"
SERVICES = {"python": PYTHON_ECHO, "cython": NATIVE_ECHO}
SIZES_BYTES = (32, 288, 1024)
SYNC_MODES: tuple[SyncMode, ...] = ("none", "commit")
DEFAULT_SERVICE_MODE: ServiceMode = "process"
DEFAULT_SYNC: SyncMode = "commit"
FIGURES_ALONE = (
    "record_mb_per_s", "record_sync_none_mb_per_s", "replay_mb_per_s", "idle_cpu_percent", "node_rss_mb", "node_pss_mb"
)  # fmt: skip
"""Shown on a line of their own."""
RATES = (1_000, 5_000, 20_000)
WINDOWS = (1, 64, 512, 4_096)
SESSION_COUNTS = (1, 4, 64)
MTUS_BYTES = (1_408, 8_192)
ROUND_TRIPS_OF_A_WINDOW = 2_000  # a window of 1 takes this many round trips, a wide one `message_count`
COST_MODES: tuple[ServiceMode, ...] = ("inline", "process")
COST_RUNS = {"round trip": 1, "window 512": 512}
CALM = {"leader_heartbeat_timeout": "20s"}  # a traced node is slow, and is to stay the leader
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
    paired_rounds: int
    state_mb: int


FULL = Effort(
    floor_count=20_000, round_trip_count=10_000, warm_up_count=500, message_count=150_000, window=512, open_loop_s=4.0,
    archive_mb=256, idle_s=10.0, paired_rounds=5, state_mb=1024,
)  # fmt: skip
QUICK = Effort(
    floor_count=2_000, round_trip_count=500, warm_up_count=100, message_count=5_000, window=256, open_loop_s=0.5,
    archive_mb=32, idle_s=2.0, paired_rounds=1, state_mb=64,
)  # fmt: skip


def run_suite(what: str, json_path: Path | None, *, quick: bool, console: Console | None = None) -> Figures:
    """Run `rtt`, `throughput` or `all`; print the figures, write them to `json_path` if given, and return them."""
    console = console or output_console()
    effort = QUICK if quick else FULL
    figures: Figures = {"machine": describe_machine(), "configuration": describe_configuration(effort), "quick": quick}
    start_s = time.monotonic()
    for name, measure in PARTS[what]:
        console.print(f"{time.monotonic() - start_s:6.1f} s  measuring {name}", style="dim")
        figures |= measure(effort)
    figures["seconds"] = round(time.monotonic() - start_s, 1)
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    show(console, figures)
    return figures


def describe_configuration(effort: Effort) -> Figures:
    """Return what a figure was measured with unless its name says otherwise."""
    return {
        "members": 3,
        "service_mode": DEFAULT_SERVICE_MODE,
        "sync": DEFAULT_SYNC,
        "size_bytes": SIZES_BYTES[0],
        "window": effort.window,
        "windows": list(WINDOWS),
        "throughput_client": "native, best of the windows",
        "network": "loopback",
        "temporary_folder": tempfile.gettempdir(),
    }


def measure_floor_rtt(effort: Effort) -> Figures:
    by_size = {str(size): measure_floor(size, effort.floor_count) for size in SIZES_BYTES}
    return {"floor_rtt_us": by_size[str(SIZES_BYTES[0])], "floor_rtt_us_by_size": by_size}


def measure_rtt(effort: Effort) -> Figures:
    return {"rtt_us": _rtt(effort, DEFAULT_SERVICE_MODE), "rtt_inline_us": _rtt(effort, "inline")}


def _rtt(effort: Effort, service_mode: ServiceMode) -> Figures:
    figures: Figures = {}
    for sync in SYNC_MODES:
        with _cluster(PYTHON_ECHO, sync, service_mode) as cluster:
            figures[sync] = {str(size): _round_trips(cluster, size, effort) for size in SIZES_BYTES}
    return figures


def measure_throughput(effort: Effort) -> Figures:
    best: Figures = {}
    by_window: Figures = {}
    by_python: Figures = {}
    by_sessions: Figures = {}
    for name, service in SERVICES.items():
        for sync in SYNC_MODES:
            with _cluster(service, sync) as cluster:
                rates = {str(size): _native_throughput(cluster, size, effort) for size in SIZES_BYTES}
                if service == NATIVE_ECHO and sync == "none":
                    by_sessions = _throughput_by_sessions(cluster, effort)
                python = {str(size): _throughput(cluster, size, effort) for size in SIZES_BYTES}
            by_window.setdefault(name, {})[sync] = rates
            best.setdefault(name, {})[sync] = {size: max(windows.values()) for size, windows in rates.items()}
            by_python.setdefault(name, {})[sync] = python
    return {
        "throughput_msgs_per_s": best,
        "throughput_by_window": by_window,
        "throughput_by_sessions": by_sessions,
        "throughput_by_mtu": {str(mtu_bytes): _throughput_by_mtu(mtu_bytes, effort) for mtu_bytes in MTUS_BYTES},
        "throughput_python_client_msgs_per_s": by_python,
    }


def _throughput_by_sessions(cluster: LocalCluster, effort: Effort) -> Figures:
    figures: Figures = {}
    for sessions in SESSION_COUNTS:
        with NativeLoad(cluster.ingress_endpoints, SIZES_BYTES[0], sessions) as load:
            load.pipelined(effort.message_count // 10, effort.window)
            count = effort.message_count // sessions * sessions
            figures[str(sessions)] = round(count / load.pipelined(count, effort.window))
    return figures


def _throughput_by_mtu(mtu_bytes: int, effort: Effort) -> Figures:
    with LocalCluster(NATIVE_ECHO, sync="none", cluster={"mtu": mtu_bytes}) as cluster:
        cluster.await_leader()
        by_size = {size: _native_throughput(cluster, size, effort, mtu_bytes) for size in SIZES_BYTES}
    return {str(size): max(windows.values()) for size, windows in by_size.items()}


def measure_costs(effort: Effort) -> Figures:
    """Inline and with the service's own process, one message on the way and many; nothing is synced."""
    costs: Figures = {}
    calls: Figures = {}
    for mode in COST_MODES:
        with LocalCluster(NATIVE_ECHO, sync="none", service_mode=mode, cluster=CALM) as cluster:
            cluster.await_leader()
            for name, window in COST_RUNS.items():
                count = min(effort.message_count, ROUND_TRIPS_OF_A_WINDOW * window)
                plan = LoadPlan(cluster.ingress_endpoints, SIZES_BYTES[0], count, window)
                used, seconds = measure_cpu_us(cluster, plan)
                costs[f"{mode}, {name}"] = used | {"per_s": round(count / seconds)}
                calls[f"{mode}, {name}"] = measure_calls(cluster, plan)
    return {"cost_us": costs, "system_calls": calls}


def measure_open_loop(effort: Effort) -> Figures:
    return {"open_loop_us": _open_loop(effort, DEFAULT_SYNC), "open_loop_sync_none_us": _open_loop(effort, "none")}


def _open_loop(effort: Effort, sync: SyncMode) -> Figures:
    figures: Figures = {}
    with _cluster(PYTHON_ECHO, sync) as cluster:
        for rate in RATES:
            with EchoSession(cluster.ingress_endpoints, SIZES_BYTES[0]) as session:
                session.pipelined(effort.warm_up_count, effort.window)
                figures[str(rate)] = percentiles_us(session.open_loop(rate, effort.open_loop_s))
    return figures


def measure_archive(effort: Effort) -> Figures:
    return {
        "record_mb_per_s": measure_record_mb_per_s(DEFAULT_SYNC, effort.archive_mb),
        "record_sync_none_mb_per_s": measure_record_mb_per_s("none", effort.archive_mb),
        "replay_mb_per_s": measure_replay_mb_per_s(effort.archive_mb),
    }


def measure_node_cost(effort: Effort) -> Figures:
    with _cluster(PYTHON_ECHO, DEFAULT_SYNC) as cluster:
        with EchoSession(cluster.ingress_endpoints, SIZES_BYTES[0]) as session:
            session.pipelined(effort.message_count // 10, effort.window)
        rss_mb, pss_mb = measure_rss_mb(cluster), measure_pss_mb(cluster)
        idle = measure_idle_cpu_percent(cluster, effort.idle_s)
    return {
        "idle_cpu_percent": max(idle.values()),
        "idle_cpu_percent_by_role": idle,
        "node_rss_mb": round(sum(rss_mb.values()), 1),
        "node_rss_mb_by_part": rss_mb,
        "node_pss_mb": pss_mb,
    }


def measure_encryption_cost(effort: Effort) -> Figures:
    return measure_encryption(
        NATIVE_ECHO,
        SIZES_BYTES,
        rounds=effort.paired_rounds,
        round_trip_count=effort.round_trip_count,
        message_count=effort.message_count,
        window=effort.window,
    )


def measure_request_cost(effort: Effort) -> Figures:
    return measure_requests(
        rounds=effort.paired_rounds,
        round_trip_count=effort.round_trip_count,
        message_count=effort.message_count,
        window=effort.window,
    )


def measure_snapshot(effort: Effort) -> Figures:
    return measure_snapshot_pause(effort.state_mb, effort.round_trip_count)


def measure_messages(effort: Effort) -> Figures:
    return measure_message_codecs(effort.paired_rounds, effort.message_count)


def measure_steps(effort: Effort) -> Figures:
    return measure_waterfall(SIZES_BYTES[0], effort.round_trip_count)


PARTS: dict[str, list[tuple[str, Callable[[Effort], Figures]]]] = {
    "rtt": [("the raw floor", measure_floor_rtt), ("round trips", measure_rtt)],
    "throughput": [("throughput", measure_throughput)],
    "costs": [("what a message costs", measure_costs)],
    "encryption": [("what encryption costs", measure_encryption_cost)],
    "requests": [("what requests cost", measure_request_cost)],
    "messages": [("messages with types", measure_messages)],
    "top": [("the steps of a request", measure_steps)],
    "snapshot": [("the pause of a snapshot", measure_snapshot)],
}
PARTS["all"] = [
    *PARTS["rtt"],
    *PARTS["throughput"],
    *PARTS["costs"],
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


def _native_throughput(
    cluster: LocalCluster, size_bytes: int, effort: Effort, mtu_bytes: int = MTUS_BYTES[0]
) -> dict[str, int]:
    with NativeLoad(cluster.ingress_endpoints, size_bytes, mtu_bytes=mtu_bytes) as load:
        load.pipelined(effort.message_count // 10, effort.window)
        counts = {window: min(effort.message_count, ROUND_TRIPS_OF_A_WINDOW * window) for window in WINDOWS}
        return {str(window): round(count / load.pipelined(count, window)) for window, count in counts.items()}


def show(console: Console, figures: Figures) -> None:
    """Print the figures that are there."""
    machine = figures["machine"]
    where = f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, loopback"
    console.print(where, markup=False, soft_wrap=True)
    _show_latencies(console, figures)
    _show_throughput(console, figures)
    _show_costs(console, figures)
    _show_encryption(console, figures)
    show_requests(console, figures)
    _show_snapshot(console, figures)
    show_waterfall(console, figures)
    show_message_codecs(console, figures)
    for name in FIGURES_ALONE:
        if name in figures:
            console.print(f"{name}: {figures[name]:,}", markup=False)


def _show_throughput(console: Console, figures: Figures) -> None:
    clients = {
        "throughput_msgs_per_s": "native, best window",
        "throughput_python_client_msgs_per_s": f"Python, window {figures['configuration']['window']}",
    }
    sizes = (f"{size} bytes" for size in SIZES_BYTES)
    table = Table("service", "client", "sync", *sizes, title="messages a second", box=None)
    for name, client in clients.items():
        for service, modes in figures.get(name, {}).items():
            for sync, by_size in modes.items():
                table.add_row(service, client, sync, *(f"{value:,}" for value in by_size.values()))
    for mtu_bytes, by_size in figures.get("throughput_by_mtu", {}).items():
        table.add_row("cython", f"native, best window, MTU {mtu_bytes}", "none", *(f"{n:,}" for n in by_size.values()))
    if table.row_count:
        console.print(table)


def _show_costs(console: Console, figures: Figures) -> None:
    table = Table("cost of a message", "role", "us of a core", "system calls", "of them", box=None)
    for run, roles in figures.get("cost_us", {}).items():
        for role, used in roles.items():
            if role == "per_s":
                continue
            calls = dict(figures["system_calls"][run].get(role, {}))
            total = calls.pop("total", "-")
            most = ", ".join(f"{name} {number:g}" for name, number in calls.items() if number >= 0.1)
            table.add_row(run, role, f"{used:g}", str(total), most)
    if table.row_count:
        console.print(table)


def _show_latencies(console: Console, figures: Figures) -> None:
    names = ("p50", "p90", "p99", "p999", "p9999")
    table = Table("round trip in us", "sync", "bytes", *names, box=None)

    def add(what: str, sync: str, size: str | int, values: dict[str, float]) -> None:
        table.add_row(what, sync, str(size), *(f"{values[name]:,.0f}" for name in names))

    for size, values in figures.get("floor_rtt_us_by_size", {}).items():
        add("raw floor", "-", size, values)
    for name, what in (("rtt_us", "cluster"), ("rtt_inline_us", "cluster, inline")):
        for sync, by_size in figures.get(name, {}).items():
            for size, values in by_size.items():
                add(what, sync, size, values)
    for name, sync in (("open_loop_us", DEFAULT_SYNC), ("open_loop_sync_none_us", "none")):
        for rate, values in figures.get(name, {}).items():
            add(f"open loop, {int(rate):,}/s", sync, SIZES_BYTES[0], values)
    if table.row_count:
        console.print(table)


def _show_encryption(console: Console, figures: Figures) -> None:
    table = Table("cluster, inline, sync none", "bytes", "messages a second", "rtt p50 us", "rtt p99 us", box=None)
    for kind, found in figures.get("encryption", {}).items():
        for size, rate in found["msgs_per_s"].items():
            trips = found["rtt_us"][size]
            table.add_row(kind, size, f"{rate:,}", f"{trips['p50']:g}", f"{trips['p99']:g}")
    for size, cost in figures.get("encryption_cost", {}).items():
        added = cost["rtt_added_us"]
        lost = f"{-cost['throughput_lost_percent']:+g} %"
        table.add_row("difference", size, lost, f"{added['p50']:+g}", f"{added['p99']:+g}")
    if table.row_count:
        console.print(table)


def _show_snapshot(console: Console, figures: Figures) -> None:
    title = f"snapshot of {figures.get('snapshot_state_mb')} MiB of Python objects, in ms"
    table = Table("service", "longest round trip before", "during the snapshot", "fork alone", title=title, box=None)
    for kind, found in figures.get("snapshot_pause_ms", {}).items():
        fork = f"{found['fork']:g}" if "fork" in found else "-"
        table.add_row(kind, f"{found['longest_before']:g}", f"{found['longest_during']:g}", fork)
    if table.row_count:
        console.print(table)
