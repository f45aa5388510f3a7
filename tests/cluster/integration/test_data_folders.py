"""Folders that are not the member's own, or not what it had: refused with one line, or caught up before they count."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, newest_slot
from ordo.cluster.module.state.peer_notes import PEER_NOTES_NAME
from ordo.cluster.monitoring.counters import counter_value
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_error, await_that, demand_agreement, errors_of
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.test_crashes import follower_of
from tests.cluster.integration.test_repair import await_trust
from tests.cluster.integration.writer import Writer
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
OPTIONS = {"log_term_length": "64k", "segment_length": "64k", "session_timeout": "60s"}


def exchange(cluster: LocalCluster, member_id: int, folder: Path) -> None:
    """Gives a stopped member another data folder."""
    shutil.rmtree(cluster.data_dir(member_id))
    shutil.copytree(folder, cluster.data_dir(member_id))


def noted_commit(cluster: LocalCluster, member_id: int) -> int:
    """What a member's folder says of how far its log is committed."""
    path = cluster.data_dir(member_id) / "cluster" / COMMIT_NOTE_NAME
    return newest_slot(path.read_bytes())[1]


def segments(cluster: LocalCluster, member_id: int) -> dict[str, bytes]:
    """What a member's folder has of recordings, by file."""
    return {path.name: path.read_bytes() for path in (cluster.data_dir(member_id) / "archive").glob("*.rec")}


def noted_start(cluster: LocalCluster, member_id: int, by: int) -> int:
    """The number of a member's newest start, as another member has noted it; 0 where it has not."""
    rows = struct.iter_unpack("<iIqqqq8x", (cluster.data_dir(by) / "cluster" / PEER_NOTES_NAME).read_bytes())
    return max((number for found, _, number, *_ in rows if found == member_id), default=0)


def await_end(cluster: LocalCluster, member_id: int) -> str:
    """What a member's log says once it has ended."""
    await_that(lambda: not cluster.is_running(member_id), f"member {member_id} ends")
    return cluster.logs(member_id)


def test_the_folder_of_another_cluster_is_refused_by_the_others(start_cluster: StartCluster) -> None:
    """With the same ids and the same term, so that nothing but the identity tells them apart."""
    other = start_cluster(cluster=OPTIONS)
    with Writer(other.ingress_endpoints) as writer:
        writer.write(1000)
        other.stop_all()
    foreign = {member_id: other.data_dir(member_id).with_suffix(".foreign") for member_id in other.member_ids}
    for member_id, folder in foreign.items():
        shutil.move(other.data_dir(member_id), folder)
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(200)
        member_id = follower_of(cluster)
        cluster.stop(member_id)
        kept = cluster.data_dir(member_id).with_suffix(".kept")
        shutil.copytree(cluster.data_dir(member_id), kept)
        exchange(cluster, member_id, foreign[member_id])
        cluster.start_member(member_id)
        told = await_end(cluster, member_id)
        assert f"the data folder {cluster.data_dir(member_id)} is of another cluster: it has identity" in told, told
        assert "Traceback" not in told
        leader = cluster.await_leader()
        await_error(cluster, leader, f"member {member_id} has the data of another cluster")
        writer.write(200)
        exchange(cluster, member_id, kept)
        cluster.start_member(member_id)
        demand_agreement(cluster, [writer])


