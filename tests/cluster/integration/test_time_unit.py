"""Clusters whose time is in microseconds or nanoseconds."""

from __future__ import annotations

import json
import time
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.consumers.shared_consumer import SharedConsumer
from ordo.deploy.launcher import LocalCluster
from ordo.follow.beginnings import AtTime
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.pipeline.sql.local import read as ordo_read
from ordo.runtime.native.cluster_time import TimeUnit, describe_time
from tests.cluster.integration.agreement import await_members, await_value
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.test_snapshots import restart_all, take_snapshot

TIMED = "tests.cluster.integration.timed:Timed"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def ask(client: ClusterClient, payload: bytes) -> Any:
    return json.loads(client.request(payload).payload)


def open_client(cluster: LocalCluster) -> ClusterClient:
    return ClusterClient(
        cluster.ingress_endpoints, settings=ClientSettings(**cluster.client_keys, message_timeout_s=60)
    )


def fired(client: ClusterClient, count: int) -> list[list[int]]:
    """All timers, once each of them has been fired."""

    def look() -> list[list[int]] | None:
        found: list[list[int]] = ask(client, b"?")
        return found if len(found) == count and all(timestamp for _, timestamp in found) else None

    return await_value(look, f"{count} timers")


@pytest.mark.parametrize("unit", [TimeUnit.MICROS, TimeUnit.NANOS])
def test_time_and_timers_of_the_unit_through_snapshot_and_restart(start_cluster: StartCluster, unit: TimeUnit) -> None:
    cluster = start_cluster(TIMED, cluster={**PATIENT, "time_unit": unit.symbol})
    with open_client(cluster) as client:
        before_ns = time.time_ns()
        told = ask(client, b"200000")
        assert told["unit"] == unit.name
        assert abs(unit.to_ns(told["timestamp"]) - before_ns) < 60_000_000_000
        for _ in range(20):
            ask(client, b"3000000")
        found = fired(client, 21)
        assert all(timestamp >= deadline for deadline, timestamp in found)
        print("late by us:", sorted(unit.to_ns(timestamp - deadline) / 1000 for deadline, timestamp in found))
        assert any(timestamp % 1000 for _, timestamp in found), "no timestamp is finer than its milliseconds"
        ask(client, b"2000000000")
        take_snapshot(cluster)
        before = ask(client, b"?")
    restart_all(cluster)
    with open_client(cluster) as client:
        after = fired(client, 22)
        assert after[:21] == before[:21]
        assert after[21][0] == before[21][0], "the deadline that the snapshot had"
        assert ask(client, b"1000")["timestamp"] > after[21][1]


def entries_since(cluster: LocalCluster, begin: AtTime, count: int) -> list[LogEntry]:
    with LogReader(archives_of(cluster), from_position=begin, kinds=[EntryKind.REQUEST]) as reader:
        return list(islice(reader.entries(timeout_s=60), count))


def archives_of(cluster: LocalCluster) -> list[str]:
    return [one.archive for one in load_config(cluster.config_path(0)).member_list]


