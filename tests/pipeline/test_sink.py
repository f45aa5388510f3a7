"""Writing into a cluster: numbering against loss and repetition, and a real node behind Spark."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructType

from deploy.launcher import LocalCluster
from pipeline.envelope import SequencedWriter, SequenceFilter, writer_id
from pipeline.errors import PipelineError
from pipeline.generate import RecordingBuilder, session_message
from pipeline.sink import WriteOptions


class LossyService:
    """A way to a service that drops messages and answers, and a clock that goes on with each poll."""

    def __init__(self, seed: int, loss: float) -> None:
        self.filter = SequenceFilter()
        self.applied: list[bytes] = []
        self.sent = 0
        self.writer: SequencedWriter
        self._chance, self._loss, self._now_ns = random.Random(seed), loss, 0
        self._answers: list[bytes] = []

    def now_ns(self) -> int:
        return self._now_ns

    def send(self, payload: bytes) -> int:
        self.sent += 1
        if self._chance.random() >= self._loss:
            accepted = self.filter.accept(payload)
            if accepted.payload is not None:
                self.applied.append(accepted.payload)
            if accepted.answer is not None and self._chance.random() >= self._loss:
                self._answers.append(accepted.answer)
        return 1

    def poll(self) -> int:
        self._now_ns += 100_000_000
        answers, self._answers = self._answers, []
        for answer in answers:
            self.writer.on_message(answer)
        return len(answers)

    def park(self, timeout_s: float) -> None:
        self._now_ns += round(timeout_s * 1e9)

    def write(self, payloads: list[bytes], writer: int = 1, batch: int = 0, window: int = 16) -> int:
        self.writer = SequencedWriter(self, writer, batch, self.now_ns, window=window)
        return self.writer.write(payloads)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.4]), st.integers(0, 100), st.integers(1, 20))
def test_every_message_is_applied_once_and_in_order(seed: int, loss: float, count: int, window: int) -> None:
    service = LossyService(seed, loss)
    payloads = [b"%d" % number for number in range(count)]
    assert service.write(payloads, window=window) == count
    assert service.applied == payloads
    assert service.write(payloads, window=window) == 0
    assert service.applied == payloads


def test_a_try_that_died_is_gone_on_with() -> None:
    service = LossyService(1, 0.0)
    payloads = [b"%d" % number for number in range(50)]
    service.write(payloads[:20])
    assert service.write(payloads) == 30
    assert service.applied == payloads


def test_batches_of_a_stream_follow_one_another_and_partitions_do_not_mix() -> None:
    service = LossyService(1, 0.2)
    service.write([b"a", b"b"], writer_id("w", 0), batch=0)
    service.write([b"c"], writer_id("w", 1), batch=0)
    service.write([b"d"], writer_id("w", 0), batch=1)
    service.write([b"a", b"b"], writer_id("w", 0), batch=0)
    service.write([b"d", b"e"], writer_id("w", 0), batch=1)
    assert service.applied == [b"a", b"b", b"c", b"d", b"e"]


def test_the_filter_survives_a_snapshot() -> None:
    service = LossyService(1, 0.0)
    service.write([b"a", b"b"])
    service.filter = SequenceFilter(service.filter.dump())
    assert service.write([b"a", b"b", b"c"]) == 1


def test_a_service_that_does_not_answer_is_a_timeout() -> None:
    service = LossyService(1, 1.0)
    with pytest.raises(TimeoutError, match="SequenceFilter"):
        service.write([b"a"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs endpoints"),
        ({"endpoints": "0=h:1"}, "needs a writer"),
        ({"endpoints": "h:1", "writer": "w"}, "needs endpoints"),
        ({"endpoints": "0=h:1", "writer": "w", "color": "red"}, "unknown option 'color'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        WriteOptions.parse(options, StructType().add("payload", BinaryType()), False)


def test_only_payloads_are_taken() -> None:
    with pytest.raises(PipelineError, match="one column, payload binary"):
        WriteOptions.parse({"endpoints": "0=h:1", "writer": "w"}, StructType().add("id", LongType()), False)


@pytest.mark.spark
@pytest.mark.slow
def test_a_frame_and_a_stream_into_a_node_and_back(spark: SparkSession, tmp_path: Path) -> None:
    """The frame is written twice, the stream's last batch once more; the log has every message applied once."""
    source = str(tmp_path / "source" / "archive")
    with RecordingBuilder(source) as builder:
        for number in range(10_000, 10_200):
            builder.append(session_message(0, 1, 5, struct.pack(">q", number)))
    with LocalCluster(
        "tests.pipeline.collector:Collector", member_count=1, root=tmp_path / "node", sync="none"
    ) as cluster:
        cluster.await_leader()
        endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints.items())
        numbers = spark.range(0, 600, 1, 2).selectExpr("unhex(lpad(hex(id), 16, '0')) as payload")
        for _ in range(2):
            numbers.write.format("ordo").mode("append").options(endpoints=endpoints, writer="frame").save()
        for _ in range(2):
            stream = spark.readStream.format("ordo").option("startingPosition", "earliest").option("columns", "payload")
            target = stream.option("maxRecordsPerTrigger", 70).load(source).writeStream.format("ordo")
            target = target.options(
                endpoints=endpoints, writer="stream", checkpointLocation=str(tmp_path / "checkpoint")
            )
            target.trigger(availableNow=True).start().awaitTermination()
            last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
            for path in (last, last.with_name(f".{last.name}.crc")):  # as if Spark had died before its own commit
                path.unlink()
        log = spark.read.format("ordo").option("commit", str(cluster.aeron_dir(0))).option("kinds", "message")
        rows = log.load(str(cluster.data_dir(0) / "archive")).where("session_id < 0").select("payload").collect()
    found = sorted(struct.unpack(">q", bytes(row.payload))[0] for row in rows)
    assert found == [*range(600), *range(10_000, 10_200)]
