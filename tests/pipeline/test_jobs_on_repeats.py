"""Jobs count what was executed, once, in a log whose requests were sent again; copies are asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ordo
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executions import REQUESTS
from ordo.pipeline.alerts.alerts import Alert, Rules, summarize
from ordo.pipeline.alerts.watch import stream_of, watch
from ordo.pipeline.decoding.batches import IS_REPEAT
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import StructDecoder, decode_batches, decoded_schema
from ordo.pipeline.jobs import latency as latency_job
from ordo.pipeline.jobs import sessions as sessions_job
from ordo.pipeline.jobs.decode import decode
from tests.pipeline.test_repeats import RecordedLog

DECODER = StructDecoder("<7s", ("word",))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedLog:
    return RecordedLog(tmp_path_factory.mktemp("jobs"), 400)


def sent(recorded: RecordedLog, repeats: bool) -> list[LogEntry]:
    """Messages and requests of clients: what was executed, or all that is in the log."""
    found = [one for one in recorded.entries.values() if one.kind is EntryKind.MESSAGE or one.kind in REQUESTS]
    return [one for one in found if repeats or not one.is_repeat]


def test_rates_count_what_was_executed(recorded: RecordedLog) -> None:
    for repeats in (False, True):
        rules = Rules(rate_max=1, window_us=100_000_000, repeats=repeats)
        assert (IS_REPEAT in rules.columns) is not repeats
        log = ordo.read(recorded.folder, commit="recorded", time_unit="millis", columns=rules.columns)
        (summary,) = summarize(log.batches(), rules)
        assert summary.head[1] == len(sent(recorded, repeats)) and summary.tail is None
    assert IS_REPEAT not in Rules(gap_us=1).columns, "which would read the log from its beginning for nothing"


def test_a_request_of_which_nothing_is_known_is_counted() -> None:
    rows = {
        "node": ["n"] * 4, "recording": [0] * 4, "position": [1, 2, 3, 4],
        "timestamp": pa.array([1, 2, 3, 4], pa.timestamp("us", tz="UTC")), "kind": ["request"] * 4,
        "leadership_term": [0] * 4, IS_REPEAT: [None, False, True, None],
    }  # fmt: skip
    (summary,) = summarize([pa.RecordBatch.from_pydict(rows)], Rules(rate_max=1))
    assert summary.head == (0, 3)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_jobs_count_what_was_executed(spark: SparkSession, recorded: RecordedLog, tmp_path: Path) -> None:
    log = spark.read.format("ordo").option("commit", "recorded").load(recorded.folder)
    executed, everything = (Counter(one.session_id for one in sent(recorded, repeats)) for repeats in (False, True))
    assert executed.total() < everything.total()
    table = sessions_job.sessions(log)
    found = {row.session_id: row for row in table.collect()}
    for session_id, row in found.items():
        counts = (row.messages, row.messages + row.repeats, row.unknown)
        assert counts == (executed[session_id], everything[session_id], 0), session_id
        lengths = [len(one.payload) for one in sent(recorded, False) if one.session_id == session_id]
        assert row.payload_bytes == sum(lengths)
    assert len(found) == table.count(), "a session that is closed twice is one session"
    facts = json.loads(Path(sessions_job.write_report(table, str(tmp_path))).with_suffix(".json").read_text())
    assert (facts["repeats"], facts["unknown"]) == (everything.total() - executed.total(), 0)
    for repeats, of_session in ((False, executed), (True, everything)):
        columns = ",".join(latency_job.columns_for(None, repeats))
        named = spark.read.format("ordo").option("commit", "recorded").option("columns", columns).load(recorded.folder)
        rows = latency_job.latency(named, None, ("session_id",), repeats).collect()
        assert {row.session_id: row["count"] + 1 for row in rows} == {k: n for k, n in of_session.items() if n > 1}
        decoded = decode(log.where("kind in ('message', 'request')"), DECODER, repeats=repeats).collect()
        assert sorted(row.position for row in decoded) == sorted(one.position for one in sent(recorded, repeats))
    told: list[Alert] = []
    rules = Rules(rate_max=len(sent(recorded, False)), window_us=1_000_000)
    options = {"startingPosition": "earliest", "commit": "recorded"}
    watch(stream_of(spark, [recorded.folder], options, rules), str(tmp_path / "c"), rules, told.append, once=True)
    assert told == []
    for job in (latency_job.latency, sessions_job.sessions, lambda frame: decode(frame, DECODER)):
        with pytest.raises(PipelineError, match=r"has no column is_repeat, which says .*--repeats"):
            job(log.drop(IS_REPEAT))


def test_what_is_decoded_without_spark_is_marked(recorded: RecordedLog) -> None:
    log = ordo.read(recorded.folder, commit="recorded", kinds="message,request")
    schema = decoded_schema(log.schema, DECODER)
    rows = [row for batch in decode_batches(DECODER, "payload", schema, log.batches()) for row in batch.to_pylist()]
    once = [row["position"] for row in rows if row["record"] and not row[IS_REPEAT]]
    assert once == [one.position for one in sent(recorded, False)]