def test_readers_and_tools_of_a_log_in_nanoseconds(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(TIMED, cluster={**PATIENT, "time_unit": "ns"})
    with open_client(cluster) as client:
        times = [ask(client, b"1")["timestamp"] for _ in range(5)]
        take_snapshot(cluster)
    for begin in (AtTime(times[2]), AtTime(times[2] // 1_000)):
        assert [one.timestamp for one in entries_since(cluster, begin, 3)] == times[2:]
    assert entries_since(cluster, AtTime(times[0] // 1_000_000), 1)[0].timestamp == times[0]

    printed = ordo(
        "log", *archives_of(cluster), "--from", describe_time(times[4]), "--timeout", "3", "--kind", "request"
    )
    assert f"time={times[4]} " in printed.stdout, printed
    assert f"time={times[3]} " not in printed.stdout

    table = (
        ordo_read(cluster.data_dir(0) / "archive", commit="recorded", columns=["kind", "cluster_time", "timestamp"])
        .to_arrow()
        .to_pylist()
    )
    found = {row["cluster_time"]: row["timestamp"] for row in table if row["kind"] == "request"}
    assert found == {one: TimeUnit.NANOS.to_datetime(one) for one in times}

    listed = json.loads(ordo("cluster", "snapshots", "--config", str(cluster.config_path(0)), "--json").stdout)
    assert abs(listed[0]["timestamp"] - times[4] // 1_000_000) < 60_000, "in ms, as ever"


def test_messages_that_are_not_acknowledged_come_again_after_seconds_not_nanoseconds(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(TIMED, member_count=1, cluster={**PATIENT, "time_unit": "ns"})
    with open_client(cluster) as client:
        position = client.request(b"1").log_position
    endpoints = list(cluster.ingress_endpoints.values())
    with SharedConsumer(endpoints, "work", start="first", ack_timeout_s=1.0) as consumer:
        deliveries = consumer.deliveries(timeout_s=60)
        assert next(deliveries).entry.position == position
        first_s = time.monotonic()
        assert next(deliveries).entry.position == position
        assert time.monotonic() - first_s > 0.9


def test_a_member_with_another_unit_ends_with_one_line(start_cluster: StartCluster) -> None:
    cluster = start_cluster(TIMED, cluster={**PATIENT, "time_unit": "ns"})
    other = (cluster.await_leader() + 1) % 3
    cluster.stop(other)
    path = cluster.config_path(other)
    before = path.read_text()
    path.write_text(before.replace('"ns"', '"us"'))
    cluster.start_member(other)
    assert cluster.wait(other, 60) == 1
    lines = [line for line in cluster.logs(other).splitlines() if line.startswith("ordo: ")]
    assert lines == [
        'ordo: the log at position 96 has time in the unit "ns", and this member has time_unit = "us": give [cluster] '
        "time_unit of all members the unit that the log has"
    ]
    path.write_text(before)
    cluster.start_member(other)
    await_members(cluster)


def set_unit(cluster: LocalCluster, member_id: int, unit: str, former: str) -> None:
    path = cluster.config_path(member_id)
    kept = [line for line in path.read_text().splitlines() if not line.startswith("time_unit")]
    at = kept.index("[cluster]") + 1
    path.write_text("\n".join([*kept[:at], f'time_unit = "{unit}"', f'time_unit_from = "{former}"', *kept[at:], ""]))


def test_a_log_goes_over_to_microseconds_while_it_runs(start_cluster: StartCluster) -> None:
    cluster = start_cluster(TIMED, cluster=PATIENT)
    with open_client(cluster) as client:
        before = [ask(client, b"1")["timestamp"] for _ in range(3)]
        ask(client, b"3600000000000")
        take_snapshot(cluster)
        ask(client, b"7200000000000")
        in_ms = ask(client, b"?")
    for member_id in cluster.member_ids:
        set_unit(cluster, member_id, "us", "ms")
        cluster.restart(member_id)
        cluster.await_leader(60)
        await_members(cluster)
    with open_client(cluster) as client:
        await_value(lambda: goes_over(cluster, client), "a term in microseconds")
        told = ask(client, b"200000")
        assert told["unit"] == "MICROS" and told["timestamp"] > before[-1] * 1000
        assert abs(told["timestamp"] / 1e6 - time.time()) < 60
        after = [told["timestamp"], *(ask(client, b"1")["timestamp"] for _ in range(2))]
        found = await_value(lambda: all_fired(ask(client, b"?")), "timers of both units")
        assert found[:5] == [[deadline * 1000, fired * 1000] for deadline, fired in in_ms]
        assert [fired for _, fired in found[3:5]] == [0, 0], "an hour in milliseconds is no second in microseconds"
        take_snapshot(cluster)
    restart_all(cluster)
    with open_client(cluster) as client:
        assert ask(client, b"?")[:5] == found[:5] and ask(client, b"1")["unit"] == "MICROS"
    demand_mixed_times(cluster, before, after)
    set_unit(cluster, 0, "ms", "")
    cluster.stop(0)
    cluster.start_member(0)
    assert cluster.wait(0, 60) == 1, "there is no way back"
    assert 'time in the unit "us", and this member has time_unit = "ms"' in cluster.logs(0)


def goes_over(cluster: LocalCluster, client: ClusterClient) -> bool | None:
    """A member that leads at once after its start does not know its service yet, and another one has to lead."""
    if ask(client, b"1")["unit"] == "MICROS":
        return True
    done = ordo("cluster", "transfer", "--config", str(cluster.config_path(0)))
    assert done.returncode == 0, done
    cluster.await_leader(60)
    return None


def all_fired(timers: list[list[int]]) -> list[list[int]] | None:
    """Those that are due within seconds, which are all but the fourth and the fifth."""
    return timers if all(fired for _, fired in [*timers[:3], *timers[5:]]) else None


def demand_mixed_times(cluster: LocalCluster, before: list[int], after: list[int]) -> None:
    """Readers and the pipeline find records by time on both sides of the change, and between them."""
    for begin in (AtTime(before[1]), AtTime(before[1] * 1000)):
        with LogReader(archives_of(cluster), from_position=begin, kinds=[EntryKind.REQUEST]) as reader:
            stamps = (one.timestamp for one in reader.entries(timeout_s=60))
            found = [*takewhile(lambda one: one != after[-1], stamps)]
        assert found[:2] == before[1:] and found[-2:] == after[:2]
    assert entries_since(cluster, AtTime(after[1]), 1)[0].timestamp == after[1]
    archive = cluster.data_dir(1) / "archive"
    rows = ordo_read(archive, commit="recorded", columns=["kind", "cluster_time", "timestamp"]).to_arrow().to_pylist()
    times = {row["cluster_time"]: row["timestamp"] for row in rows if row["kind"] == "request"}
    assert {one: times[one] for one in before} == {one: TimeUnit.MILLIS.to_datetime(one) for one in before}
    assert {one: times[one] for one in after} == {one: TimeUnit.MICROS.to_datetime(one) for one in after}
    late = ordo_read(
        archive, commit="recorded", columns=["cluster_time"], start_time=TimeUnit.MICROS.to_datetime(after[1])
    )
    assert min(late.to_arrow().column("cluster_time").to_pylist()) == after[1]
