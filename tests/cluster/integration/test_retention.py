"""Logs that forget, and snapshots that travel: real processes with tiny segments."""

from __future__ import annotations

import pytest

from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that, counter_of, demand_agreement, errors_of
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.services import DIFFERENT_MEMBER, HASH_EVENT, PID_EVENT
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

FORGETFUL = {
    "cluster": {"log_term_length": "64k", "segment_length": "64k"},
    "tables": {"snapshot": {"every_bytes": "256k", "keep": 1}, "retention": {"bytes": 0}},
}


def log_start(cluster: LocalCluster, member_id: int) -> int:
    """Where the log of a member begins, by its catalog."""
    recordings = list_recordings(str(cluster.data_dir(member_id) / "archive"))
    return max(one.start_position for one in recordings if one.stream_id == LOG_STREAM_ID)


def snapshot_recordings(cluster: LocalCluster, member_id: int) -> int:
    recordings = list_recordings(str(cluster.data_dir(member_id) / "archive"))
    return sum(one.stream_id != LOG_STREAM_ID for one in recordings)


def log_files(cluster: LocalCluster, member_id: int) -> int:
    return len(list((cluster.data_dir(member_id) / "archive").glob("*.rec")))


def await_purge(cluster: LocalCluster, writer: Writer, above: int) -> None:
    """Writes until no member has the log below a position any more."""
    target = writer.acked
    while min(log_start(cluster, member_id) for member_id in cluster.member_ids) < above:
        target += 1000
        writer.write(1000, timeout_s=90)
        assert target < 200_000, [log_start(cluster, member_id) for member_id in cluster.member_ids]


def await_few_snapshots(cluster: LocalCluster, member_id: int) -> None:
    """One step a second deletes old ones, and one may be on its way in or out."""
    cluster.await_value(lambda: snapshot_recordings(cluster, member_id) <= 6 or None, "no more than three snapshots")


def await_few_log_files(cluster: LocalCluster, member_id: int) -> None:
    """A purge comes behind a snapshot that the others have, too."""
    cluster.await_value(lambda: log_files(cluster, member_id) < 24 or None, "no more than 23 files")


def test_a_log_forgets_and_a_wiped_member_comes_in_all_the_same(start_cluster: StartCluster) -> None:
    cluster = start_cluster(**FORGETFUL)
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        await_purge(cluster, writer, 512 * 1024)
        follower = next(one for one in cluster.member_ids if one != cluster.await_leader())
        cluster.kill(follower)
        cluster.wipe(follower)
        cluster.start_member(follower)
        writer.write(4000, timeout_s=90)

        def has_begun_with_a_snapshot() -> bool:
            starts = [int(str(event["position"])) for event in cluster.log_events(follower, PID_EVENT)]
            return bool(starts) and starts[-1] > 0

        # What is ordered before that may be in the snapshot, and is then not reported by this member.
        await_that(has_begun_with_a_snapshot, "the wiped member's service", timeout_s=90)
        demand_agreement(cluster, [writer], timeout_s=90)
        assert log_start(cluster, follower) > 0
    for member_id in cluster.member_ids:
        await_few_snapshots(cluster, member_id)
        await_few_log_files(cluster, member_id)
        cluster.await_value(
            lambda one=member_id: counter_of(cluster, one, CounterType.DISTRUST) == 0 or None,  # type: ignore[misc]
            f"the vote of member {member_id}",
        )


def test_a_cluster_that_forgot_its_beginning_starts_again(start_cluster: StartCluster) -> None:
    cluster = start_cluster(**FORGETFUL)
    with Writer(cluster.ingress_endpoints, reopens=True) as writer:
        await_purge(cluster, writer, 256 * 1024)
        for member_id in cluster.member_ids:
            cluster.kill(member_id)
        cluster.start()
        cluster.await_leader(60)
        writer.write(1000, timeout_s=90)
        demand_agreement(cluster, [writer], timeout_s=90)


def test_a_member_whose_state_differs_is_told_so(start_cluster: StartCluster) -> None:
    cluster = start_cluster("tests.cluster.integration.services:Different")
    take_snapshot(cluster)
    told = cluster.await_value(
        lambda: next((one for one in errors_of(cluster, DIFFERENT_MEMBER).splitlines() if "differs" in one), None),
        "the error of the member that differs",
    )
    assert "differs from that of members [0, 1]" in told
    assert all("differs" not in errors_of(cluster, member_id) for member_id in (0, 1))
    hashes = {
        str(event["text_hash"]) for member in cluster.member_ids for event in cluster.log_events(member, HASH_EVENT)
    }
    assert len(hashes) == 1, "strings hash alike in all containers"
