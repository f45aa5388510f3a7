"""The data pipeline against a generated recording: rows and bytes a second, beside Parquet and a bare Arrow generator.

    python -m benchmarks.pipeline [--messages 20000000] [--cores 2] [--json out.json]

The generator source makes one record batch of the same columns and gives it again and again, so it shows what Spark's
Python data source interface itself can move; the log source is to reach 90 % of it. Where all cores are busy, what the
log costs beyond it is processor time, and a part of that has no way around it: bytes are read from the page cache and
their checksums computed. So a second generator does just that, with as many records of the log as it gives rows; it is
the bound of any source that checks what it reads.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ordo.pipeline.decoding.batches import COLUMN_NAMES, BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.decoding.scanner import walk
from ordo.pipeline.generate import LogShape, generate_log
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import Run, plan, read_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.spark.session import local_session
from ordo.pipeline.spark.source import log_schema
from tools.arguments import writable_file

BATCH_ROWS = 32_768
SOME = ("position", "timestamp", "session_id", "kind", "payload_length")


@dataclass
class Share(InputPartition):
    """How many rows of the sample a task gives."""

    path: str
    rows: int
    runs: tuple[Run, ...]  # to be read and checked meanwhile


class BareArrow(DataSource):
    """Gives the batch of a file over and over: Spark's interface without any source behind it. With option `archive` it
    walks through that log meanwhile."""

    @classmethod
    def name(cls) -> str:
        return "bare_arrow"

    def schema(self) -> StructType:
        return log_schema(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BareReader(
            self.options["path"], int(self.options["rows"]), int(self.options["tasks"]), self.options.get("archive")
        )


class BareReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int, archive: str | None) -> None:
        self._path, self._rows, self._tasks, self._archive = path, rows, tasks, archive

    def partitions(self) -> list[InputPartition]:
        cuts = [self._rows * index // self._tasks for index in range(self._tasks + 1)]
        runs: list[tuple[Run, ...]] = _tasks(self._archive) if self._archive else [()] * self._tasks
        return [
            Share(self._path, after - before, part) for (before, after), part in zip(pairwise(cuts), runs, strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        cursors = [
            MessageCursor(run.path, run.descriptor, run.segment_base, run.start, run.end) for run in partition.runs
        ]
        with pa.ipc.open_file(partition.path) as file:
            batch = file.get_batch(0)
        for begin in range(0, partition.rows, batch.num_rows):
            rows = min(batch.num_rows, partition.rows - begin)
            _check(cursors, rows)
            yield batch.slice(0, rows)


def _check(cursors: list[MessageCursor], messages: int) -> None:
    """Walk over so many messages, from one cursor to the next."""
    while cursors and (messages := messages - walk(cursors[0], messages)) > 0:
        cursors.pop(0)


class Spent(NamedTuple):
    """On the clock, and of processor time by all processes: where others load the machine only the second tells."""

    seconds: float
    cpu_s: float


class Bench:
    """One run; `results` gathers (measure, seconds, rows a second, MB a second of log)."""

    def __init__(self, spark: SparkSession, folder: Path, shape: LogShape, repeat: int) -> None:
        self.spark = spark
        self.repeat = repeat
        self.archive = str(folder / "node0" / "archive")
        self.folder = folder
        self.log_bytes = generate_log(self.archive, shape).stop_position
        self.rows = shape.messages + shape.terms * (2 * shape.sessions + 2)
        self.results: list[dict[str, Any]] = []
        self.planning_bytes = 0

    def measure(self, name: str, action: Callable[[], int | None], rows: int | None = None) -> Spent:
        """Medians of `repeat`. What the action returns must be the number of rows, if anything."""
        return self._note(name, [self._once(name, action, rows) for _ in range(self.repeat)])

    def measure_in_turn(self, actions: dict[str, Callable[[], int | None]]) -> dict[str, float]:
        """All actions in each of `repeat` rounds, after one that is not counted; by name the median over the rounds of
        how many times faster than the first action each was, so that what else the machine does meanwhile cancels out.
        """
        for name, action in actions.items():
            self._once(name, action)
        rounds = [{name: self._once(name, action) for name, action in actions.items()} for _ in range(self.repeat)]
        for name in actions:
            self._note(name, [each[name] for each in rounds])
        first = next(iter(actions))
        return {name: median(each[first].seconds / each[name].seconds for each in rounds) for name in actions}

    def _once(self, name: str, action: Callable[[], int | None], rows: int | None = None) -> Spent:
        start, cpu_start = time.perf_counter(), _cpu_seconds()
        found = action()
        spent = Spent(time.perf_counter() - start, _cpu_seconds() - cpu_start)
        if found is not None and found != (self.rows if rows is None else rows):
            raise SystemExit(f"{name}: {found} rows, expected {self.rows if rows is None else rows}")
        return spent

    def _note(self, name: str, found: list[Spent]) -> Spent:
        middle, cpu = median(each.seconds for each in found), median(each.cpu_s for each in found)
        rate = {"rows_per_s": self.rows / middle, "mb_per_s": self.log_bytes / middle / 1e6}
        self.results.append(
            {
                "measure": name,
                "seconds": round(middle, 4),
                "cpu_s": round(cpu, 2),
                **{key: round(value) for key, value in rate.items()},
            }
        )
        print(
            f"{name:<52} {middle:9.3f} s {cpu:8.2f} s cpu {rate['rows_per_s']:14,.0f} rows/s "
            f"{rate['mb_per_s']:9,.0f} MB/s",
            flush=True,
        )
        return Spent(middle, cpu)

    def log(self, columns: tuple[str, ...], **options: Any) -> DataFrame:
        return self.spark.read.format("ordo").options(columns=",".join(columns), **options).load(self.archive)

    def bare(self, columns: tuple[str, ...], tasks: int, **options: str) -> DataFrame:
        """The first batch of the log, given as many times as the log has rows."""
        path = self.folder / f"sample-{len(columns)}.arrow"
        if not path.exists():
            runs = plan(open_recordings([self.archive]), Predicates(), 64 << 20)[0]
            batch = next(read_runs(runs, Predicates(), columns, BATCH_ROWS, True))
            with pa.ipc.new_file(str(path), batch.schema) as writer:
                writer.write_batch(batch)
        given = {"columns": ",".join(columns), "rows": str(self.rows), "tasks": str(tasks), **options}
        return self.spark.read.format("bare_arrow").options(**given).load(str(path))

    def decoder_alone(self) -> None:
        """One core, no Spark: all columns, and those most queries want."""
        entry = open_recordings([self.archive])[0]

        def decode(columns: tuple[str, ...]) -> int:
            rows = 0
            batches = BatchBuilder(columns, 0, "node0", 0)
            for segment in entry.segments():
                cursor = MessageCursor(segment.path, entry.descriptor, segment.base, segment.start, segment.end)
                decoder = RecordDecoder(cursor, RowSelection(), batches, True)
                while (batch := decoder.next_batch()) is not None:
                    rows += batch.num_rows
            return rows

        self.measure("decoder alone, one core, all columns", lambda: decode(COLUMN_NAMES))
        self.measure(
            "decoder alone, one core, 4 columns", lambda: decode(("position", "timestamp", "session_id", "payload"))
        )

    def scans(self) -> dict[str, dict[str, float]]:
        """count() and an aggregate, from the log and from the bare generators; the share of the first one's rate."""
        start, read_before = time.perf_counter(), _read_bytes()
        tasks = len(_tasks(self.archive))
        self.planning_bytes = _read_bytes() - read_before
        print(f"planned in {time.perf_counter() - start:.2f} s, {tasks} tasks, {self.planning_bytes / 1e6:.1f} MB read")
        shares: dict[str, dict[str, float]] = {}
        for name, columns, action in (
            ("count(), all columns", COLUMN_NAMES, _count),
            ("count(), 5 columns", SOME, _count),
            ("aggregate", SOME, self._aggregate),
        ):
            for frame in (self.bare(columns, tasks), self.log(columns)):  # workers and compiled code, not measured
                action(frame)
            bare = self.measure(f"{name}, bare generator", partial(action, self.bare(columns, tasks)))
            checked = self.bare(columns, tasks, archive=self.archive)
            bound = self.measure(f"{name}, the same that reads and checks", partial(action, checked))
            log = self.measure(f"{name}, log", partial(action, self.log(columns)))
            shares[name] = {
                "by_clock": bare.seconds / log.seconds,
                "by_cpu": bare.cpu_s / log.cpu_s,
                "bound_by_cpu": bare.cpu_s / bound.cpu_s,
            }
        return shares

    @staticmethod
    def _aggregate(frame: DataFrame) -> None:
        frame.groupBy("session_id", "kind").agg(F.count("*"), F.sum("payload_length"), F.max("position")).collect()

    def parquet(self) -> dict[str, float]:
        """Writing and reading Parquet; how many times the bare generator's rate to Parquet the log has."""
        target, tasks = str(self.folder / "parquet"), len(_tasks(self.archive))

        def write(frame: DataFrame) -> None:
            frame.write.mode("overwrite").parquet(target)

        shares = self.measure_in_turn({
            "to Parquet, bare generator, all columns": lambda: write(self.bare(COLUMN_NAMES, tasks)),
            "to Parquet, log, 5 columns": lambda: write(self.log(SOME)),
            "to Parquet, log, all columns": lambda: write(self.log(COLUMN_NAMES)),
        })  # fmt: skip
        stored = self.spark.read.parquet(target)
        self.measure("count(), spark.read.parquet", stored.count)
        self.measure("aggregate, spark.read.parquet", lambda: self._aggregate(stored))
        self.measure("all columns, spark.read.parquet to noop", lambda: _drain(stored))
        self.measure("all columns, log to noop", lambda: _drain(self.log(COLUMN_NAMES)))
        self.measure("all columns, bare generator to noop", lambda: _drain(self.bare(COLUMN_NAMES, 32)))
        return shares

    def selective(self, shape: LogShape) -> float:
        """A stretch of time with about a thousandth of the messages, by option; the gain over reading all."""
        length_ms = shape.messages // shape.messages_per_ms
        begin = shape.first_time + length_ms // 2
        until = begin + max(1, length_ms // 1000)
        span = {"startTime": _iso(begin), "endTime": _iso(until)}
        expected = self.log(SOME).where(
            f"unix_millis(timestamp) >= {begin} and unix_millis(timestamp) < {until}").count()  # fmt: skip
        full = self.measure("time filter in Spark, full scan", lambda: self.log(SOME).where(
            f"unix_millis(timestamp) >= {begin} and unix_millis(timestamp) < {until}").count(), expected)  # fmt: skip
        skip = self.measure("time filter in the source", lambda: self.log(SOME, **span).count(), expected)
        return full.seconds / skip.seconds


def _cpu_seconds() -> float:
    """Processor time of this process and all below it: driver, JVM and Python workers, also those that ended."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += ticks[process]
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


def _read_bytes() -> int:
    """What this process has read so far, from files and anything else."""
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


def _tasks(archive: str) -> list[tuple[Run, ...]]:
    """What each task of a full read reads."""
    return plan(open_recordings([archive]), Predicates(), ReadSettings([]).partition_bytes)


def _count(frame: DataFrame) -> int:
    return frame.count()


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _iso(epoch_ms: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(epoch_ms // 1000))}.{epoch_ms % 1000:03d}+00:00"


def run(messages: int, cores: int, repeat: int, folder: Path) -> dict[str, Any]:
    """All measures as a dict."""
    os.environ["ORDO_INDEX_DIR"] = str(folder / "index")
    spark = local_session("bench", cores, str(folder / "spark"), memory="4g")
    spark.dataSource.register(BareArrow)
    shape = LogShape(messages=messages)
    try:
        bench = Bench(spark, folder, shape, repeat)
        print(f"{bench.rows:,} records, {bench.log_bytes / 1e6:,.0f} MB of log, {cores} cores, median of {repeat}")
        bench.decoder_alone()
        shares = bench.scans()
        to_parquet = bench.parquet()
        gain = bench.selective(shape)
    finally:
        spark.stop()
    for name, share in shares.items():
        print(
            f"share of the bare generator's rate, {name}: {share['by_clock']:.0%} by the clock, "
            f"{share['by_cpu']:.0%} by processor time; the bound is {share['bound_by_cpu']:.0%}"
        )
    for name, times in to_parquet.items():
        print(f"rate beside the bare generator's to Parquet, {name.removeprefix('to Parquet, ')}: {times:.2f}")
    print(f"time filter: {gain:.0f} times faster than the full scan")
    return {"messages": messages, "cores": cores, "log_bytes": bench.log_bytes,
            "planning_bytes": bench.planning_bytes, "results": bench.results,
            "share_of_bare_generator": shares, "rate_to_parquet": to_parquet, "time_filter_gain": gain}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=20_000_000)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=writable_file)
    parser.add_argument("--folder", type=Path, help="where to keep the recording; default a temporary folder")
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="ordo-bench-"))
    try:
        facts = run(chosen.messages, chosen.cores, chosen.repeat, folder)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
