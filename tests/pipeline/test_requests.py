"""Jobs that count what applications sent count requests as well, and find an application's bytes in them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ordo.cluster.wire.ordo_codecs import OPEN_IDENTITY, OUTPUT, REQUEST, split_identity
from ordo.pipeline.generate import RecordingBuilder, session_close, session_message, session_open
from ordo.pipeline.jobs import latency as latency_job
from ordo.pipeline.jobs.latency import integers, latency
from ordo.pipeline.jobs.session_order import find_violations, session_violations
from ordo.pipeline.jobs.sessions import sessions
from ordo.pipeline.sql.local import read

FIRST_MS = 1_700_000_000_000


def open_identity(session_id: int) -> bytes:
    """What a client says before its requests; they name the position of this record."""
    return OPEN_IDENTITY.encode(
        leadership_term_id=0, cluster_session_id=session_id, timestamp=FIRST_MS, incarnation=1, known_position=0,
        **split_identity(bytes([session_id]) * 16),
    )  # fmt: skip


def request(
    session_id: int, timestamp: int, payload: bytes, number: int = 1, is_output: bool = False, opened: int = 64
) -> bytes:
    """A client's request, or what an application that follows the log sends: its block is longer."""
    fields = {
        "leadership_term_id": 0, "cluster_session_id": session_id, "timestamp": timestamp, "open_position": opened,
        "number": number, "confirmed": 0,
    }  # fmt: skip
    if is_output:
        return OUTPUT.encode(**fields, input_position=96, target_session_id=-1, output_index=0) + payload
    return REQUEST.encode(**fields) + payload


def sent_at(timestamp: int, taken_us: int) -> bytes:
    return struct.pack("<q", timestamp * 1000 - taken_us)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three sessions that send 10 times, each in its own way."""
    with RecordingBuilder(str(tmp_path_factory.mktemp("requests") / "archive")) as builder:
        for session in (1, 2, 3):
            builder.append(session_open(0, session, session, FIRST_MS, b"c", b""))
        opened = {session: builder.append(open_identity(session)) for session in (2, 3)}
        for number in range(10):
            now = FIRST_MS + 20 * number
            payload = sent_at(now, 100 * (number + 1))
            builder.append(session_message(0, 1, now, payload))
            builder.append(request(2, now, payload + b"behind it", number + 1, opened=opened[2]))
            builder.append(request(3, now, payload, number + 1, is_output=True, opened=opened[3]))
        for session in (1, 2, 3):
            builder.append(session_close(0, session, FIRST_MS + 1000, 0))
    return builder.directory


@pytest.mark.spark
def test_a_session_that_sends_requests_has_sent_messages(spark: SparkSession, archive: str) -> None:
    found = {row.session_id: row for row in sessions(spark.read.format("ordo").load(archive)).collect()}
    assert [(found[number].messages, found[number].payload_bytes) for number in (1, 2, 3)] == [
        (10, 80), (10, 170), (10, 80),
    ]  # fmt: skip
    assert {row.last_message for row in found.values()} == {found[1].last_message}


@pytest.mark.spark
def test_requests_have_a_latency(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    log = spark.read.format("ordo").load(archive)
    by_session = latency(log, "i64@0:us", ("session_id",)).collect()
    assert [(row["count"], row.p50, row.max) for row in by_session] == [(10, 500.0, 1000.0)] * 3
    gaps = latency(log, None, ("kind",)).collect()
    assert [(row.kind, row["count"], row.max) for row in gaps] == [("message", 9, 20_000.0), ("request", 18, 20_000.0)]
    page = latency_job.write_report(log, None, str(tmp_path))
    facts = json.loads(Path(page).with_suffix(".json").read_text())
    assert [row["count"] for row in facts["session_id"]] == [9, 9, 9]
    assert [row["kind"] for row in facts["kind"]] == ["message", "request"]
    assert [(row["count"], row["mean"]) for row in facts["minute"]] == [(27, 20_000.0)]


@pytest.mark.spark
def test_a_log_without_messages_has_no_latency(spark: SparkSession, tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(session_open(0, 1, 1, FIRST_MS, b"c", b""))
    page = latency_job.write_report(spark.read.format("ordo").load(builder.directory), None, str(tmp_path))
    facts = json.loads(Path(page).with_suffix(".json").read_text())
    assert (facts["minute"], facts["session_id"], facts["kind"]) == ([], [], [])


@pytest.mark.spark
def test_a_request_is_sent_while_its_session_is_open(spark: SparkSession, tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        early = builder.append(request(1, FIRST_MS, b"early"))
        builder.append(session_open(0, 1, 1, FIRST_MS, b"c", b""))
        builder.append(session_message(0, 1, FIRST_MS, b"fine"))
        builder.append(session_close(0, 1, FIRST_MS, 0))
        late = builder.append(request(1, FIRST_MS, b"late"))
    here = find_violations(read(builder.directory).batches())
    assert [(row["violation"], row["position"]) for row in here] == [
        ("message before open", early), ("message after close", late),
    ]  # fmt: skip
    frame = spark.read.format("ordo").load(builder.directory)
    assert [row.asDict() for row in session_violations(frame).collect()] == here


def test_integers_are_found_where_they_are_whole() -> None:
    """Payloads that are cut, in a slice of an array whose bytes begin later."""
    number = struct.pack("<q", 7)
    rows = [
        ("message", b"before the slice"), ("message", b"xx" + number), ("message", b"xx" + number[:7]),
        ("request", request(1, 5, b"xx" + number)), ("request", request(1, 5, b"xx")),
        ("request", request(1, 5, b"xx" + number, is_output=True)), ("request", b"\xff\xff"), ("request", b""),
        ("request", b"\xff" * 80),
    ]  # fmt: skip
    kinds = pa.array([kind for kind, _ in rows])[1:]
    payloads = pa.array([payload for _, payload in rows], pa.binary())[1:]
    values, present = integers(payloads, kinds, 2)
    assert present.tolist() == [True, False, True, False, True, False, False, False]
    assert values.tolist() == [7, 0, 7, 0, 7, 0, 0, 0]
    assert integers(payloads, kinds, 2, big_endian=True)[0].tolist()[0] == 7 << 56
    empty = pa.array([b"", b""], pa.binary())
    assert integers(empty, pa.array(["message", "message"]), 0)[1].tolist() == [False, False]
