"""The log of a real leader that recorded what nobody else ever had, beside those of the members that went on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordo.archive.live_positions import read_live_counters
from ordo.deploy.launcher import LocalCluster
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import describe
from ordo.pipeline.recordings.commit import RECORDING_POSITION_TYPE, live_commit_position
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.writer import Writer
from tests.clusters import STEADY, ready_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
LEDGER = "tests.cluster.integration.services:Ledger"


def recorded_beyond(aeron_dir: Path, position: int) -> bool:
    """Whether a leader has recorded more than that."""
    counters = read_live_counters(str(aeron_dir / "cnc.dat"))
    return any(counter.type_id == RECORDING_POSITION_TYPE and counter.value > position for counter in counters)


def end(cluster: LocalCluster, member: int) -> None:
    """A second signal ends a node at once, even when there is nobody to hand over to."""

    def has_ended() -> bool | None:
        if cluster.is_running(member):
            cluster.send_signal(member, signal.SIGTERM)
        return None if cluster.is_running(member) else True

    cluster.await_value(has_ended, "the end of a node")


@pytest.fixture(scope="module")
def deposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], str, int]]:
    """Folders, the node that was deposed, and the commit position when it was left alone."""
    root = tmp_path_factory.mktemp("deposed")
    with ready_cluster(LEDGER, heartbeat=STEADY, root=root, keep=True, sync="none") as cluster:
        archives = {member: str(cluster.data_dir(member) / "archive") for member in cluster.member_ids}
        leader = cluster.await_leader()
        others = [member for member in cluster.member_ids if member != leader]
        with Writer(cluster.ingress_endpoints) as writer:
            writer.write(300)
            demand_agreement(cluster, [writer])
            committed = live_commit_position(archives[leader], 0, str(cluster.aeron_dir(leader)))
            for member in others:
                cluster.kill(member)
            aeron_dir = cluster.aeron_dir(leader)
            writer.run(lambda: recorded_beyond(aeron_dir, committed))
            end(cluster, leader)
        for member in others:
            cluster.start_member(member)
        cluster.await_leader()
        with Writer(cluster.ingress_endpoints, writer_id=2) as writer:
            writer.write(300)
        for member in others:
            end(cluster, member)
    yield list(archives.values()), Path(archives[leader]).parent.name, committed
    shutil.rmtree(root)


def test_its_end_is_told_from_damage(spark: SparkSession, deposed: tuple[list[str], str, int]) -> None:
    folders, node, committed = deposed
    facts = audit(spark, folders)
    assert facts["status"] == "clean", describe(facts["first_problem"])
    (found,) = facts["uncommitted"]
    assert found["node"] == node and found["position"] >= committed and found["bytes"] > 0
    begins = {term["position"] for other in facts["nodes"] if other["node"] != node for term in other["terms"]}
    assert found["position"] in begins


def test_damage_behind_it_on_another_node_is_reported(
    spark: SparkSession, deposed: tuple[list[str], str, int], tmp_path: Path
) -> None:
    folders, node, _ = deposed
    kept, other = [folder for folder in folders if Path(folder).parent.name != node]
    rows = spark.read.format("ordo").load(kept).where("kind = 'message'").orderBy("position").collect()
    row = rows[-5]
    damaged = tmp_path / "copy" / "archive"
    shutil.copytree(other, damaged)
    with open(damaged / "0-0.rec", "r+b") as file:
        file.seek(row.start_position + 40)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    facts = audit(spark, [next(folder for folder in folders if Path(folder).parent.name == node), kept, str(damaged)])
    assert facts["first_problem"]["position"] == row.start_position
    assert [difference["byte"] for difference in facts["differences"]] == [row.start_position + 40]
    assert [end["node"] for end in facts["uncommitted"]] == [node]
