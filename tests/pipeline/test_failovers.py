"""The log of three real nodes whose leaders were killed one after another: audited, damaged, replayed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from ordo.cluster.module.state.settings import SnapshotSettings
from ordo.deploy.launcher import LocalCluster
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.jobs.audit_report import describe
from ordo.pipeline.jobs.replay import replay
from ordo.pipeline.jobs.session_order import session_violations
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.command import order
from tests.cluster.integration.writer import Writer
from tests.thorough import few_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
LEDGER = "tests.cluster.integration.services:Ledger"
KILLS = 3


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Each killed leader came back; a snapshot was taken in each term."""
    root = tmp_path_factory.mktemp("failovers")
    with LocalCluster(LEDGER, root=root, keep=True, sync="none") as cluster:
        with Writer(cluster.ingress_endpoints, reopens=True) as writer:
            for _ in range(KILLS):
                writer.write(400)
                assert order(cluster, "snapshot").returncode == 0
                writer.run(lambda target=writer.acked + 300: writer.acked > target)  # type: ignore[misc]
                killed = cluster.await_leader()
                cluster.kill(killed)
                writer.run(lambda target=writer.acked + 300: writer.acked > target)  # type: ignore[misc]
                cluster.start_member(killed)
                demand_agreement(cluster, [writer])
        folders = [str(cluster.data_dir(member) / "archive") for member in cluster.member_ids]
    yield folders
    shutil.rmtree(root)


def records(spark: SparkSession, folder: str, **options: str) -> list[Row]:
    return spark.read.format("ordo").options(**options).load(folder).orderBy("position").collect()


@pytest.mark.thorough
def test_a_log_of_several_leaders_is_clean(spark: SparkSession, archives: list[str]) -> None:
    facts = audit(spark, archives)
    assert facts["status"] == "clean", describe(facts["first_problem"])
    terms = [[term["leadership_term"] for term in node["terms"]] for node in facts["nodes"]]
    assert len(terms[0]) > KILLS and terms[0] == sorted(set(terms[0]))
    shortest = min(terms, key=len)
    assert all(part[: len(shortest)] == shortest for part in terms)
    leaders = {term["leader"] for term in facts["nodes"][0]["terms"]}
    assert len(leaders) > 1
    assert session_violations(spark.read.format("ordo").load(archives)).count() == 0


@pytest.mark.parametrize("kind", few_of(["new_term", "message"], ["message"]))
def test_damage_in_a_later_term_is_named_exactly(
    spark: SparkSession, archives: list[str], tmp_path: Path, kind: str
) -> None:
    third = records(spark, archives[0], kinds="new_term")[2].leadership_term
    found = [row for row in records(spark, archives[0], kinds=kind) if row.leadership_term >= third]  # it may be empty
    row = found[len(found) // 2]
    damaged = tmp_path / "copy" / "archive"
    shutil.copytree(archives[0], damaged)
    with open(damaged / "0-0.rec", "r+b") as file:
        file.seek(row.start_position + 32 + 16)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    facts = audit(spark, [str(damaged), archives[1], archives[2]])
    assert facts["first_problem"]["position"] == row.start_position
    assert facts["first_difference"]["byte"] == row.start_position + 48
    assert facts["first_difference"]["odd"] == "copy"
    assert [(finding["node"], finding["fault"]) for finding in facts["findings"]] == [("copy", "checksum")]


def test_replay_goes_through_all_terms(spark: SparkSession, archives: list[str]) -> None:
    for folder in archives:
        facts = replay(spark, folder, LEDGER, end="snapshot")
        assert facts["status"] == "agrees", facts["first_difference"]
        assert facts["snapshots_compared"] >= 1
    kept = SnapshotSettings().keep
    compared = max(replay(spark, folder, LEDGER)["snapshots_compared"] for folder in archives)
    assert min(KILLS, kept) <= compared <= KILLS, "an older one goes a moment after all have the newest"
