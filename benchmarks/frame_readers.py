"""Readers of the live stream that cost as little as can be, and what they cost the node that serves them at full load.

They take frames and do nothing with them, in a process that, once they are live, goes behind all others that want a
processor (nice 19). So what a cluster loses beside them is, for the most part, what its nodes spend on them, with what
the kernel does on loopback for the receiver of a datagram; on another machine that one would do it.

The load comes in bursts as fast as the cluster takes them, each shorter than what a reader's window holds. In the pause
behind it the readers take what has come, so none of them falls behind, as they would not on processors of their own.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.bench.costs import CallsByRole, count_calls
from ordo.bench.loads.latency import new_histogram, percentiles_us
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.node_cost import kernel_share, running_ns, ticks
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.deploy.launcher import LocalCluster
from ordo.follow.follower import LogFollower
from ordo.transport.client.client_transport import ClientTransport

BURST = 4_000
WINDOW = 512
PAUSE_S = 0.03
BLOCK_BYTES_MAX = 1 << 20
PARK_S = 0.001
ROUNDS = 3
LAST_PRIORITY = 19


class FrameReader:
    """Follows the log by the live stream of one node, block by block."""

    def __init__(self, address: str) -> None:
        self.transport = ClientTransport.embedded("frame-reader")
        settings = ArchiveClientSettings.at(address, name="frame-reader")
        self.follower = LogFollower(self.transport.client, [settings], None, 2.0, goes_live=True)

    def work(self) -> int:
        """Takes what has come; the bytes or fragments."""
        follower = self.follower
        follower.work(self.transport.drive())
        image = follower.source.image if follower.is_live and follower.source is not None else None
        if image is None:
            return follower.poll(lambda entry: None, 256)
        count = image.block_poll(lambda frames, session_id, term_id: None, BLOCK_BYTES_MAX)
        if count:
            follower.advance(image.position)
        return count

    def close(self) -> None:
        self.follower.close()
        self.transport.close()


def follow(address: str, count: int) -> None:
    """Runs so many readers; says for every line on standard input how many of them are live, until its end. Once all
    are, it goes behind everybody else who wants a processor."""
    with ExitStack() as stack:
        readers = [FrameReader(address) for _ in range(count)]
        for reader in readers:
            stack.callback(reader.close)
        waited_for: list[Any] = [sys.stdin, *(reader.transport.descriptor for reader in readers)]
        while True:
            work_count = sum(reader.work() for reader in readers)
            if sys.stdin in select.select(waited_for, [], [], 0 if work_count else PARK_S)[0]:
                if not sys.stdin.readline():
                    return
                live = sum(reader.follower.is_live for reader in readers)
                if live == count:
                    os.setpriority(os.PRIO_PROCESS, 0, LAST_PRIORITY)
                print(live, flush=True)


@contextmanager
def frame_readers(address: str, count: int) -> Iterator[Callable[[], int]]:
    """While so many follow the node at `address` live; gives what counts those that do."""
    if count == 0:
        yield lambda: 0
        return
    command = [sys.executable, "-m", "benchmarks.frame_readers", address, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def count_live() -> int:
        stdin.write("\n")
        stdin.flush()
        return int(stdout.readline())

    try:
        while count_live() < count:
            time.sleep(0.1)
        yield count_live
    finally:
        process.communicate()


class Burst(NamedTuple):
    """What the messages of one measurement took."""

    echoes_per_s: float
    p99_us: float
    node_us: dict[str, float]
    """Processor time of a message, by the role of the node."""
    kernel: dict[str, float]
    """How much of it was the kernel's, 0 to 1."""


def run_bursts(load: NativeLoad, nodes: dict[str, int], seconds: float) -> Burst:
    before = {role: (running_ns(pid), ticks(pid)) for role, pid in nodes.items()}
    rates, histogram, messages = [], new_histogram(), 0
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        took_ns, times = load.measured(BURST, WINDOW)
        rates.append(BURST * 1e9 / took_ns)
        histogram.add(times)
        messages += BURST
        pause_end_s = time.monotonic() + PAUSE_S
        while time.monotonic() < pause_end_s:
            time.sleep(PAUSE_S / 10)
            load.keep()
    return Burst(
        median(rates),
        percentiles_us(histogram)["p99"],
        {role: (running_ns(pid) - before[role][0]) / 1000 / messages for role, pid in nodes.items()},
        {role: kernel_share(pid, before[role][1]) for role, pid in nodes.items()},
    )


def trace_burst(load: NativeLoad, nodes: dict[str, int]) -> CallsByRole:
    """System calls of a message of one burst, by the role of the node."""
    return count_calls({role: [pid] for role, pid in nodes.items()}, lambda: load.pipelined(BURST, WINDOW), BURST)


def measure_full_load(cluster: LocalCluster, counts: list[int], seconds: float, size_bytes: int) -> dict[str, object]:
    """Medians of rounds by turns, without readers and with so many at one follower."""
    leader = cluster.await_leader(60)
    serving, other = (member_id for member_id in cluster.member_ids if member_id != leader)
    nodes = {name: cluster.pid(one) for name, one in (("leader", leader), ("serving", serving), ("other", other))}
    address = archive_endpoint(cluster.ingress_endpoints[serving])
    measured: dict[int, list[Burst]] = {count: [] for count in counts}
    calls: dict[int, CallsByRole] = {}
    left_live: dict[int, int] = {}
    for number in range(ROUNDS):
        for count in counts:
            with frame_readers(address, count) as count_live:
                with NativeLoad(cluster.ingress_endpoints, size_bytes) as load:
                    load.sustained(min(1.0, seconds / ROUNDS), BURST, WINDOW)
                    measured[count].append(run_bursts(load, nodes, seconds / ROUNDS))
                left_live[count] = min(left_live.get(count, count), count_live())
                if number == 0:
                    with NativeLoad(cluster.ingress_endpoints, size_bytes) as load:
                        calls[count] = trace_burst(load, nodes)
    return {
        "burst": BURST,
        "window": WINDOW,
        "size_bytes": size_bytes,
        "by_readers": {
            count: _summary(measured[count], calls[count]) | {"live_at_the_end": left_live[count]} for count in counts
        },
    }


def _summary(bursts: list[Burst], calls: CallsByRole) -> dict[str, object]:
    roles = bursts[0].node_us
    return {
        "echoes_per_s": round(median(one.echoes_per_s for one in bursts)),
        "p99_us": round(median(one.p99_us for one in bursts), 1),
        "node_us_per_message": {role: round(median(one.node_us[role] for one in bursts), 2) for role in roles},
        "kernel_percent": {role: round(100 * median(one.kernel[role] for one in bursts)) for role in roles},
        "calls_per_1000": {role: {name: round(1000 * n, 1) for name, n in by.items()} for role, by in calls.items()},
    }


if __name__ == "__main__":
    follow(sys.argv[1], int(sys.argv[2]))
