"""Three real nodes sequence the ITCH flow; their archives are audited, replayed and turned into the market."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from ordo.cluster.admin.local_member import LocalMember, node_status
from ordo.cluster.admin.orders import take_snapshot
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.order_client import OrderClient
from ordo.pipeline.jobs import market
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.replay import replay
from ordo.pipeline.jobs.session_order import session_violations
from ordo.pipeline.recordings.recordings import open_recordings
from tests.clusters import ready_cluster
from tests.pipeline.test_replay import ENGINE, ITCH

SEGMENT_LENGTH = 1 << 19
SMALL: dict[str, str | int | float | bool] = {
    "segment_length": SEGMENT_LENGTH,
    "log_term_length": SEGMENT_LENGTH,
    "leader_heartbeat_timeout": "10s",  # one member leads all the time, however busy the machine
    "session_timeout": "60s",
}
pytestmark = [pytest.mark.spark, pytest.mark.shared_data, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], int]]:
    """The archives of three nodes that took two snapshots on the way and stopped in good order, and the position at
    which all were level: while they stop, one may begin a term that the others do not hear of."""
    if not ITCH.exists():
        pytest.skip(f"shared data is not beside the checkout: {ITCH}")
    root = tmp_path_factory.mktemp("demo")
    requests = [entry.request for entry in ItchFeed(1).entries(read_itch_file(ITCH))]
    with ready_cluster(ENGINE, root=root, keep=True, sync="none", cluster=SMALL) as cluster:
        leader = load_config(cluster.config_path(cluster.await_leader()))
        answers: list[object] = []
        orders: list[OrderClient] = []
        with ClusterClient(
            cluster.ingress_endpoints, on_message=lambda session_id, timestamp, payload: orders[0].on_message(payload)
        ) as connection:
            orders.append(
                OrderClient(connection, time.monotonic_ns, lambda answer, ns: answers.append(answer), window=64)
            )
            for begin in range(0, len(requests), 4000):
                orders[0].run(requests[begin : begin + 4000])
                if begin:
                    take_snapshot(LocalMember(leader))
        assert len(answers) == len(requests)
        cluster.await_value(
            lambda: True if all_hold_the_same(cluster) else None, "all nodes level, with both snapshots"
        )
        position = node_status(leader).commit_position
        folders = [str(cluster.data_dir(member) / "archive") for member in range(3)]
        for member, folder in enumerate(folders):
            (live,) = open_recordings([folder], "log", str(cluster.aeron_dir(member)))
            assert live.descriptor.is_active and live.limit > 0
    yield folders, position
    shutil.rmtree(root)


@pytest.fixture
def archives(recorded: tuple[list[str], int]) -> list[str]:
    """The archives of the three nodes."""
    return recorded[0]


def all_hold_the_same(cluster: LocalCluster) -> bool:
    """Whether the slowest node, too, has executed everything, the end of the session as well, and holds both snapshots:
    answers wait for a quorum. The leader appends the protocol level by itself, some time after it was elected."""
    if not all(any(cluster.log_events(member, "cluster.level")) for member in range(3)):
        return False
    nodes = [node_status(load_config(cluster.config_path(member))) for member in range(3)]
    leader_position = max(node.commit_position for node in nodes)
    return all((node.service_position, node.snapshots, node.sessions) == (leader_position, 2, 0) for node in nodes)


@pytest.mark.thorough
def test_three_nodes_are_clean(spark: SparkSession, recorded: tuple[list[str], int]) -> None:
    archives, position = recorded
    facts = audit(spark, archives)
    assert facts["status"] == "clean", facts["first_problem"]
    assert len(facts["nodes"]) == 3
    assert facts["compared_to"] >= position > 0
    assert session_violations(spark.read.format("ordo").load(archives)).count() == 0


@pytest.fixture
def copy(archives: list[str], tmp_path: Path) -> str:
    """A copy of the second node's archive, to be damaged."""
    folder = tmp_path / "copy" / "archive"
    shutil.copytree(archives[1], folder)
    return str(folder)


def message_of(spark: SparkSession, folder: str, number: int) -> Row:
    messages = spark.read.format("ordo").load(folder).where("kind = 'message'")
    return messages.orderBy("position").limit(number).tail(1)[0]


def test_a_flipped_byte_of_one_node_is_found(spark: SparkSession, archives: list[str], copy: str) -> None:
    row = message_of(spark, copy, 5000)
    base = row.start_position // SEGMENT_LENGTH * SEGMENT_LENGTH
    with open(f"{copy}/0-{base}.rec", "r+b") as file:
        file.seek(row.start_position - base + 70)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))
    facts = audit(spark, [archives[0], copy, archives[2]])
    assert facts["first_difference"]["position"] == row.start_position
    assert facts["first_difference"]["odd"] == "copy"
    assert facts["findings"][0]["fault"] == "checksum"


def test_a_removed_segment_of_one_node_is_found(spark: SparkSession, archives: list[str], copy: str) -> None:
    os.remove(f"{copy}/0-{SEGMENT_LENGTH}.rec")
    facts = audit(spark, [archives[0], copy, archives[2]])
    assert facts["first_problem"]["position"] == facts["first_difference"]["position"] == SEGMENT_LENGTH
    assert facts["first_difference"]["odd"] == "copy"
    assert [finding["fault"] for finding in facts["findings"]] == ["the segment file is missing"]


def test_a_truncated_tail_of_one_node_is_found(spark: SparkSession, archives: list[str], copy: str) -> None:
    row = message_of(spark, copy, 9900)
    base = row.start_position // SEGMENT_LENGTH * SEGMENT_LENGTH
    assert not os.path.exists(f"{copy}/0-{base + SEGMENT_LENGTH}.rec")
    os.truncate(f"{copy}/0-{base}.rec", row.start_position - base + 40)
    facts = audit(spark, [archives[0], copy, archives[2]])
    assert facts["first_problem"]["position"] == row.start_position
    assert facts["findings"][0]["fault"] == "the segment file ends inside the frame"
    assert facts["first_difference"]["odd"] == "copy"


@pytest.mark.thorough  # a replay through all terms, and one that agrees at each snapshot, are in `make test`
def test_replay_agrees_at_every_snapshot_of_every_node(spark: SparkSession, archives: list[str]) -> None:
    for folder in archives:
        facts = replay(spark, folder, ENGINE, end="snapshot")
        assert facts["status"] == "agrees", facts["first_difference"]
        assert facts["snapshots_compared"] == 2
    changed = replay(spark, archives[0], "tests.pipeline.exchange:FewerShares", baseline=ENGINE)
    log = spark.read.format("ordo").load(archives[0]).where("kind = 'message'").orderBy("position")
    first = next(row for row in log.toLocalIterator() if row.payload[0] == 1 and row.payload[24:28] == b"\x2c\1\0\0")
    assert changed["first_difference"]["position"] == first.position


def test_the_market_has_849_executions(spark: SparkSession, archives: list[str]) -> None:
    assert market.trades(market.events(spark, archives[2], ENGINE)).count() == 849
