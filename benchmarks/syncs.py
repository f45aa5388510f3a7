"""What `sync = "commit"` costs beside `sync = "none"`, by size of messages and window.

    python -m benchmarks.syncs [--sizes 32 288 1024] [--windows 512 4096 16384] [--rounds 5] [--json out.json]

Two clusters of three members on this machine, each with a Cython service in a process of its own and a native client,
take turns. Printed are medians of the rounds: echoes a second, the µs of processor time that one message takes of all
processes together, and the messages for each `fdatasync` of a member. A window of more bytes than a session may leave
untaken (`egress_buffer`) is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.page import table
from benchmarks.pairs import Samples, medians
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.machine import describe_machine
from ordo.bench.node_cost import family, running_ns
from ordo.cluster.wire.counters.latencies import Latencies
from ordo.deploy.launcher import LocalCluster, SyncMode
from ordo.runtime.native.memory import FileMemoryProvider
from tools.arguments import writable_file

SERVICE = "ordo.bench.loads.echo_native:NativeEcho"
MODES: tuple[SyncMode, ...] = ("none", "commit")
MTU_BYTES = 8192
EGRESS_BUFFER_BYTES = 8 << 20
MEMORY = FileMemoryProvider()
Figures = dict[str, dict[str, float]]
"""Figures by sync mode."""


@dataclass
class Contender:
    """A cluster and its client."""

    cluster: LocalCluster
    load: NativeLoad

    def measure(self, window: int, count: int) -> dict[str, float]:
        """One run of so many messages, with `window` of them on the way."""
        members = self.cluster.member_ids
        pids = [os.getpid(), *(pid for member_id in members for pid in family(self.cluster.pid(member_id)))]
        before_ns, before = sum(map(running_ns, pids)), self._sync_count()
        seconds = self.load.pipelined(count, window)
        syncs = (self._sync_count() - before) / len(members)
        return {
            "per_s": count / seconds,
            "cpu_us": (sum(map(running_ns, pids)) - before_ns) / count / 1000,
            "per_sync": count / syncs if syncs else math.nan,
        }

    def _sync_count(self) -> int:
        """How often the members have synced what they record, all together."""
        found = (Latencies.find(MEMORY, str(self.cluster.aeron_dir(one)), 0) for one in self.cluster.member_ids)
        return sum(one.read()["sync"].count for one in found if one is not None)


def measure_size(size_bytes: int, windows: Sequence[int], rounds: int, seconds: float) -> dict[int, Figures]:
    """Medians by window; the first round of each window warms up, and says how many messages fill the time."""
    with ExitStack() as stack:
        contenders = {}
        for sync in MODES:
            cluster = stack.enter_context(LocalCluster(SERVICE, sync=sync, cluster={"mtu": MTU_BYTES}))
            cluster.await_leader()
            load = stack.enter_context(NativeLoad(cluster.ingress_endpoints, size_bytes, mtu_bytes=MTU_BYTES))
            contenders[sync] = Contender(cluster, load)
        held = [window for window in windows if window * size_bytes < EGRESS_BUFFER_BYTES]
        return {window: _measure_window(contenders, window, rounds, seconds) for window in held}


def _measure_window(contenders: dict[SyncMode, Contender], window: int, rounds: int, seconds: float) -> Figures:
    counts = {}
    for sync, one in contenders.items():
        rate = one.measure(window, 4 * window)["per_s"]
        counts[sync] = max(
            window, round(one.measure(window, max(window, round(rate * seconds / 2)))["per_s"] * seconds)
        )
    samples: Samples = {sync: [] for sync in contenders}
    for number in range(rounds):
        for sync in MODES if number % 2 else reversed(MODES):
            for idle in contenders.values():
                idle.load.keep()
            samples[sync].append(contenders[sync].measure(window, counts[sync]))
    return medians(samples)


def price_percent(figures: Figures) -> float:
    """How much less a cluster that syncs does in a second."""
    return 100 * (1 - figures["commit"]["per_s"] / figures["none"]["per_s"])


def describe(found: dict[int, dict[int, Figures]]) -> list[str]:
    head = ["bytes", "window", "echoes a second: none", "commit", "price", "µs of processors a message: none", "commit",
            "messages a sync"]  # fmt: skip
    return table(head, [
        [
            f"{size_bytes:,}",
            f"{window:,}",
            *(f"{figures[sync]['per_s']:,.0f}" for sync in MODES),
            f"{price_percent(figures):.0f} %",
            *(f"{figures[sync]['cpu_us']:.2f}" for sync in MODES),
            f"{figures['commit']['per_sync']:,.0f}",
        ]
        for size_bytes, by_window in found.items()
        for window, figures in by_window.items()
    ])  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what syncing costs.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 288, 1024])
    parser.add_argument("--windows", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=writable_file)
    chosen = parser.parse_args(arguments)
    machine = describe_machine()
    found = {size: measure_size(size, chosen.windows, chosen.rounds, chosen.seconds) for size in chosen.sizes}
    where = f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, loopback"
    print(f"{where}; load average before the run {machine['load_average_1m']}", "", *describe(found), sep="\n")
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine, "sizes": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
