"""What a standby costs its primary: the same load with one attached and without, in pairs.

    python -m benchmarks.standby [--pairs 10] [--seconds 5] [--rate 5000] [--sync none] [--realtime] [--json f]
        [--folder /dev/shm]

Three nodes, their client and the standby are on this machine. A standby elsewhere takes no processor of the primary's;
this one does, so it is niced and has only what the others leave, which is not nothing: what is seen is an upper bound.
Its lag at the end of each run says whether it followed all the same. Its folder is in memory, so that it does not sync
the disk of the primary, whose folders are below `--folder`.

`--realtime`, as root: nodes and client run under SCHED_RR, and the standby as well, below them. So they have the cores
before whatever else runs on the machine, and what is seen is theirs.

In each pair one run is beside the standby and one without, in turn which is first. A run sends `rate` messages of 64
bytes a second, as many every 10 ms, and takes the time of each until its echo. `nodes_us_per_message` is processor time
of the three nodes with their service containers for a message, the kernel's in it: it counts what they do, and depends
little on who else wants the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import NamedTuple

import tomlkit

from benchmarks.pairs import LINE_TIMEOUT_S
from ordo.bench.loads.latency import new_histogram, percentiles_us
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.machine import describe_machine
from ordo.bench.node_cost import family, running_ns
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.standby.folder import STATUS
from ordo.standby.report import describe_standby
from tools.arguments import writable_file

ECHO = "ordo.bench.loads.echo:Echo"
SIZE_BYTES = 64
WINDOW = 64
TURN_S = 0.01
REALTIME = 2
"""Priority of the nodes; the standby has the one below."""
NICENESS = 19
MEMORY = "/dev/shm"
WARM_UP_S = 2.0
KEEP_S = 0.01
STANDBY_ID = 9
STEADY = {"leader_heartbeat_timeout": "5s"}
"""On a busy machine the leader stays the leader."""
Figures = dict[str, object]


class Run(NamedTuple):
    """What was seen of the primary in one run."""

    p50_us: float
    p99_us: float
    nodes_us_per_message: float
    per_s: float
    lag_bytes: int
    """Of the standby at the end; -1 where there is none."""


class Standby:
    """A standby of a cluster, which is attached and taken away again and again."""

    def __init__(self, cluster: LocalCluster, folder: Path, *, is_realtime: bool) -> None:
        (port,) = find_ports(1)
        self._path = folder / "standby.toml"
        node = {"member_id": STANDBY_ID, "data_dir": str(folder / "standby")}
        members = [{"id": STANDBY_ID, "host": "127.0.0.1", "port": port}]
        self._path.write_text(tomlkit.dumps({"node": node, "members": members}))
        self._log = folder / "standby.log"
        below = ["chrt", "-r", str(REALTIME - 1)] if is_realtime else ["nice", "-n", str(NICENESS)]
        command = [*below, sys.executable, "-P", "-m", "ordo.cli", "standby", "run"]
        places = ["--config", str(self._path), "--endpoints", ",".join(cluster.ingress_endpoints.values())]
        self._command = [*command, *places, "--service", ECHO]

    def lag_bytes(self) -> int | None:
        """How far it is behind, as it has told last; None where that is not known."""
        config = load_config(self._path)
        if not (config.node.data_dir / STATUS).exists():
            return None
        found = describe_standby(config)
        return found.get("lag_bytes") if found.get("state") == "following" else None

    @contextmanager
    def attached(self, keep: Callable[[], object]) -> Iterator[None]:
        """While it follows, from when it has all of the log. `keep` keeps the load's session alive meanwhile."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            until_s = time.monotonic() + LINE_TIMEOUT_S
            while self.lag_bytes() != 0:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise TimeoutError(f"no standby follows within {LINE_TIMEOUT_S:g} s: {self._log.read_text()}")
                keep()
                time.sleep(KEEP_S)
            yield
        finally:
            process.terminate()
            while process.poll() is None:
                keep()
                time.sleep(KEEP_S)


def apply_load(cluster: LocalCluster, load: NativeLoad, rate: int, seconds: float, lag: Callable[[], int]) -> Run:
    """Send so many messages a second for some seconds."""
    pids = [pid for member_id in cluster.member_ids for pid in family(cluster.pid(member_id))]
    histogram, a_turn, count = new_histogram(), max(1, round(rate * TURN_S)), 0
    before_ns, begun_s = sum(map(running_ns, pids)), time.monotonic()
    while (now_s := time.monotonic()) < begun_s + seconds:
        if now_s < begun_s + count / rate:
            load.keep()
            time.sleep(0.001)
            continue
        histogram.add(load.measured(a_turn, WINDOW)[1])
        count += a_turn
    took_s, used_ns = time.monotonic() - begun_s, sum(map(running_ns, pids)) - before_ns
    found = percentiles_us(histogram)
    return Run(found["p50"], found["p99"], round(used_ns / 1000 / count, 2), round(count / took_s), lag())


def measure_pairs(
    pairs: int, seconds: float, rate: int, *, folder: str = "", sync: str = "commit", is_realtime: bool = False
) -> Figures:
    """Measure all pairs, and what they say together."""
    if is_realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REALTIME))
    with_it: list[Run] = []
    without: list[Run] = []
    with ExitStack() as stack:
        places = (stack.enter_context(tempfile.TemporaryDirectory(dir=one)) for one in (folder or None, MEMORY))
        root, memory = map(Path, places)
        cluster = stack.enter_context(LocalCluster(ECHO, root=root / "primary", cluster=STEADY, node={"sync": sync}))
        cluster.await_leader(60)
        standby = Standby(cluster, memory, is_realtime=is_realtime)
        with NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load:
            apply_load(cluster, load, rate, WARM_UP_S, lambda: -1)
            for number in range(pairs):
                for is_attached in (True, False) if number % 2 else (False, True):
                    with standby.attached(load.keep) if is_attached else nullcontext():
                        lag = (lambda: standby.lag_bytes() or 0) if is_attached else (lambda: -1)
                        run = apply_load(cluster, load, rate, seconds, lag)
                    (with_it if is_attached else without).append(run)
    return {"sync": sync, "messages_per_s_wanted": rate, "realtime": is_realtime, **summarize(with_it, without)}


def summarize(with_it: list[Run], without: list[Run]) -> Figures:
    """Return each figure with and without the standby, and by how much that of a pair is higher with it."""
    figures: Figures = {"pairs": len(with_it), "lag_bytes_max": max(one.lag_bytes for one in with_it)}
    for name in ("p50_us", "p99_us", "nodes_us_per_message", "per_s"):
        one, other = ([float(getattr(run, name)) for run in runs] for runs in (with_it, without))
        changes = sorted(round(100 * (high / low - 1), 1) for high, low in zip(one, other, strict=True))
        figures[name] = {
            "with": median(one),
            "without": median(other),
            "more_percent": median(changes),
            "more_percent_of_pairs": changes,
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--sync", choices=("commit", "none"), default="commit")
    parser.add_argument("--folder", default="", help="where the primary's data is; default: that of temporary files")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--json", type=writable_file)
    options = parser.parse_args()
    machine = describe_machine()
    figures = measure_pairs(
        options.pairs,
        options.seconds,
        options.rate,
        folder=options.folder,
        sync=options.sync,
        is_realtime=options.realtime,
    )
    found = {"machine": machine, "load_average_1m_after": describe_machine()["load_average_1m"], **figures}
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
