"""Writing into a cluster: options, and a real node behind Spark. The numbering is tested in test_writer.py."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructType

from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.pipeline.spark.pulse import Part
from ordo.pipeline.spark.sink import (
    ClusterStreamWriter,
    WriteSettings,
    local_egress,
    payloads_of,
    tell_refusals,
    write_partition,
)
from ordo.pipeline.spark.writer import SequencedWriter, WriterSettings
from ordo.runtime.security.tokens import new_token
from tests.attacks.test_authentication import token_table
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.snippets import texts_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "PIPELINE.md"
ANSWERS = """
from ordo.errors import Reject

class Answering(Orders):
    def apply(self, order):
        if order == b"7":
            raise Reject("not this one")
        return b"done"
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs endpoints"),
        ({"endpoints": "0=h:1"}, "needs a writer"),
        ({"endpoints": "h:1", "writer": "w"}, "needs endpoints"),
        ({"endpoints": "0=h:1", "writer": "w", "partitions": "0"}, "option partitions='0' of a write must be"),
        ({"endpoints": "0=h:1", "writer": "w", "color": "red"}, "unknown option 'color'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        WriteSettings.parse(options, StructType().add("payload", BinaryType()), False)


def test_more_partitions_than_said_and_those_of_a_stream_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"endpoints": "0=h:1", "writer": "w", "partitions": "2"}
    options = WriteSettings.parse(given, StructType().add("payload", BinaryType()), False)
    context = SimpleNamespace(partitionId=lambda: 2, getLocalProperty=lambda name: None)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    with pytest.raises(PipelineError, match="has a partition 2, from 0 on, and option partitions says 2"):
        write_partition(options, iter(()))
    with pytest.raises(PipelineError, match="option partitions is for a frame"):
        ClusterStreamWriter(options)


def test_only_payloads_are_taken() -> None:
    with pytest.raises(PipelineError, match="one column, payload binary"):
        WriteSettings.parse({"endpoints": "0=h:1", "writer": "w"}, StructType().add("id", LongType()), False)


def test_a_row_without_a_payload_is_named() -> None:
    batches = [pa.record_batch({"payload": pa.array(part, pa.binary())}) for part in ([b"a", b""], [b"b", None])]
    found = payloads_of(iter(batches), 3)
    assert [next(found) for _ in range(3)] == [b"a", b"", b"b"]
    with pytest.raises(PipelineError, match="row 4 of partition 3 has null as its payload"):
        next(found)


def test_answers_come_to_the_address_that_reaches_the_members() -> None:
    """The address was once always loopback, to which only members on the same machine can send."""
    assert local_egress({0: "nowhere.invalid:1", 1: "127.0.0.1:9000"}) == "aeron:udp?endpoint=127.0.0.1:0"
    assert local_egress({0: "[::1]:9000"}) == "aeron:udp?endpoint=[::1]:0"
    with pytest.raises(PipelineError, match="no way to any member"):
        local_egress({0: "nowhere.invalid:1"})