def test_the_folder_of_another_member_is_refused_and_can_be_adopted(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        leader = cluster.await_leader()
        member_id = follower_of(cluster)
        (third,) = {*cluster.member_ids} - {leader, member_id}
        cluster.stop(third)
        cluster.stop(member_id)
        copied = cluster.data_dir(third).with_suffix(".copy")
        shutil.copytree(cluster.data_dir(third), copied)
        cluster.start_member(third)
        exchange(cluster, member_id, copied)
        folder, config = cluster.data_dir(member_id), str(cluster.config_path(member_id))
        cluster.start_member(member_id)
        told = await_end(cluster, member_id)
        assert f"the data folder {folder} is that of member {third} of cluster 0" in told, told
        assert "ordo cluster adopt" in told and "Traceback" not in told, told
        adopted = ordo("cluster", "adopt", "--config", config)
        assert adopted.returncode == 0 and f"is now that of member {member_id}" in adopted.stdout, adopted
        again = ordo("cluster", "adopt", "--config", config)
        assert again.returncode == 1 and f"is that of member {member_id} already" in again.stderr, again
        cluster.start_member(member_id)
        writer.write(200)
        await_trust(cluster, member_id)
        demand_agreement(cluster, [writer])


def test_an_old_copy_of_the_own_folder_elects_nobody_until_it_has_caught_up(start_cluster: StartCluster) -> None:
    """The true leader is down, and what it alone has besides the member was acknowledged: nobody may lead without."""
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        leader = cluster.await_leader()
        one, two = (member_id for member_id in cluster.member_ids if member_id != leader)
        cluster.stop(one)
        old = cluster.data_dir(one).with_suffix(".old")
        shutil.copytree(cluster.data_dir(one), old)
        before = noted_start(cluster, one, by=two)
        cluster.start_member(one)
        writer.write(500)
        demand_agreement(cluster, [writer])
        await_that(
            lambda: noted_start(cluster, one, by=two) > before, f"member {two} notes that {one} has started again"
        )
        cluster.stop(two)
        writer.write(500)
        cluster.kill(leader)
        cluster.kill(one)
        exchange(cluster, one, old)
        cluster.start_member(one)
        cluster.start_member(two)
        text = f"the data folder {cluster.data_dir(one)} is an older copy: member {two} knows"
        await_that(lambda: text in errors_of(cluster, one), "the member says so")
        waits = f"waits for members [{leader}] to tell theirs"
        await_that(lambda: waits in errors_of(cluster, one), "it waits for the leader")
        cluster.start_member(leader)
        writer.write(200)
        await_trust(cluster, one)
        demand_agreement(cluster, [writer])


def test_the_one_member_with_data_does_not_join_those_that_were_emptied(start_cluster: StartCluster) -> None:
    """They were started first, and have begun another log."""
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
    whole, *others = cluster.member_ids
    cluster.stop_all()
    for member_id in others:
        cluster.wipe(member_id)
        cluster.start_member(member_id)
    leader = cluster.await_leader(60)
    assert leader in others
    cluster.start_member(whole)
    told = await_end(cluster, whole)
    assert f"the data folder {cluster.data_dir(whole)} is of another cluster: it has identity" in told, told
    assert f"members {others} have" in told and "if theirs were emptied or exchanged, stop them" in told
    assert "Traceback" not in told
    await_error(cluster, leader, f"member {whole} has the data of another cluster")


@pytest.mark.parametrize("loses_note", few_of([False, True], [True]))
def test_a_leader_killed_as_it_answers_does_not_give_up_what_it_answered(
    start_cluster: StartCluster, loses_note: bool
) -> None:
    """Nobody who was up knew that a member had more than its older copy: the one that has the records says so.

    Without the note, which a loss of power may take, each record of its log tells how far the ones before were
    committed.
    """
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        leader = cluster.await_leader()
        one, two = (member_id for member_id in cluster.member_ids if member_id != leader)
        cluster.stop(one)
        old = cluster.data_dir(one).with_suffix(".old")
        shutil.copytree(cluster.data_dir(one), old)
        writer.write(100)  # so that nobody but member two can be elected: the returning leader would refuse the copy
        cluster.stop(two)
        cluster.start_member(one)
        writer.write(500)
        committed = counter_value(cluster.aeron_dir(leader), CounterType.COMMIT_POSITION)
        cluster.kill(leader)
        cluster.kill(one)
    assert noted_commit(cluster, leader) >= committed, "all that it answered is noted, without a moment's delay"
    if loses_note:
        (cluster.data_dir(leader) / "cluster" / COMMIT_NOTE_NAME).unlink()
    kept = segments(cluster, leader)
    exchange(cluster, one, old)
    cluster.start_member(one)
    cluster.start_member(two)
    await_that(lambda: cluster.leader() == two, "nobody who runs knew of the later start")
    cluster.start_member(leader)
    told = await_end(cluster, leader)
    assert "This member keeps what it has, and ends: stop the cluster and compare the logs" in told, told
    assert "start it with an empty one and `--rejoin`" in told and "Traceback" not in told
    assert segments(cluster, leader) == kept, "its log is the evidence"
