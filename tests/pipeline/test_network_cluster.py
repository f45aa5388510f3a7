"""A real cluster read over the network by Spark, batch and stream, while nodes are killed and replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ordo
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that, counter_of
from tests.cluster.integration.writer import Writer
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    lengths = {"log_term_length": "128k", "segment_length": "256k"}
    ledger = "tests.cluster.integration.services:Ledger"
    with ready_cluster(ledger, root=tmp_path, cluster=lengths, sync="none", heartbeat=STEADY) as cluster:
        yield cluster


def url(cluster: LocalCluster, *members: int) -> str:
    endpoints = (load_config(cluster.config_path(member)).own_member.archive for member in members)
    return "ordo://" + ",".join(endpoints)


def positions(source: str, **options: str) -> list[int]:
    found: list[int] = ordo.read(source, kinds="message", columns="position", **options).to_arrow()[0].to_pylist()
    return found


class Sink:
    """Positions by batch; a batch that comes again must have the same."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def take(self, frame: DataFrame, batch_id: int) -> None:
        rows = [row.position for row in frame.select("position").orderBy("position").collect()]
        assert self.batches.setdefault(batch_id, rows) == rows

    @property
    def positions(self) -> list[int]:
        return [position for batch in sorted(self.batches) for position in self.batches[batch]]


def start(spark: SparkSession, source: str, checkpoint: Path, sink: Sink, **trigger: bool | str) -> StreamingQuery:
    reader = spark.readStream.format("ordo").option("startingPosition", "earliest").option("kinds", "message")
    frame = reader.option("columns", "position,payload").option("maxBytesPerTrigger", 300_000).load(source)
    writer = frame.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger).start()  # type: ignore[arg-type]


def await_true(query: StreamingQuery, condition: Callable[[], bool], timeout_s: float = 90) -> None:
    deadline_s = time.monotonic() + patient(timeout_s)
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline_s, query.lastProgress
        time.sleep(0.2)


def have_the_same(cluster: LocalCluster, members: list[int]) -> bool:
    return len({counter_of(cluster, one, CounterType.COMMIT_POSITION) for one in members}) == 1


@pytest.mark.thorough
def test_a_stream_outlives_its_nodes(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Its offset is a position of the log: it goes on at other nodes, and neither skips nor repeats."""
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    with Writer(cluster.ingress_endpoints, reopens=True, padding=2000) as writer:
        writer.write(400)
        query = start(spark, url(cluster, 0, 1, 2), checkpoint, sink, processingTime="200 milliseconds")
        try:
            await_true(query, lambda: len(sink.positions) > 100)
            leader = cluster.await_leader()
            cluster.kill(leader)
            writer.write(400)
            left = [member for member in cluster.member_ids if member != leader]
            await_true(query, lambda: sink.positions == positions(url(cluster, *left)))
            cluster.restart(leader)
            writer.write(100)
            await_true(query, lambda: len(sink.positions) >= writer.acked)
        finally:
            query.stop()
        writer.write(50)
        dead = next(member for member in left if member != cluster.await_leader())
        cluster.kill(dead)
        writer.write(50)
    alive = [member for member in cluster.member_ids if member != dead]
    await_that(lambda: have_the_same(cluster, alive), "the follower with all that the leader has")
    query = start(spark, url(cluster, *alive), checkpoint, sink, availableNow=True)
    query.awaitTermination(round(patient(120)))
    assert query.exception() is None
    assert len(sink.positions) >= writer.acked == 1000
    folder = str(cluster.data_dir(alive[0]) / "archive")
    assert sink.positions == positions(folder, commit=str(cluster.aeron_dir(alive[0])))
    assert sink.positions == positions(url(cluster, dead, *alive))
    frame = spark.read.format("ordo").option("kinds", "message").option("partitionBytes", 1 << 17)
    batch = frame.load(url(cluster, *cluster.member_ids)).select("position")
    assert batch.rdd.getNumPartitions() > 4
    assert sorted(row.position for row in batch.collect()) == sink.positions
