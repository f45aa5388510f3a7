"""What a message costs, by role: processor time from /proc, and system calls from a traced run.

Roles: `leader` and `follower` are node processes (`follower` the mean of all), leader_service and follower_service
their containers where the service has a process of its own, `client` the process of the load. A traced run is slow, so
the two are measured one after the other; what is counted does not depend on how fast it was, what is coalesced does.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ordo.bench.loads.load_process import LoadPlan
from ordo.bench.node_cost import family, running_ns
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ConfigurationError

ATTACHED = re.compile(rb"attached")
SUMMARY_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")
CallsByRole = dict[str, dict[str, float]]


class LoadProcess:
    """A client in a process of its own that waits for `run`. Raises ConfigurationError when it cannot begin."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        command = [sys.executable, "-m", "ordo.bench.loads.load_process", plan.to_json()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self._await("ready")

    def run(self) -> float:
        """Send the messages of the plan and return the seconds that they took."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._await("took"))

    def _await(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(word):
            raise ConfigurationError(f"the load ended before it was {word}: status={self._process.wait()}")
        return line.removeprefix(word).strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure_cpu_us(cluster: LocalCluster, plan: LoadPlan) -> tuple[dict[str, float], float]:
    """(processor time in us a message, by role; seconds of the run)."""
    with _load(plan) as load:
        roles = _processes(cluster, load.pid)
        before = {pid: running_ns(pid) for pids in roles.values() for pid in pids}
        seconds = load.run()
        used = {
            role: round(sum(running_ns(pid) - before[pid] for pid in pids) / len(pids) / plan.count / 1000, 2)
            for role, pids in roles.items()
        }
    return used, seconds


def measure_calls(cluster: LocalCluster, plan: LoadPlan) -> CallsByRole:
    """System calls a message, by role and name, `total` among them. Empty where strace is missing or may not look."""
    with _load(plan) as load:
        return count_calls(_processes(cluster, load.pid), load.run, plan.count)


def count_calls(roles: Mapping[str, Sequence[int]], run: Callable[[], object], count: int) -> CallsByRole:
    """As `measure_calls`, of these processes by role, while `run` sends `count` messages."""
    if shutil.which("strace") is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="ordo-calls-") as folder:
        tracers = [_trace(pid, Path(folder, str(pid))) for pids in roles.values() for pid in pids]
        is_attached = all(_is_attached(tracer) for tracer in tracers)
        if is_attached:
            run()
        for tracer in tracers:
            tracer.send_signal(signal.SIGINT)
        for tracer in tracers:
            tracer.communicate()
        if not is_attached:
            return {}
        return {role: _mean_calls([Path(folder, str(pid)) for pid in pids], count) for role, pids in roles.items()}


@contextmanager
def _load(plan: LoadPlan) -> Iterator[LoadProcess]:
    load = LoadProcess(plan)
    try:
        yield load
    finally:
        load.close()


def _processes(cluster: LocalCluster, client_pid: int) -> dict[str, list[int]]:
    leader = cluster.await_leader()
    roles: dict[str, list[int]] = defaultdict(list)
    for member_id in cluster.member_ids:
        role = "leader" if member_id == leader else "follower"
        node, *containers = family(cluster.pid(member_id))
        roles[role].append(node)
        roles[f"{role}_service"] += containers
    return {role: pids for role, pids in roles.items() if pids} | {"client": [client_pid]}


def _trace(pid: int, path: Path) -> subprocess.Popen[bytes]:
    """Count the system calls of a process and its threads into a file until it gets SIGINT."""
    return subprocess.Popen(
        ["strace", "-c", "-f", "-U", "time-percent,total-time,avg-time,calls,errors,name", "-o", str(path),
         "-p", str(pid)], stderr=subprocess.PIPE,
    )  # fmt: skip


def _is_attached(tracer: subprocess.Popen[bytes]) -> bool:
    assert tracer.stderr is not None
    return ATTACHED.search(tracer.stderr.readline()) is not None


def _mean_calls(paths: list[Path], count: int) -> dict[str, float]:
    calls: Counter[str] = Counter()
    for path in paths:
        for line in path.read_text().splitlines():
            found = SUMMARY_LINE.match(line)
            if found and found[2] != "total":
                calls[found[2]] += int(found[1])
    named = {name: round(number / len(paths) / count, 3) for name, number in calls.most_common()}
    return {"total": round(sum(calls.values()) / len(paths) / count, 2)} | named
