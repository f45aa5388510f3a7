"""Clusters of Ordo beside Aeron's Java cluster, etcd and NATS JetStream, in one run.

    python -m benchmarks.peers [--quick] [--write] [--no-java | --java-idle=backoff] [--no-go] [--json out.json]

Three members and one client on loopback. One cluster runs at a time: it is started, warmed up, measured and stopped.
The contenders take turns, and who begins alternates with each round. What is told is the median of the rounds. Ordo and
Aeron echo: a client that is native to each sends messages of one session with a window of them on the way, and takes
the echoes of a Cython service (Ordo, inline on the node's thread or in a process of its own) or a Java service. Etcd
and NATS are driven by their own benchmark tools, which put a value, or publish a message, and wait until it is stored
by a quorum: something a client waits for as well, but no service is executed and nothing is echoed.

`sync`: "none" leaves what is written to the page cache; "commit" (Aeron: file sync level 1; etcd: always; NATS:
sync_interval always) acknowledges only what is on disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.go_peers import GoMissingError, GoTools, fetch_tools, measure_etcd, measure_nats
from benchmarks.java_cluster import JavaCluster
from benchmarks.page import NOTES, put_section, table
from benchmarks.pages import touch_memory
from benchmarks.pairs import End, Samples, medians
from benchmarks.transport import AERON, java_command
from ordo.bench.machine import Machine, describe_machine
from ordo.deploy.launcher import LocalCluster, ServiceMode, SyncMode
from tests.peers.peer_process import PeerMissingError
from tools.arguments import writable_file

NAME = "bench-peers"
SERVICE = "ordo.bench.loads.echo_native:NativeEcho"
INLINE, PROCESS = "Ordo, inline", "Ordo, service process"
MTU_BYTES = 8192
MEMORY_BYTES = 6 << 30
"""More than the logs of a cluster take before their files are deleted."""
SYNCS: tuple[SyncMode, ...] = ("none", "commit")
Row = tuple[str, int, int]
"""Sync mode, bytes, window."""
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Effort:
    """How much is measured: rounds, and about how long each figure takes."""

    rounds: int = 3
    duration_s: float = 0.6
    warm_up_s: float = 2.5
    sizes_bytes: tuple[int, ...] = (32, 288, 1024)
    windows: tuple[int, ...] = (1, 512, 4096)
    java_idle: str = "yield"


QUICK = Effort(rounds=1, duration_s=0.1, warm_up_s=0.2, sizes_bytes=(32,), windows=(1, 64))


@contextmanager
def ordo_client(mode: ServiceMode, sync: SyncMode, effort: Effort) -> Iterator[End]:
    """A client of a fresh cluster of Ordo."""
    with LocalCluster(SERVICE, sync=sync, service_mode=mode, cluster={"mtu": MTU_BYTES}) as cluster:
        cluster.await_leader()
        endpoints = ",".join(f"{member}={where}" for member, where in cluster.ingress_endpoints.items())
        sizes = ",".join(map(str, effort.sizes_bytes))
        with End([sys.executable, "-m", "benchmarks.cluster_peer", endpoints, sizes, str(MTU_BYTES)]) as end:
            end.await_line("ready")
            yield end


@contextmanager
def java_client(sync: SyncMode, effort: Effort) -> Iterator[End]:
    """A client of a fresh cluster of Aeron."""
    with JavaCluster(0 if sync == "none" else 1, MTU_BYTES, effort.java_idle) as cluster:
        yield cluster.client()


def load(end: End, size_bytes: int, window: int, count: int) -> dict[str, float]:
    sent, took_ns, p50_ns, p99_ns = map(int, end.ask(f"load {size_bytes} {window} {count}"))
    return {"per_s": sent / took_ns * 1e9, "p50_us": p50_ns / 1000, "p99_us": p99_ns / 1000}


def measure_cluster(end: End, effort: Effort) -> dict[tuple[int, int], dict[str, float]]:
    """Every size and window; how many messages make up the time is found while warming up."""
    found = {}
    for size_bytes in effort.sizes_bytes:
        for window in effort.windows:
            rate = 100.0
            until_s = time.monotonic() + effort.warm_up_s / len(effort.sizes_bytes) / len(effort.windows)
            while True:
                rate = load(end, size_bytes, window, max(50, min(window * 4, 4000), round(rate * 0.1)))["per_s"]
                if time.monotonic() >= until_s:
                    break
            found[size_bytes, window] = load(end, size_bytes, window, max(50, round(rate * effort.duration_s)))
    return found


def clients(sync: SyncMode, effort: Effort, with_java: bool) -> dict[str, Callable[[], AbstractContextManager[End]]]:
    """What opens a client of each contender."""
    openers: dict[str, Callable[[], AbstractContextManager[End]]] = {
        INLINE: partial(ordo_client, "inline", sync, effort),
        PROCESS: partial(ordo_client, "process", sync, effort),
    }
    if with_java:
        openers[AERON] = partial(java_client, sync, effort)
    return openers


def measure(effort: Effort, with_java: bool, say: Callable[[str], object] = print) -> dict[Row, Figures]:
    """Figures of the clusters that echo, by contender, by row."""
    samples: dict[Row, Samples] = {}
    for sync in SYNCS:
        openers = clients(sync, effort, with_java)
        for number in range(effort.rounds):
            for name in list(openers) if number % 2 == 0 else list(reversed(openers)):
                say(f"{time.strftime('%H:%M:%S')} sync = {sync}, round {number + 1}: {name}")
                with openers[name]() as end:
                    for (size_bytes, window), figures in measure_cluster(end, effort).items():
                        row = samples.setdefault((sync, size_bytes, window), {each: [] for each in openers})
                        row[name].append(figures)
    return {row: medians(each) for row, each in samples.items()}


def describe(rows: dict[Row, Figures], others: list[list[str]], effort: Effort, machine: Machine) -> list[str]:
    """The section of the page; `machine` as it was before the run."""
    lines = [
        f"{machine['processor']}, {machine['cores']} cores for three members and the client, Linux "
        f"{machine['kernel']}, loopback; load average before the run {machine['load_average_1m']}. One session, MTU "
        f"{MTU_BYTES:,}, Aeron's threads without work: {effort.java_idle}; "
        f"medians of {effort.rounds} alternating rounds of {effort.duration_s:g} s. Aeron's JVM is warmed up for "
        f"{effort.warm_up_s:g} s in all, which is too little: its columns are no basis for a ratio.",
        "",
    ]
    head = ["sync", "bytes", "window", *(f"echoes a second: {INLINE}", PROCESS, AERON)]
    head += [f"µs p50 / p99: {INLINE}", PROCESS, AERON]
    cells = []
    for (sync, size_bytes, window), figures in rows.items():
        rates = [f"{figures[who]['per_s']:,.0f}" if who in figures else "-" for who in (INLINE, PROCESS, AERON)]
        times = [times_of(figures.get(who)) for who in (INLINE, PROCESS, AERON)]
        cells.append([sync, f"{size_bytes:,}", f"{window:,}", *rates, *times])
    lines += table(head, cells)
    if others:
        lines += ["", *table(["stored by a quorum", "sync", "bytes", "on the way", "a second", "µs p50 / p99"], others)]
    return lines


def times_of(figures: dict[str, float] | None) -> str:
    return "-" if figures is None else f"{figures['p50_us']:,.0f} / {figures['p99_us']:,.0f}"


def measure_others(tools: GoTools, effort: Effort, say: Callable[[str], object] = print) -> list[list[str]]:
    """Rows of etcd and NATS."""
    found = []
    for name, measure_one in (("etcd", measure_etcd), ("NATS JetStream", measure_nats)):
        say(f"{time.strftime('%H:%M:%S')} {name}")
        found += measure_one(tools, effort.sizes_bytes, effort.duration_s)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure clusters of Ordo beside those of others.")
    parser.add_argument("--quick", action="store_true", help="one short round: to see that it runs, not to quote")
    parser.add_argument("--write", action="store_true", help="put the table into docs/design/PERFORMANCE-NOTES.md")
    parser.add_argument("--no-java", action="store_true", help="without Aeron")
    parser.add_argument("--no-go", action="store_true", help="without etcd and NATS")
    idles = ("yield", "backoff")
    parser.add_argument("--java-idle", choices=idles, default="yield", help="what Aeron's threads without work do")
    parser.add_argument("--json", type=writable_file, help="write the figures to this file as well")
    chosen = parser.parse_args(arguments)
    machine = describe_machine()
    effort = replace(QUICK if chosen.quick else Effort(), java_idle=chosen.java_idle)
    try:
        if not chosen.no_java:
            java_command("ClusterNode")
        tools = None if chosen.no_go else fetch_tools()
    except (PeerMissingError, GoMissingError) as missing:
        sys.exit(f"{missing}; or leave these out with --no-java, --no-go")
    if not chosen.quick:
        touch_memory(MEMORY_BYTES)
    rows = measure(effort, not chosen.no_java)
    others = [] if tools is None else measure_others(tools, effort)
    lines = describe(rows, others, effort, machine)
    print("\n".join(lines))
    if chosen.json:
        named = {f"sync {sync}, {size} B, window {window}": each for (sync, size, window), each in rows.items()}
        figures = {"machine": machine, "rows": named, "others": others}
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n")
    if chosen.write:
        put_section(NAME, lines, NOTES)


if __name__ == "__main__":
    main()
