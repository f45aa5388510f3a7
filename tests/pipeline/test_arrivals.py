"""Column `arrival_ns`, and services that are run again over a log with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

import ordo
from ordo.cluster.wire.levels import PROTOCOL_LEVEL
from ordo.follow.reader import LogReader
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.jobs.replay import replay
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_message_sequences import raise_level
from tests.cluster.container.test_service_container import take_snapshot
from tests.cluster.integration.arrivals import Arrivals
from tests.patience import patient
from tests.pipeline.served import ServedFolder, url
from tests.sequencer.request_log import RequestLog

SERVICE = "tests.cluster.integration.arrivals:Arrivals"


class TimedLog:
    """A log of messages and requests of which two of three have an arrival, and two snapshots of a service whose state
    is what it was told of them."""

    def __init__(self, folder: Path) -> None:
        node = ServiceNode(folder)
        node.set_recovery()
        node.begin_term(0, leads=True)
        raise_level(node, PROTOCOL_LEVEL)
        self.service = Arrivals()
        container = node.container(self.service)
        log = RequestLog(2, node.append, has_arrivals=True)
        for _ in range(2):
            for _ in range(200):
                log.write()
            node.commit()
            node.run(container)
            take_snapshot(node, container)
        node.archive.stop(node.recording)
        node.close()
        self.folder, self.arrivals, self.end = str(folder / "archive"), log.arrivals, node.log.position

    def check(self, rows: list[dict[str, Any]]) -> None:
        assert {row["position"]: row["arrival_ns"] for row in rows if row["arrival_ns"] is not None} == {
            position: arrival_ns for position, arrival_ns in self.arrivals.items() if arrival_ns is not None
        }
        assert {row["position"] for row in rows} > set(self.arrivals)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> TimedLog:
    return TimedLog(tmp_path_factory.mktemp("arrivals"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_rows": 7},
        {"partition_bytes": 4096},
        {"columns": "position"},
        {"columns": "arrival_ns,position", "arrival": False},
    ],
)
def test_rows_say_when_messages_arrived(log: TimedLog, options: dict[str, Any]) -> None:
    log.check(ordo.read(log.folder, **{"arrival": True, **options}).to_arrow().to_pylist())


def test_the_column_is_there_where_it_is_asked_for_alone(log: TimedLog) -> None:
    assert "arrival_ns" not in ordo.read(log.folder).to_arrow().schema.names
    rows = ordo.read(log.folder, arrival=True).sql("SELECT count(arrival_ns) AS n, count(*) AS rows FROM log")
    (row,) = rows.to_pylist()
    assert 0 < row["n"] == sum(one is not None for one in log.arrivals.values()) < row["rows"]
    with pytest.raises(PipelineError, match="arrival"):
        ordo.read(log.folder, arrival="yes")


def test_rows_and_entries_over_the_network_say_the_same(log: TimedLog) -> None:
    served = ServedFolder(log.folder)
    try:
        log.check(ordo.read(url(served), columns="position,arrival_ns").to_arrow().to_pylist())
        with LogReader([served.address], repeats=True) as reader:
            entries = list(reader.entries(until_position=log.end, timeout_s=patient(30)))
        assert {one.position: one.arrival_ns for one in entries if one.position in log.arrivals} == log.arrivals
    finally:
        served.close()


def test_a_service_that_is_run_again_is_told_what_it_was_told_before(log: TimedLog) -> None:
    """From the beginning to a snapshot, and from there to the next: the states are those of the snapshots."""
    assert any(arrival_ns for _, arrival_ns, _ in log.service.rows)
    facts = replay(None, log.folder, SERVICE, end="snapshot")
    assert facts["status"] == "agrees", facts
    assert [part["state"] for part in facts["stretches"]] == ["agrees", "agrees"]


@pytest.mark.spark
def test_spark_reads_the_same(spark: SparkSession, log: TimedLog) -> None:
    frame = spark.read.format("ordo").option("arrival", True).load(log.folder)
    assert frame.schema["arrival_ns"].dataType == LongType()
    log.check([row.asDict() for row in frame.select("position", "arrival_ns").collect()])
