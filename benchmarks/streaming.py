"""A query of structured streaming that follows a loaded cluster: whether it keeps up, and what it holds in memory.

    python -m benchmarks.streaming [--rate 200000] [--minutes 30] [--columns position,timestamp,payload]

A cluster of one node on this machine executes `--rate` messages a second, which a native client offers in twenty
portions a second. A query in a process of its own reads them over the network (`ordo://`), in batches of `--trigger`
seconds, into a sink that drops them. One row is printed every `--every` seconds:

`offered`, `processed`: messages a second in this stretch, as the client and the query counted them.
`behind`: messages that were executed and not processed at its end; a batch under way is in it.
`driver`, `JVM`, `workers`: memory of the query's Python, of Spark, and of all Python workers together, in MB, without
files that are mapped. `load`: what the machine has to do in all, as its load average of a minute.

At the end no more is offered, and every message has to arrive, once. Status 1: some did not; the query was more than
`--behind` seconds behind in each row of the last third, or more messages behind there than ever in the second third and
more than that many seconds at the end; or the cluster took less than 95 % of the rate, so that nothing is shown for it.
Memory is compared between the same thirds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.pipeline_memory import ROOT, sample
from ordo.bench.loads.load_process import LoadPlan
from ordo.bench.machine import describe_machine
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.deploy.launcher import LocalCluster
from tools.arguments import writable_file

SERVICE = "ordo.bench.loads.echo:Echo"
SIZE_BYTES = 32
WINDOW = 2048
PORTIONS_PER_S = 20
OFFERED_SHARE = 0.95
DRAIN_S = 120.0
HEAD = "| s | offered/s | processed/s | behind | behind, s | driver, MB | JVM, MB | workers, MB | load |"
RETAINED = "4g"


@dataclass(frozen=True)
class Row:
    """One stretch; memory in MB."""

    seconds: int
    offered_per_s: int
    processed_per_s: int
    behind: int
    driver_mb: int
    jvm_mb: int
    workers_mb: int
    load: float

    def describe(self, rate: int) -> str:
        values = f"| {self.seconds} | {self.offered_per_s:,} | {self.processed_per_s:,} | {self.behind:,}"
        memory = f"{self.driver_mb} | {self.jvm_mb} | {self.workers_mb}"
        return f"{values} | {self.behind / rate:.1f} | {memory} | {self.load:.1f} |"


class Feeder:
    """Offers messages at a rate from a process of its own; what is not done in time is made up for."""

    def __init__(self, endpoints: dict[int, str], rate: int) -> None:
        self._portion = rate // PORTIONS_PER_S
        plan = LoadPlan(endpoints, SIZE_BYTES, self._portion, WINDOW, warm_up_count=0)
        command = [sys.executable, "-m", "ordo.bench.loads.load_process", plan.to_json()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self.offered = 0
        self.has_failed = False

    def start(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._thread.start()

    def _feed(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        begin_s = time.monotonic()
        while not self._ended.is_set():
            due_s = begin_s + self.offered / self._portion / PORTIONS_PER_S
            if self._ended.wait(max(0.0, due_s - time.monotonic())):
                return
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            if not self._process.stdout.readline():
                self.has_failed = True
                return
            self.offered += self._portion

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._process.poll() is None:
            self._process.communicate()


class Query:
    """The query in a process of its own, which says after each batch how many messages it had."""

    def __init__(self, address: str, options: argparse.Namespace, folder: Path) -> None:
        words = ["--query", address, "--columns", options.columns, "--trigger", str(options.trigger)]
        words += ["--folder", str(folder), "--cores", str(options.cores)]
        command = [sys.executable, "-m", "benchmarks.streaming", *words]
        with (folder / "said").open("wb") as said:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=ROOT)
        self._said = folder / "said"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.processed = 0

    def await_start(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                self._thread.start()
                return
            self.processed += json.loads(line)
        raise SystemExit(f"the query ended:\n{self._said.read_text()[-3000:]}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.processed += json.loads(line)

    def memory_mb(self) -> dict[str, int]:
        if self._process.poll() is not None:
            raise SystemExit(f"the query ended:\n{self._said.read_text()[-3000:]}")
        return {name: size >> 20 for name, size in sample(self._process.pid).items()}

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def follow(address: str, columns: str, trigger_s: float, cores: int, folder: Path) -> None:
    """Run the query until it is ended. Prints `ready` when its first batch is planned, and each batch's messages."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from ordo.pipeline.spark.session import local_session

    class Counts(StreamingQueryListener):
        """Passes on what each batch had."""

        def onQueryStarted(self, event: Any) -> None:
            """Nothing is known yet."""

        def onQueryProgress(self, event: Any) -> None:
            found = event.progress.observedMetrics.get("rows")
            print(found["count"] if found is not None else 0, flush=True)

        def onQueryTerminated(self, event: Any) -> None:
            """The process ends as well."""

    spark = local_session("streaming", cores, str(folder / "scratch"))
    spark.streams.addListener(Counts())
    stream = spark.readStream.format("ordo").option("kinds", "message").option("columns", columns)
    source: DataFrame = stream.option("startingPosition", "earliest").load(address)
    counted = source.observe("rows", F.count(F.lit(1)).alias("count"))
    writer = counted.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime=f"{round(1000 * trigger_s)} milliseconds").start()
    while not (folder / "checkpoint" / "offsets" / "0").exists() and query.isActive:
        time.sleep(0.1)
    print("ready", flush=True)
    query.awaitTermination()


