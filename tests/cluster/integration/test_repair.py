"""Nodes whose disk was damaged while they were down come back by themselves, without a vote until they have it all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ordo.archive.inspection import recording_inspection as archive_tools
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.orders import take_snapshot
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.consensus.state.distrust import Distrust
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.native.sentinels import NULL_VALUE
from tests.cluster.integration.agreement import (
    await_error,
    await_value,
    counter_of,
    demand_agreement,
    describe,
    errors_of,
)
from tests.cluster.integration.command import order, ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.damage import (
    LOG_DAMAGES,
    LOG_STREAM_ID,
    closed_segments,
    cut_segment,
    flip,
    flip_first_segment,
    log_files,
    records_of,
)
from tests.cluster.integration.test_crashes import follower_of
from tests.cluster.integration.writer import Writer
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
OPTIONS = {"log_term_length": "64k", "segment_length": "64k", "session_timeout": "60s"}
"""A writer says nothing while nodes restart, which takes long on a busy machine: its session must outlast that."""
NO_SCRUBBER = {"archive": {"scrub": 0}}
"""The first pass of a scrubber reads in the first seconds of a node, and mends what a test has just damaged."""


def let_rejoin(cluster: LocalCluster, member_id: int) -> None:
    """Takes everything from a member, which begins again with an empty folder when it is started."""
    cluster.stop(member_id)
    cluster.wipe(member_id)
    config = cluster.config_path(member_id)
    config.write_text(config.read_text().replace("[node]", "[node]\nrejoin = true", 1))


def await_trust(cluster: LocalCluster, member_id: int) -> None:
    await_value(
        lambda: True if counter_of(cluster, member_id, CounterType.DISTRUST) == Distrust.NONE else None,
        f"member {member_id} votes again",
    )


def demand_whole_logs(cluster: LocalCluster) -> None:
    """Every frame of every member's log is whole; they do not run."""
    for member_id in cluster.member_ids:
        folder = str(cluster.data_dir(member_id) / "archive")
        assert all(found.is_good for found in archive_tools.verify(folder))


def demand_equal_logs(cluster: LocalCluster) -> None:
    """Every frame of every member's log is whole, and all have the same records; they do not run.

    A padding names the stream that it came in, and a member that was behind for a moment had it from a replay.
    """
    files = [log_files(cluster, member_id) for member_id in cluster.member_ids]
    demand_whole_logs(cluster)
    closed = min(map(closed_segments, files))
    assert closed > 2
    for index in range(closed):
        first, *others = (records_of(each[index].read_bytes()) for each in files)
        assert first and all(one == first for one in others), files[0][index].name


@pytest.mark.parametrize("damage", few_of(LOG_DAMAGES, [flip_first_segment, cut_segment]))
def test_a_damaged_log_is_fetched_from_the_leader(
    start_cluster: StartCluster, damage: Callable[[list[Path]], Path]
) -> None:
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(4000)
        follower = follower_of(cluster)
        cluster.stop(follower)
        damaged = damage(log_files(cluster, follower))
        verified = ordo("archive", "verify", str(damaged.parent))
        assert verified.returncode == 1 and damaged.name in verified.stdout, verified
        cluster.start_member(follower)
        writer.write(1000)
        await_trust(cluster, follower)
        demand_agreement(cluster, [writer])
        errors = ordo("errors", "--config", str(cluster.config_path(follower))).stdout
        assert "this member does not vote until it has everything from its leader" in errors, errors
        assert "Traceback" not in cluster.logs(follower)
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    demand_equal_logs(cluster)