@pytest.mark.slow
def test_the_service_of_the_page_in_a_cluster_with_keys_and_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A task writes to the service that docs/PIPELINE.md shows; what that refuses is told, and not sent again."""
    (page,) = (text for text in texts_of(PAGE.read_text(), "python") if "class Orders" in text)
    (tmp_path / "orders.py").write_text(page + ANSWERS)
    token = new_token()
    (tmp_path / "token").write_text(token)
    with LocalCluster(
        "orders:Answering", member_count=1, encrypted=True, root=tmp_path / "node", sync="none",
        tables={"tokens": [token_table("loader", token, "ingress")]},  # type: ignore[list-item]
        environment={"PYTHONPATH": str(tmp_path)},
    ) as cluster:  # fmt: skip
        cluster.await_leader(60)
        given = {
            "endpoints": ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints.items()),
            "writer": "w",
            "tokenFile": str(tmp_path / "token"),
            "keyFile": cluster.client_keys["key_file"],
            "trustedFile": cluster.client_keys["trusted_file"],
        }
        written = []
        for _ in range(2):
            options = WriteSettings.parse(given, StructType().add("payload", BinaryType()), False)
            batch = pa.record_batch({"payload": pa.array([b"%d" % number for number in range(600)], pa.binary())})
            written.append(write_partition(options, iter([batch])))
    assert [(one.sent.messages, one.sent.refused) for one in written] == [(600, 1), (0, 0)]
    with caplog.at_level(logging.WARNING):
        tell_refusals(options, [*written, None])
    (told,) = (record.getMessage() for record in caplog.records)
    assert told == "write 'w': the service refused 1 of 600 messages; the first: row 8 of partition 0: not this one"


class Watched:
    """A task's client. Sets `is_seen` with the third mark that its other thread sends."""

    def __init__(self, client: ClusterClient, is_seen: threading.Event) -> None:
        self._client, self._is_seen, self._own, self._others = client, is_seen, threading.get_ident(), 0

    def submit(self, payload: bytes) -> PendingRequest:
        self._others += threading.get_ident() != self._own
        if self._others == 3:
            self._is_seen.set()
        return self._client.submit(payload)

    def park(self, timeout_s: float) -> None:
        self._client.park(timeout_s)


@pytest.mark.slow
def test_a_task_beats_through_its_client_while_it_waits_for_a_row(tmp_path: Path) -> None:
    is_seen = threading.Event()

    def slow_rows() -> Iterator[bytes]:
        yield b"a"
        assert is_seen.wait(30), "no mark was sent"
        yield from (b"b", b"c")

    with ready_cluster(
        "tests.pipeline.collector:Collector", member_count=1, root=tmp_path / "node", sync="none"
    ) as cluster:
        sent = []
        for attempt, rows in ((1, iter([b"a", b"b"])), (2, slow_rows())):
            with ClusterClient(cluster.ingress_endpoints, local_egress(cluster.ingress_endpoints)) as client:
                settings = WriterSettings(timeout_s=6)
                writer = SequencedWriter(Watched(client, is_seen), Part("w", attempt, 0), settings)
                sent.append(writer.write(rows).messages)
        assert (sent, is_seen.is_set()) == ([2, 1], True)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_a_frame_and_a_stream_into_a_node_and_back(spark: SparkSession, tmp_path: Path) -> None:
    """The frame is written twice, the stream's last batch once more; the log has every message applied once."""
    source = str(tmp_path / "source" / "archive")
    with RecordingBuilder(source) as builder:
        for number in range(10_000, 10_200):
            builder.append(session_message(0, 1, 5, struct.pack(">q", number)))
    with ready_cluster(
        "tests.pipeline.collector:Collector", member_count=1, root=tmp_path / "node", sync="none"
    ) as cluster:
        endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints.items())
        numbers = spark.range(0, 600, 1, 2).selectExpr("unhex(lpad(hex(id), 16, '0')) as payload")
        for _ in range(2):
            frame = numbers.write.format("ordo").mode("append").options(endpoints=endpoints, writer="frame")
            frame.option("partitions", numbers.rdd.getNumPartitions()).save()
        frame = numbers.coalesce(1).write.format("ordo").mode("append").options(endpoints=endpoints, writer="frame")
        with pytest.raises(Exception, match="wrote in 2 partitions, and only 1 of them are among the 1 of this one"):
            frame.option("partitions", 1).save()
        frame = numbers.coalesce(1).write.format("ordo").mode("append").options(endpoints=endpoints, writer="frame")
        with pytest.raises(Exception, match=r"1 other partitions have messages of an earlier try, and in .* s no"):
            frame.option("timeout", int(patient(12))).save()
        for _ in range(2):
            stream = spark.readStream.format("ordo").option("startingPosition", "earliest").option("columns", "payload")
            target = stream.option("maxRecordsPerTrigger", 100).load(source).writeStream.format("ordo")
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