def watch(feeder: Feeder, query: Query, options: argparse.Namespace) -> list[Row]:
    """Print a row for each stretch until the time is over."""
    rows: list[Row] = []
    print(HEAD, flush=True)
    begin_s = before_s = time.monotonic()
    offered = processed = 0
    while before_s < begin_s + 60 * options.minutes:
        time.sleep(options.every)
        now_s, new_offered, new_processed = time.monotonic(), feeder.offered, query.processed
        memory, took_s = query.memory_mb(), now_s - before_s
        if feeder.has_failed:
            raise SystemExit("the client that offers the load ended; its error is above")
        rows.append(
            Row(
                round(now_s - begin_s),
                round((new_offered - offered) / took_s),
                round((new_processed - processed) / took_s),
                new_offered - new_processed,
                memory["driver"],
                memory["jvm"],
                memory["workers"],
                os.getloadavg()[0],
            )
        )
        print(rows[-1].describe(options.rate), flush=True)
        before_s, offered, processed = now_s, new_offered, new_processed
    return rows


def await_rest(feeder: Feeder, query: Query) -> int:
    """Return how many messages are missing when all should have come; below zero: some came twice."""
    deadline_s = time.monotonic() + DRAIN_S
    while query.processed < feeder.offered and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return feeder.offered - query.processed


def judge(rows: Sequence[Row], rate: int, behind_s: float, missing: int) -> list[str]:
    """Return what went wrong, a line each."""
    second, last = rows[len(rows) // 3 : 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    found = [f"{missing} messages did not come"] if missing > 0 else []
    found += [f"{-missing} messages came twice"] if missing < 0 else []
    offered = sum(one.offered_per_s for one in rows) / len(rows)
    if offered < OFFERED_SHARE * rate:
        found.append(f"the cluster took {offered:,.0f} messages a second of {rate:,}: the machine has too little left")
    limit = behind_s * rate
    is_growing = bool(second) and min(one.behind for one in last) > max(one.behind for one in second)
    if all(one.behind > limit for one in last) or (is_growing and last[-1].behind > limit):
        found.append(f"the query fell behind: {last[-1].behind:,} messages at the end")
    return found


def describe_memory(rows: Sequence[Row]) -> str:
    """Compare the highest memory of the last third with that of the second one."""
    second, last = rows[len(rows) // 3 : 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    parts = []
    for name in ("driver", "jvm", "workers"):
        before, after = (max((getattr(one, f"{name}_mb") for one in some), default=0) for some in (second, last))
        parts.append(f"{name} {before} -> {after} MB")
    return "peaks of memory, second and last third: " + ", ".join(parts)


def measure(options: argparse.Namespace, folder: Path) -> int:
    with LocalCluster(
        SERVICE, member_count=1, root=folder / "cluster", sync="none", tables={"retention": {"bytes": RETAINED}}
    ) as cluster:
        cluster.await_leader(60)
        address = "ordo://" + ",".join(archive_endpoint(one) for one in cluster.ingress_endpoints.values())
        query = Query(address, options, folder)
        try:
            query.await_start()
            feeder = Feeder(cluster.ingress_endpoints, options.rate)
            try:
                feeder.start()
                rows = watch(feeder, query, options)
            finally:
                feeder.close()
            missing = await_rest(feeder, query)
        finally:
            query.close()
    found = judge(rows, options.rate, options.behind, missing)
    print(describe_memory(rows))
    print("\n".join(found) or f"{feeder.offered:,} messages, each processed once; the query kept up")
    if options.json:
        facts = {
            "machine": describe_machine(),
            "rate": options.rate,
            "messages": feeder.offered,
            "rows": [asdict(one) for one in rows],
        }
        options.json.write_text(json.dumps({**facts, "missing": missing, "found": found}, indent=2) + "\n")
    return 1 if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=200_000, help="messages a second, a multiple of 20")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--columns", default="position,timestamp,session_id,payload", help="what the query reads")
    parser.add_argument("--trigger", type=float, default=1.0, help="seconds of a batch")
    parser.add_argument("--every", type=float, default=10.0, help="seconds of a row")
    parser.add_argument("--behind", type=float, default=10.0, help="so many seconds behind are allowed")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="of Spark")
    parser.add_argument("--folder", type=Path, help="where the log goes, a few GB; default: a temporary folder")
    parser.add_argument("--json", type=writable_file, help="also write the figures to this file")
    parser.add_argument("--query", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.query:
        follow(options.query, options.columns, options.trigger, options.cores, options.folder)
        return
    if options.rate < PORTIONS_PER_S or options.rate % PORTIONS_PER_S:
        parser.error(f"--rate {options.rate}: allowed are multiples of {PORTIONS_PER_S}")
    with tempfile.TemporaryDirectory(prefix="ordo-streaming-", dir=options.folder) as folder:
        sys.exit(measure(options, Path(folder)))


if __name__ == "__main__":
    main()
