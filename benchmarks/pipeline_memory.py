"""What the jobs of the pipeline hold in memory over logs of several lengths, and what planning reads of them.

    python -m benchmarks.pipeline_memory [--messages 2000000,20000000] [--payload-max 288] [--jobs audit,export]

Each job runs as its command, in a process of its own. Twice a second the memory of that process and of all below it,
without the files that they have mapped, is read from /proc, and the peaks are kept: of the driver (the command itself),
of the JVM, and of all Python workers together. Where the peaks of a longer log are those of a shorter one, the job's
memory does not depend on it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ordo.pipeline.generate import LogShape, generate_log
from tools.arguments import writable_file

ROOT = Path(__file__).resolve().parent.parent
SERVICE = "tests.pipeline.test_replay_verdict:Tally"
SAMPLE_S = 0.5
PLANNING = "planning"
PLANNING_SCRIPT = """
import sys
from pathlib import Path
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import plan
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings

def read_bytes():
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])

before = read_bytes()
tasks = plan(open_recordings([sys.argv[1]]), Predicates(), ReadSettings([]).partition_bytes)
print(read_bytes() - before, len(tasks))
"""
JOBS: dict[str, list[str]] = {
    "audit": ["audit", "LOG"],
    "sessions": ["sessions", "LOG"],
    "latency": ["latency", "LOG"],
    "latency --sent": ["latency", "LOG", "--sent", "i64@0:ms"],
    "decode": ["decode", "LOG", "--decoder", "struct:<qq:a,b", "--to", "OUT"],
    "export": ["export", "LOG", "--to", "OUT"],
    "export --format delta": ["export", "LOG", "--to", "OUT", "--format", "delta"],
    "query": ["query", "LOG", "--sql", "SELECT kind, count(*), sum(payload_length) FROM log GROUP BY ALL"],
    "diff": ["diff", "LOG", "LOG"],
    "audit --engine local": ["audit", "LOG", "--engine", "local"],
    "replay": ["replay", "LOG", "--service", SERVICE],
    "replay --engine local": ["replay", "LOG", "--service", SERVICE, "--engine", "local"],
}
EXIT_CODES = (0, 3)
"""3: of a log without snapshots, a replay can compare nothing."""


def sample(root: int) -> dict[str, int]:
    """Resident bytes now, of the command, the JVM, and all other processes below the command."""
    programs: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    bytes_of: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            rest = (folder / "stat").read_text().rpartition(") ")[2]
            programs[int(folder.name)] = os.readlink(folder / "exe")
            bytes_of[int(folder.name)] = _own_bytes(folder)
        except (OSError, ValueError):
            continue
        children.setdefault(int(rest.split()[1]), []).append(int(folder.name))
    found = {"driver": bytes_of.get(root, 0), "jvm": 0, "workers": 0}
    waiting = [(root, child) for child in children.get(root, [])]
    while waiting:
        parent, process = waiting.pop()
        if not _is_jvm(programs[process]):
            found["workers"] += bytes_of[process]
        elif not _is_jvm(programs.get(parent, "")):
            # A JVM's child that has not become the program that it is to start yet only shares the JVM's memory.
            found["jvm"] += bytes_of[process]
        waiting += [(process, child) for child in children.get(process, [])]
    return found


def _is_jvm(program: str) -> bool:
    return os.path.basename(program) == "java"


def _own_bytes(folder: Path) -> int:
    """Memory of a process without the files that it has mapped: pages of a log in the page cache are not its own."""
    lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
    return int(lines["RssAnon"].split()[0]) * 1024 if "RssAnon" in lines else 0


def measure(name: str, archive: str, folder: Path) -> dict[str, Any]:
    """Runs one job over a log. Raises SystemExit when it fails."""
    out = folder / "out"
    words = [{"LOG": archive, "OUT": str(out)}.get(word, word) for word in JOBS[name]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ORDO_INDEX_DIR": str(folder / "index")}
    command = [sys.executable, "-c", "from ordo.cli import main; main()", "pipeline", *words]
    peaks = dict.fromkeys(("driver", "jvm", "workers"), 0)
    begin = time.perf_counter()
    with (folder / "said").open("w+") as said:
        with subprocess.Popen(command, env=environment, cwd=folder, stdout=said, stderr=said) as process:
            while process.poll() is None:
                now = sample(process.pid)
                peaks = {key: max(peaks[key], now[key]) for key in peaks}
                time.sleep(SAMPLE_S)
        if process.returncode not in EXIT_CODES:
            said.seek(0)
            raise SystemExit(f"{name}: exit status {process.returncode}\n{said.read()[-3000:]}")
    seconds = time.perf_counter() - begin
    shutil.rmtree(out, ignore_errors=True)
    return {"job": name, "seconds": round(seconds, 1), **{f"{key}_mb": peaks[key] >> 20 for key in peaks}}


def measure_planning(archive: str, folder: Path) -> dict[str, Any]:
    """What the driver reads to plan all of a log that has no index yet, and into how many tasks."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ORDO_INDEX_DIR": str(folder / "no-index")}
    command = [sys.executable, "-c", PLANNING_SCRIPT, archive]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    read_bytes, tasks = map(int, done.stdout.split())
    return {"job": PLANNING, "read_bytes": read_bytes, "tasks": tasks}


def describe(result: dict[str, Any]) -> str:
    """One row of the table in docs/PIPELINE.md."""
    begin = f"| {result['job']} | {result['messages']:,} | {result['log_bytes'] / 1e9:.2f} |"
    if result["job"] == PLANNING:
        return f"{begin} {result['read_bytes'] / 1e6:.1f} MB read, {result['tasks']} tasks | | | |"
    return f"{begin} {result['driver_mb']} | {result['jvm_mb']} | {result['workers_mb']} | {result['seconds']} |"


def run(shapes: list[LogShape], jobs: list[str], folder: Path) -> list[dict[str, Any]]:
    """All jobs over one log after the other; a log is deleted before the next one is written."""
    results = []
    for shape in shapes:
        archive = str(folder / "node0" / "archive")
        log_bytes = generate_log(archive, shape).stop_position
        for job in jobs:
            found = measure_planning(archive, folder) if job == PLANNING else measure(job, archive, folder)
            results.append({"messages": shape.messages, "log_bytes": log_bytes, **found})
            print(describe(results[-1]), flush=True)
        shutil.rmtree(folder / "node0")
        shutil.rmtree(folder / "index", ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", default="2000000,20000000", help="messages in each of the logs")
    parser.add_argument("--payload-max", type=int, default=288, help="longest payload in bytes; the shortest has 32")
    parser.add_argument("--jobs", default=",".join([PLANNING, *JOBS]), help="which of: " + ", ".join([PLANNING, *JOBS]))
    parser.add_argument("--folder", help="where the logs go; default: a temporary folder")
    parser.add_argument("--json", type=writable_file, help="also write the figures to this file")
    options = parser.parse_args()
    jobs = options.jobs.split(",")
    unknown = [job for job in jobs if job not in (PLANNING, *JOBS)]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; choose from {', '.join([PLANNING, *JOBS])}")
    with tempfile.TemporaryDirectory(prefix="ordo-memory-", dir=options.folder) as folder:
        print("| job | messages | log, GB | driver, MB | JVM, MB | Python workers, MB | seconds |")
        shapes = [LogShape(int(size), payload_max=options.payload_max) for size in options.messages.split(",")]
        results = run(shapes, jobs, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
