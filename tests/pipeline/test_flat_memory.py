"""However long a log is, jobs hold no more of it in memory, and planning reads no more of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from ordo.pipeline.generate import (
    LogShape,
    RecordingBuilder,
    generate_log,
    session_close,
    session_message,
    session_open,
)
from ordo.pipeline.jobs import latency as latency_job
from ordo.pipeline.jobs import sessions as sessions_job
from ordo.pipeline.spark.rows import KEPT_MAX, keep_rows, rows_of
from tests.patience import patient
from tests.thorough import few_of

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = 20_000, 300_000
GROWTH_BYTES_MAX = 48 << 20
"""What lists of the larger log's rows take is several times as much, and its 72 MB of segments alone are more.

Delta's writer takes 37 MiB more for 36 commits than for one, and 14 MiB more for 72 than for 36."""

JOB = """
import sys
from pathlib import Path
from ordo.pipeline.pipeline_commands import app
try:
    app(sys.argv[1:], standalone_mode=False)
except SystemExit:
    pass
PEAK"""
PEAK = """
(line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print("peak", int(line.split()[1]) * 1024)
"""
COLLECT = """
import sys
from pathlib import Path
import ordo
rows = ordo.read(sys.argv[1]).to_arrow(1)
PEAK"""
EXPORT = """
import sys
from pathlib import Path
from ordo.pipeline.export.lake import LakeSettings, export_delta
export_delta([sys.argv[1]], sys.argv[2], LakeSettings(chunk_bytes=2 << 20))
PEAK"""
QUERY = """
import sys
from pathlib import Path
import ordo
from ordo.pipeline.sql import query
query.MEMORY_MAX = "32MB"
log = ordo.read(sys.argv[1], columns=["position", "payload"])
with query.query(log, "SELECT sum(octet_length(payload)) FROM log") as rows:
    query.write_rows(rows, "csv")
PEAK"""
OF_OTHERS = {"export": EXPORT, "query": QUERY}
LINES = (
    "diff LOG LOG",
    "replay LOG --service tests.pipeline.test_replay_verdict:Tally --engine local",
    "audit LOG --engine local",
)
PLAN = """
import os, sys
from pathlib import Path
from ordo.pipeline.sql.local import read

def read_bytes():
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])

before = read_bytes()
log = read(sys.argv[1])
print("read", read_bytes() - before)
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Logs of two lengths that differ in nothing else."""
    found = {}
    for messages in (SMALL, LARGE):
        found[messages] = str(tmp_path_factory.mktemp("log") / "node0" / "archive")
        shape = LogShape(messages=messages, sessions=5, terms=2, term_length=1 << 20, segment_length=1 << 22)
        generate_log(found[messages], shape)
    return found


def run(script: str, arguments: list[str], tmp_path: Path) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MALLOC_ARENA_MAX": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    command = [sys.executable, "-c", script.replace("PEAK", PEAK), *arguments]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=patient(110))
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def last_number(output: str) -> int:
    return int(output.split()[-1])


@pytest.mark.parametrize("line", few_of(LINES, ["audit LOG --engine local"]))
def test_jobs_of_one_process_hold_no_more_of_a_longer_log(logs: dict[int, str], tmp_path: Path, line: str) -> None:
    peaks = {
        messages: last_number(run(JOB, [log if word == "LOG" else word for word in line.split()], tmp_path))
        for messages, log in logs.items()
    }
    assert peaks[LARGE] - peaks[SMALL] < GROWTH_BYTES_MAX, {size: peak >> 20 for size, peak in peaks.items()}


@pytest.mark.parametrize("name", few_of(OF_OTHERS, ["query"]))
def test_what_others_libraries_hold_is_bounded(logs: dict[int, str], tmp_path: Path, name: str) -> None:
    """By the size of a commit, and by the memory that the database may take: both made small here."""
    pytest.importorskip("deltalake" if name == "export" else "duckdb")
    peaks = {
        messages: last_number(run(OF_OTHERS[name], [log, str(tmp_path / str(messages))], tmp_path))
        for messages, log in logs.items()
    }
    assert peaks[LARGE] - peaks[SMALL] < GROWTH_BYTES_MAX, {size: peak >> 20 for size, peak in peaks.items()}


def test_a_list_of_all_rows_would_be_noticed(logs: dict[int, str], tmp_path: Path) -> None:
    """The measure is good for something: a job that collects what it reads is found out."""
    peaks = [last_number(run(COLLECT, [log], tmp_path)) for log in logs.values()]
    assert peaks[1] - peaks[0] > GROWTH_BYTES_MAX


def test_planning_reads_no_more_of_a_longer_log(logs: dict[int, str], tmp_path: Path) -> None:
    small, large = (last_number(run(PLAN, [log], tmp_path)) for log in logs.values())
    assert large - small < 1 << 20 and large < 16 << 20, (small, large)


def refuse(*_: Any) -> Any:
    raise AssertionError("brings all rows into the driver")


@pytest.mark.spark
@pytest.mark.thorough
def test_reports_bring_rows_here_a_partition_at_a_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More sessions than a page has: the first are shown, the totals are of all, and the rows are in a file."""
    count = KEPT_MAX + 500
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for session in range(1, count + 1):
            builder.append(session_open(0, session, session, 1000, b"c", b""))
            for number in range(2):
                builder.append(session_message(0, session, 1001 + number * session, b"abc"))
            builder.append(session_close(0, session, 9000, 0))
    log = spark.read.format("ordo").option("timeUnit", "millis").load(builder.directory)
    table = sessions_job.sessions(log)
    for name in ("collect", "toPandas", "toArrow"):
        monkeypatch.setattr(DataFrame, name, refuse)
    page = Path(sessions_job.write_report(table, str(tmp_path)))
    assert f"{count:,} sessions, {2 * count:,} messages" in page.read_text()
    facts = json.loads(page.with_suffix(".json").read_text())
    assert facts["close_reasons"] == {"client action": count}
    assert (len(facts["sessions"]), facts["sessions_count"], facts["sessions_file"]) == (1000, count, "sessions.jsonl")
    lines = [json.loads(line)["session_id"] for line in (tmp_path / "sessions.jsonl").read_text().splitlines()]
    assert lines == list(range(1, count + 1))
    latency_job.write_report(log, None, str(tmp_path))
    by_session = (tmp_path / "latency-session_id.jsonl").read_text().splitlines()
    assert [json.loads(line)["max"] for line in by_session] == [1000.0 * session for session in range(1, count + 1)]


@pytest.mark.spark
def test_few_rows_need_no_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "n.jsonl").write_text("of an earlier run")
    kept = keep_rows(rows_of(spark.range(KEPT_MAX)), str(tmp_path), "n")
    assert (kept.count, len(kept.first), kept.facts("n")) == (KEPT_MAX, KEPT_MAX, {"n": kept.first})
    assert not (tmp_path / "n.jsonl").exists()
