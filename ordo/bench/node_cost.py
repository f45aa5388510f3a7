"""What an idle cluster costs: processor time and memory of a node and its service container."""

from __future__ import annotations

import time
from pathlib import Path

from ordo.deploy.launcher import LocalCluster

KIBIBYTES_PER_MEBIBYTE = 1024


def measure_idle_cpu_percent(cluster: LocalCluster, seconds: float) -> dict[str, float]:
    """Percent of one core of each node with its container over `seconds`, by `leader` and the worst `follower`."""
    leader = cluster.await_leader()
    families = {member_id: family(cluster.pid(member_id)) for member_id in cluster.member_ids}
    before_ns = {member_id: sum(map(running_ns, pids)) for member_id, pids in families.items()}
    start_ns = time.monotonic_ns()
    time.sleep(seconds)
    elapsed_ns = time.monotonic_ns() - start_ns
    used = {
        member_id: round(100 * (sum(map(running_ns, pids)) - before_ns[member_id]) / elapsed_ns, 2)
        for member_id, pids in families.items()
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


def measure_pss_mb(cluster: LocalCluster) -> float:
    """Return the MiB of the leader with its container, counting shared pages by their share.

    This proportional set size is what all nodes of a machine take of it, divided among them.
    """
    pids = family(cluster.pid(cluster.await_leader()))
    return round(sum(_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in pids) / KIBIBYTES_PER_MEBIBYTE, 1)


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def running_ns(pid: int) -> int:
    """Time on a processor of all threads of a process."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def kernel_share(pid: int, before: tuple[int, int] = (0, 0)) -> float:
    """How much of a process's time on a processor since `before` was the kernel's, 0 to 1."""
    user, kernel = (now - then for now, then in zip(ticks(pid), before, strict=True))
    return kernel / max(1, user + kernel)


def ticks(pid: int) -> tuple[int, int]:
    """Time of a process in its own code and in the kernel, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def _status_kib(pid: int, name: str) -> int:
    return _kib(Path(f"/proc/{pid}/status"), name)


def _kib(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0
