"""Logs that begin anew behind an orderly end: of some members only, with a learner, and killed in the middle.

`tests/scenarios/test_renewed_log.py` has the same in simulated members, with power cuts, at their next start, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit

from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.cluster.admin.log_renewal import has_begun_anew, renew_log
from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.state_store import StoredState
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.deploy.launcher import ROOT, LocalCluster
from tests.cluster.integration.agreement import await_that, demand_agreement
from tests.cluster.integration.command import order, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.killed_renewals import copy_config
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
KIB = 1024
SMALL = {"log_term_length": "64k", "segment_length": "64k"}
TIMEOUT_S = 60


def end(cluster: LocalCluster) -> None:
    """In order, with a snapshot of all there is."""
    done = order(cluster, "shutdown")
    assert done.returncode == 0, done
    assert [cluster.wait(one, TIMEOUT_S) for one in cluster.member_ids] == [0] * len(cluster.member_ids)


def lengthen(cluster: LocalCluster) -> None:
    """Writes another term length into all configurations."""
    for member_id in cluster.member_ids:
        path = cluster.config_path(member_id)
        content = tomlkit.parse(path.read_text())
        content["cluster"].update(log_term_length="128k", segment_length="128k")
        path.write_text(tomlkit.dumps(content))


def renew(cluster: LocalCluster, *members: int) -> None:
    for member_id in members:
        done = ordo("cluster", "renew-log", "--config", str(cluster.config_path(member_id)))
        assert done.returncode == 0 and "begins its log anew at" in done.stdout, done


def term_lengths(cluster: LocalCluster) -> list[list[int]]:
    """Of each member: those of its logs, of which one is in use."""
    folders = [str(cluster.data_dir(one) / "archive") for one in cluster.member_ids]
    logs = [[one for one in list_recordings(folder) if "alias=log" in one.original_channel] for folder in folders]
    return [[one.term_length for one in of_member] for of_member in logs]


def await_term_lengths(cluster: LocalCluster, wanted_bytes: int) -> None:
    """The logs of before are deleted, too."""
    await_that(lambda: term_lengths(cluster) == [[wanted_bytes]] * len(cluster.member_ids), f"logs of {wanted_bytes}")


def test_who_was_forgotten_ends_and_says_so_a_learner_too(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster={**SMALL, "appointed_leader_id": 0})
    learner = cluster.add_member()
    added = ordo("cluster", "add-learner", cluster.new_member(learner), "--config", str(cluster.config_path(0)))
    assert added.returncode == 0, added
    cluster.start_member(learner)
    with Writer(cluster.ingress_endpoints) as first:
        first.write(200)
        before = demand_agreement(cluster, [first])
    end(cluster)
    lengthen(cluster)
    renew(cluster, 0, 1)
    cluster.start()
    for member_id in (2, learner):
        assert cluster.wait(member_id, TIMEOUT_S) == 1
        (said,) = [line for line in cluster.logs(member_id).splitlines() if line.startswith("ordo: ")]
        assert "log_term_length = 131072 and mtu = 1408, that of this member 65536 and 1408" in said
        assert "do so here, too (`ordo cluster renew-log`)" in said
    renew(cluster, 2, learner)
    cluster.start()
    with Writer(cluster.ingress_endpoints, writer_id=2) as second:
        second.write(100)
        assert demand_agreement(cluster, [second, first]).entries == before.entries + 100
    await_term_lengths(cluster, 128 * KIB)


def stored(config: NodeSettings) -> StoredState:
    with open_stored(config) as store:
        return store.load()


def kill_renewals(cluster: LocalCluster, library: Path) -> list[NodeSettings]:
    """The member's configuration with each folder that a killed attempt left."""
    source = ROOT / "tests" / "faults" / "kill_at.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    command = [sys.executable, "-m", "tests.cluster.integration.killed_renewals", str(cluster.config_path(0))]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    config = load_config(cluster.config_path(0))
    return [copy_config(config, number) for number in range(1, int(done.stdout))]


def test_a_renewal_that_is_killed_leaves_the_log_or_begins_it_anew(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(member_count=1, cluster=SMALL)
    with Writer(cluster.ingress_endpoints) as first:
        first.write(300)
        before = demand_agreement(cluster, [first])
    end(cluster)
    lengthen(cluster)
    kept = stored(load_config(cluster.config_path(0)))
    killed = kill_renewals(cluster, tmp_path / "kill_at.so")
    assert len(killed) > 3, "the lock, and the pages of a transaction"
    states = [stored(one) for one in killed]
    assert all(state == kept or has_begun_anew(state) for state in states)
    untouched = [one for one, state in zip(killed, states, strict=True) if state == kept]
    assert start_from(cluster, untouched[-1], first, 2) == before.entries + 10
    assert "the log goes on with log_term_length = 65536 and mtu = 1408, with which it was begun" in cluster.logs(0)
    assert term_lengths(cluster) == [[64 * KIB]]
    for config in killed:
        renew_log(config)
        assert has_begun_anew(stored(config))
    assert start_from(cluster, killed[-1], first, 3) == before.entries + 10
    await_term_lengths(cluster, 128 * KIB)


def start_from(cluster: LocalCluster, config: NodeSettings, first: Writer, writer_id: int) -> int:
    """Starts the member with what an attempt left, and writes ten entries; how many it has then."""
    if cluster.is_running(0):
        cluster.stop(0)
    shutil.rmtree(cluster.data_dir(0))
    shutil.copytree(config.node.data_dir, cluster.data_dir(0))
    cluster.start()
    with Writer(cluster.ingress_endpoints, writer_id=writer_id) as writer:
        writer.write(10)
        return demand_agreement(cluster, [writer, first]).entries
