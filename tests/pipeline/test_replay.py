"""Replay of a service between snapshots, and the market it leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message, session_open
from ordo.pipeline.jobs import market as market_job
from ordo.pipeline.jobs import replay as replay_job
from ordo.pipeline.jobs.replay import emitted, replay
from ordo.pipeline.jobs.stretches import cut_log
from ordo.pipeline.replaying.replay_cluster import ReplayCluster
from ordo.pipeline.replaying.service_names import make_service
from ordo.service_api.service import ClusteredService
from tests.conftest import SHARED_DATA
from tests.pipeline.exchange import write_exchange

pytestmark = [pytest.mark.spark, pytest.mark.shared_data]
ITCH = SHARED_DATA / "itch50-aapl-20200130" / "locate-13-10k.bin"
BOOK = ITCH.with_name("expected_final_book.txt")
ENGINE = "ordo.matching.service:MatchingEngine"


class Echo(ClusteredService):
    """Puts each client message into the log once more."""

    word = b"again:"

    def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
        self.cluster = cluster

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        if session is not None:
            self.cluster.offer(self.word + payload)


class OtherEcho(Echo):
    word = b"AGAIN:"


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[int]]:
    folder = str(tmp_path_factory.mktemp("exchange") / "node0" / "archive")
    return folder, write_exchange(folder, ITCH, (2000, 5000, 7500))


def test_the_log_is_cut_at_its_snapshots(exchange: tuple[str, list[int]]) -> None:
    folder, taken = exchange
    parts = cut_log(folder).stretches
    assert [part.start for part in parts] == [0, *taken]
    assert [part.before is None for part in parts] == [True, False, False, False]
    assert [part.after is None for part in parts] == [False, False, False, True]


def test_the_same_service_agrees_at_every_snapshot(
    spark: SparkSession, exchange: tuple[str, list[int]], tmp_path: Path
) -> None:
    facts = replay(spark, exchange[0], ENGINE)
    assert facts["status"] == "partly checked"
    assert [part["verdict"] for part in facts["stretches"]] == ["agrees", "agrees", "agrees", "not checked"]
    assert facts["coverage"]["not_checked"] == facts["stretches"][-1]["records"] > 0
    assert [part["state"] for part in facts["stretches"]] == ["agrees", "agrees", "agrees", "no snapshot"]
    again = replay(spark, exchange[0], ENGINE, baseline=ENGINE)
    assert again["status"] == "agrees"
    assert [part["emitted_hash"] for part in facts["stretches"]] == [
        part["emitted_hash"] for part in again["stretches"]
    ]
    page = replay_job.write_report(facts, str(tmp_path))
    assert "partly checked: " in Path(page).read_text()
    assert replay(spark, exchange[0], ENGINE, end="snapshot")["status"] == "agrees"


def test_one_changed_rule_is_reported_with_the_first_message_where_it_differs(
    spark: SparkSession, exchange: tuple[str, list[int]]
) -> None:
    log = spark.read.format("ordo").load(exchange[0]).where("kind = 'message'").orderBy("position")
    changed = next(row for row in log.toLocalIterator() if row.payload[0] == 1 and row.payload[24:28] == b"\x2c\1\0\0")
    facts = replay(spark, exchange[0], "tests.pipeline.exchange:FewerShares", baseline=ENGINE)
    assert facts["status"] == "differs"
    assert facts["first_difference"]["position"] == changed.position
    assert facts["first_difference"]["record"]["payload"] == bytes(changed.payload).hex()
    assert facts["first_difference"]["expected"].startswith("egress 1: 10")
    alone = replay(spark, exchange[0], "tests.pipeline.exchange:FewerShares")
    assert alone["status"] == "differs"
    assert alone["first_difference"]["position"] in exchange[1]


def test_messages_of_the_service_in_the_log_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(new_term(0, 0, 5, 0, 1))
        builder.append(session_open(0, 1, 1, 6, b"", b""))
        for number in (b"1", b"2", b"3"):
            builder.append(session_message(0, 1, 7, number))
            last = builder.append(session_message(0, -9, 8, (b"again:" if number != b"3" else b"AGAIN:") + number))
    facts = replay(spark, builder.directory, "tests.pipeline.test_replay:Echo")
    assert facts["first_difference"]["position"] == last
    assert facts["first_difference"]["expected"] == b"AGAIN:3".hex()
    assert facts["first_difference"]["actual"] == b"again:3".hex()
    rows = emitted(spark, builder.directory, "tests.pipeline.test_replay:OtherEcho").orderBy("position").collect()
    assert [(row.kind, bytes(row.payload)) for row in rows] == [
        ("offer", b"AGAIN:" + number) for number in (b"1", b"2", b"3")
    ]


def test_a_timer_event_that_came_too_late_is_not_for_the_service() -> None:
    class Timed(ClusteredService):
        fired: ClassVar[list[int]] = []

        def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
            self.cluster = cluster

        def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
            self.cluster.schedule_timer(7, timestamp + 10)

        def on_timer_event(self, correlation_id, timestamp):  # type: ignore[no-untyped-def]
            self.fired.append(timestamp)

    cluster = ReplayCluster(Timed, None, 0)
    row = {"kind": "timer", "session_id": None, "correlation_id": 7, "payload": b""}
    cluster.execute({**row, "kind": "message", "session_id": -9, "position": 96, "cluster_time": 100})
    cluster.execute({**row, "position": 192, "cluster_time": 109})
    assert cluster.take_snapshot().timers == ((7, 110),)
    cluster.execute({**row, "position": 288, "cluster_time": 110})
    cluster.execute({**row, "position": 384, "cluster_time": 111})
    assert Timed.fired == [110]


def test_a_service_that_is_none_is_named(spark: SparkSession, exchange: tuple[str, list[int]]) -> None:
    with pytest.raises(PipelineError, match="is no ClusteredService"):
        make_service("json:JSONDecoder")
    with pytest.raises(PipelineError, match="cannot be loaded"):
        make_service("ordo.matching.service:Nothing")


@pytest.mark.thorough  # the market of a demo and of an exchange that runs are in `make test`
def test_the_market_has_the_exchanges_own_executions(
    spark: SparkSession, exchange: tuple[str, list[int]], tmp_path: Path
) -> None:
    """The file's provenance tells 849 executions and the book they end in."""
    market = market_job.events(spark, exchange[0], ENGINE).persist()
    found = market_job.trades(market)
    rows = found.orderBy("match_number").collect()
    assert len(rows) == 849
    assert [row.match_number for row in rows] == list(range(1, 850))
    bars = market_job.volume_bars(found, 500).collect()
    assert sum(bar.trades for bar in bars) == 849
    assert sum(bar.quantity for bar in bars) == sum(row.quantity for row in rows)
    assert all(bar.low <= bar.open <= bar.high and bar.low <= bar.close <= bar.high for bar in bars)
    last = market_job.quotes(market).orderBy("position").tail(1)[0]
    sides = [line.split(":")[0].split() for line in BOOK.read_text().splitlines() if line[:1] in "BS"]
    bids, asks = ([round(float(price) * 10_000) for name, price in sides if name == side] for side in "BS")
    assert (last.bid, last.ask) == (max(bids), min(asks))
    page = market_job.write_report(market, str(tmp_path))
    assert json.loads(Path(page).with_suffix(".json").read_text())["executions"] == 849
