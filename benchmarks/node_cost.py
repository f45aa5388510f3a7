"""What an idle cluster costs: processor time and memory of a node and its service container."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cluster.launcher import LocalCluster

KIBIBYTES_PER_MEBIBYTE = 1024


def measure_idle_cpu_percent(cluster: LocalCluster, seconds: float) -> dict[str, float]:
    """Percent of one core of every node with its container over `seconds`, by `leader` and the worst `follower`."""
    leader = cluster.await_leader()
    before = {member_id: _cpu_ticks(cluster, member_id) for member_id in cluster.member_ids}
    start_s = time.monotonic()
    time.sleep(seconds)
    elapsed_ticks = (time.monotonic() - start_s) * os.sysconf("SC_CLK_TCK")
    used = {
        member_id: round(100 * (_cpu_ticks(cluster, member_id) - before[member_id]) / elapsed_ticks, 2)
        for member_id in cluster.member_ids
    }
    return {"leader": used[leader], "follower": max(used[member] for member in cluster.member_ids if member != leader)}


def measure_rss_mb(cluster: LocalCluster) -> dict[str, float]:
    """MiB of the leader: `node` and `container` resident without shared memory, `shared` what both map of it."""
    node, *containers = family(cluster.pid(cluster.await_leader()))
    shared = max(_status_kib(pid, "RssShmem") for pid in (node, *containers))
    private = {pid: _status_kib(pid, "VmRSS") - _status_kib(pid, "RssShmem") for pid in (node, *containers)}
    return {
        "node": round(private[node] / KIBIBYTES_PER_MEBIBYTE, 1),
        "container": round(sum(private[pid] for pid in containers) / KIBIBYTES_PER_MEBIBYTE, 1),
        "shared": round(shared / KIBIBYTES_PER_MEBIBYTE, 1),
    }


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def _cpu_ticks(cluster: LocalCluster, member_id: int) -> int:
    return sum(_process_ticks(pid) for pid in family(cluster.pid(member_id)))


def _process_ticks(pid: int) -> int:
    """User and system time in clock ticks: fields 14 and 15 of /proc/<pid>/stat, counted after the name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _status_kib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0
