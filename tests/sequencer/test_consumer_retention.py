"""What a durable consumer holds back of the log: as much as it lacks, and no more than `consumer_bytes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.consumers.consumer import Consumer
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ArchiveError
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.clusters import ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SEGMENT = 64 << 10
HELD = 1 << 20
SNAPSHOT = 128 << 10


def log_start(cluster: LocalCluster) -> int:
    recordings = list_recordings(str(cluster.data_dir(0) / "archive"))
    return max(one.start_position for one in recordings if one.stream_id == LOG_STREAM_ID)


def count_snapshots(cluster: LocalCluster) -> int:
    """Return how many recordings of snapshots there are: each has one of the module and one of the service."""
    recordings = list_recordings(str(cluster.data_dir(0) / "archive"))
    return sum(one.stream_id != LOG_STREAM_ID for one in recordings)


def newest_snapshot(cluster: LocalCluster) -> int:
    """Return the number of the recording that a snapshot made last; older ones go as newer ones come."""
    recordings = list_recordings(str(cluster.data_dir(0) / "archive"))
    return max((one.recording_id for one in recordings if one.stream_id != LOG_STREAM_ID), default=-1)


def write(client: ClusterClient, length_bytes: int) -> int:
    """Returns the position after it."""
    for _ in range(length_bytes // 1000):
        client.send(b"x" * 1000)
    client.send(b"end", until="sequenced")
    return client.sequenced_position


def read_one(client: ClusterClient, consumer: Consumer) -> int:
    """Writes until the consumer has an entry; returns its position."""
    while (entry := next(iter(consumer.entries(timeout_s=1)), None)) is None:
        write(client, 1000)
    return entry.position


def go_on(endpoints: list[str], position: int) -> int | None:
    """Have the consumer go on where it is told that the log begins; None where more of it has gone meanwhile."""
    with (
        Consumer(endpoints, "slow") as slow,
        pytest.raises(ArchiveError, match="ordo consumers seek") as lost,
    ):
        next(iter(slow))
    oldest = int(lost.value.message.split("left is position=")[1].split(":")[0])
    with ConsumerOrders(endpoints) as orders:
        orders.seek("slow", oldest)
    with Consumer(endpoints, "slow") as slow:
        try:
            return oldest if next(iter(slow)).position > oldest else position
        except ArchiveError:
            return None


def test_the_log_waits_for_a_consumer_as_far_as_its_limit_goes(tmp_path: Path) -> None:
    cluster_options = {"log_term_length": "64k", "segment_length": "64k"}
    snapshot = {"every_bytes": "128k", "keep": 1}
    retention = {"bytes": 0, "consumer_bytes": "1m"}
    with ready_cluster(
        "ordo:Ordering",
        root=tmp_path / "cluster",
        member_count=1,
        cluster=cluster_options,
        tables={"snapshot": snapshot, "retention": retention},
    ) as cluster:
        endpoints = list(cluster.ingress_endpoints.values())
        with ClusterClient(cluster.ingress_endpoints) as client:
            write(client, 2 * SNAPSHOT)
            cluster.await_value(lambda: log_start(cluster) or None, "log that goes: there is no consumer")
            begin = log_start(cluster)
            with Consumer(endpoints, "slow") as slow:
                slow_position = read_one(client, slow)
                slow.commit()
            assert begin < slow_position < begin + 5 * SEGMENT, "first is after the oldest snapshot that there is"
            position = write(client, 5 * SNAPSHOT)
            assert log_start(cluster) <= slow_position, "snapshots are behind it, and the log waits"
            seen = newest_snapshot(cluster)
            write(client, HELD)
            cluster.await_value(lambda: newest_snapshot(cluster) > seen or None, "a snapshot far after the consumer")
            position = write(client, HELD + SNAPSHOT)
            cluster.await_value(lambda: log_start(cluster) > slow_position or None, "log that goes all the same")
            assert log_start(cluster) <= position - HELD, "its limit is kept for it"
            with ConsumerOrders(endpoints) as orders:
                assert orders.describe("slow")["lag"] > HELD
            oldest = cluster.await_value(lambda: go_on(endpoints, slow_position), "a start that is still there")
            assert slow_position < oldest <= log_start(cluster)
            with Consumer(endpoints, "slow") as slow:
                assert next(iter(slow)).position > oldest
                seen = newest_snapshot(cluster)
                write(client, 2 * SNAPSHOT)
                cluster.await_value(
                    lambda: newest_snapshot(cluster) > seen or None, "a snapshot that it may start from"
                )
                for _ in slow.entries(timeout_s=patient(2)):
                    pass
                slow.commit()
            write(client, 2 * SNAPSHOT)
            cluster.await_value(lambda: log_start(cluster) > oldest + HELD // 2 or None, "log that nobody lacks goes")


def test_a_consumer_of_requests_goes_on_from_before_the_oldest_snapshot_that_is_kept(tmp_path: Path) -> None:
    """It learns which requests were executed from a snapshot that stays for it, for the log's beginning is gone."""
    with ready_cluster(
        "ordo:Ordering",
        root=tmp_path / "cluster",
        member_count=1,
        cluster={"log_term_length": "64k", "segment_length": "64k"},
        tables={"snapshot": {"every_bytes": "128k", "keep": 1}, "retention": {"bytes": 0, "consumer_bytes": "8m"}},
    ) as cluster:
        endpoints = list(cluster.ingress_endpoints.values())
        with ClusterClient(cluster.ingress_endpoints) as client:
            for _ in range(4):
                client.request_many([b"x" * 1000] * (SNAPSHOT // 1000))
            cluster.await_value(lambda: log_start(cluster) or None, "log that goes: there is no consumer")
            take_snapshot(cluster, others_come=True)  # the next is not due before the consumer is known
            begin = client.request(b"begin").log_position
            client.request(b"first")
            with Consumer(endpoints, "slow", start=begin) as slow:
                first = next(iter(slow))
                assert first.payload == b"first"
                slow.commit()
            for _ in range(4):
                client.request_many([b"y" * 1000] * (SNAPSHOT // 1000))
            answer = client.request(b"last")
            cluster.await_value(
                lambda: count_snapshots(cluster) > 2 or None, "snapshots that are newer than the consumer"
            )
            assert 0 < log_start(cluster) < begin
            with Consumer(endpoints, "slow") as slow:
                found = [first.position]
                for entry in slow:
                    found.append(entry.position)
                    if entry.payload == b"last":
                        break
            assert found == sorted(set(found)) and found[-1] == answer.log_position