def test_a_damaged_snapshot_is_left_for_the_log(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        assert order(cluster, "snapshot").returncode == 0
        follower = follower_of(cluster)
        await_value(partial(has_snapshot, cluster, follower), "a snapshot")
        cluster.stop(follower)
        folder = cluster.data_dir(follower) / "archive"
        log, *snapshots = archive_tools.list_recordings(str(folder))
        assert snapshots and log.stream_id == LOG_STREAM_ID
        for recording in snapshots:
            flip(folder / f"{recording.recording_id}-0.rec", 40)
        cluster.start_member(follower)
        assert counter_of(cluster, follower, CounterType.DISTRUST) in (NULL_VALUE, Distrust.NONE)
        writer.write(500)
        demand_agreement(cluster, [writer])
        assert (
            "cannot be used; an older one, or the whole log, is used instead"
            in ordo("errors", "--config", str(cluster.config_path(follower))).stdout
        )


@pytest.mark.parametrize("content", [None, b"no database at all" * 1000], ids=["gone", "damaged"])
def test_a_lost_store_of_votes_is_asked_together_again(start_cluster: StartCluster, content: bytes | None) -> None:
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        follower = follower_of(cluster)
        cluster.stop(follower)
        store = cluster.data_dir(follower) / "cluster" / "state.mdb"
        store.unlink()
        if content is not None:
            store.write_bytes(content)
        cluster.start_member(follower)
        await_trust(cluster, follower)
        writer.write(500)
        demand_agreement(cluster, [writer])


@pytest.mark.thorough
def test_a_lost_majority_says_so_and_can_be_told_to_go_on(start_cluster: StartCluster) -> None:
    """Nobody is elected; then the operator gives up what the member with the longest log does not have."""
    cluster = start_cluster(cluster=OPTIONS)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
    for member_id in cluster.member_ids:
        cluster.stop(member_id)
    for member_id in (0, 1):
        flip(log_files(cluster, member_id)[0], 40)
    cluster.start()
    line = "no leader can be elected: members [0, 1] of [0, 1, 2]"
    await_value(lambda: line in errors_of(cluster, 2) or None, "the line that tells the operator")
    assert cluster.leader() is None
    cluster.stop(1)
    arguments = ("--config", str(cluster.config_path(1)))
    assert "say --accept-loss" in ordo("cluster", "trust", *arguments).stderr
    said = ordo("cluster", "trust", "--accept-loss", *arguments)
    assert "member 1 votes again with its log up to position=0; it had lost: LOG" in said.stdout, said
    cluster.start_member(1)
    cluster.await_leader(60)
    await_trust(cluster, 0)


def test_a_running_leader_mends_its_log_and_hands_over_nothing(start_cluster: StartCluster) -> None:
    """The scrubber finds the damage first: then a member that has nothing is given the whole log."""
    cluster = start_cluster(cluster={**OPTIONS, **PATIENT}, tables={"archive": {"scrub": "1s"}})
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(3000)
        leader = cluster.await_leader()
        empty = follower_of(cluster)
        let_rejoin(cluster, empty)
        damaged = log_files(cluster, leader)[1]
        whole = damaged.read_bytes()
        flip(damaged, 40)
        await_value(
            lambda: list(cluster.log_events(leader, "cluster.log-mended")) or None,
            "a mended log",
            explain=lambda: describe(cluster),
        )
        assert records_of(damaged.read_bytes()) == records_of(whole) != []
        await_value(
            lambda: counter_of(cluster, leader, CounterType.DAMAGE_MENDED) == 1 or None, "what is mended counts"
        )
        assert counter_of(cluster, leader, CounterType.DAMAGE_FOUND) == 1
        assert counter_of(cluster, leader, CounterType.DAMAGE_LEFT) == 0
        await_value(lambda: counter_of(cluster, leader, CounterType.SCRUB_ENDED) > 0 or None, "a whole pass")
        assert counter_of(cluster, leader, CounterType.SCRUBBED_BYTES) > 100_000
        cluster.start_member(empty)
        await_trust(cluster, empty)
        writer.write(500)
        demand_agreement(cluster, [writer])
        await_error(cluster, leader, "found by the scrubber")
        assert not any("hands over" in errors_of(cluster, member_id) for member_id in cluster.member_ids)
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    demand_equal_logs(cluster)


def has_snapshot(cluster: LocalCluster, member_id: int) -> bool | None:
    return True if counter_of(cluster, member_id, CounterType.SNAPSHOT_COUNT) > 0 else None


def flip_a_byte(files: list[Path]) -> None:
    flip(files[1], 40)


def delete_two_segments(files: list[Path]) -> None:
    for path in files[1:3]:
        path.unlink()


@pytest.mark.parametrize("damage", [flip_a_byte, delete_two_segments])
def test_a_leader_that_cannot_read_what_a_member_needs_hands_over_and_is_repaired(
    start_cluster: StartCluster, damage: Callable[[list[Path]], None]
) -> None:
    """Below its snapshot only the scrubber reads the log again, until a member comes that has nothing."""
    cluster = start_cluster(cluster={**OPTIONS, **PATIENT}, tables=NO_SCRUBBER)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(3000)
        leader = cluster.await_leader()
        take_snapshot(LocalMember(load_config(cluster.config_path(leader))))
        for member_id in cluster.member_ids:  # so every member has the log that one loses, and one damages
            await_value(partial(has_snapshot, cluster, member_id), f"the snapshot of member {member_id}")
        empty = follower_of(cluster)
        let_rejoin(cluster, empty)
        damage(log_files(cluster, leader))
        cluster.start_member(empty)
        cluster.await_leader(other_than=leader)
        await_trust(cluster, empty)
        errors = ordo("errors", "--config", str(cluster.config_path(leader))).stdout
        assert "this member hands over; start it again while others run" in errors, errors
        cluster.restart(leader)
        await_trust(cluster, leader)
        writer.write(500)
        demand_agreement(cluster, [writer])
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    demand_whole_logs(cluster)
