"""When messages arrived at the leader's socket: three nodes, who reads their log, and members without the setting."""

from __future__ import annotations

import json
import time
from itertools import islice
from typing import Any

import pytest

import ordo as ordo_package
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.levels import ARRIVAL_LEVEL
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind
from ordo.follow.reader import LogReader
from ordo.runtime.native.cluster_time import time_ns
from tests.cluster.integration.agreement import await_that, await_value
from tests.cluster.integration.command import ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.test_ingress import connect, group, leaders_client, transfer
from tests.cluster.integration.test_snapshots import restart_all, take_snapshot
from tests.cluster.integration.test_time_unit import archives_of

ARRIVALS = "tests.cluster.integration.arrivals:Arrivals"
Row = list[Any]
"""Timestamp, arrival, and the first bytes of the message."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def ask(client: ClusterClient, payload: bytes) -> Row:
    row: Row = json.loads(client.request(payload).payload)
    return row


def rows_of(client: ClusterClient) -> list[Row]:
    rows: list[Row] = json.loads(client.query(b"").payload)
    return rows


def open_client(cluster: LocalCluster) -> ClusterClient:
    return ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(message_timeout_s=60))


def await_level(cluster: LocalCluster) -> None:
    """The log has the protocol level; before that a leader writes no arrivals."""
    said = f"protocol level of the log: {ARRIVAL_LEVEL}"
    config = str(cluster.config_path(0))
    await_that(lambda: said in ordo("cluster", "versions", "--config", config).stdout, said)


def test_messages_of_all_lengths_and_requests_tell_it_to_services_readers_and_rows(start_cluster: StartCluster) -> None:
    cluster = start_cluster(ARRIVALS, cluster={**PATIENT, "time_unit": "ns", "arrival_time": True})
    with open_client(cluster) as client:
        await_level(cluster)
        before_ns = time.time_ns()
        asked = [ask(client, b"request"), ask(client, bytes(20_000)), ask(client, b"by id")]
        client.send(b"message")
        client.send(bytes(50_000))
        rows = await_value(lambda: found if len(found := rows_of(client)) == 5 else None, "five messages")
        after_ns = time.time_ns()
        assert rows[:3] == asked
        arrivals = [arrival_ns for _, arrival_ns, _ in rows]
        assert all(before_ns <= arrival_ns <= after_ns for arrival_ns in arrivals), (before_ns, rows, after_ns)
        assert arrivals == sorted(arrivals)
        take_snapshot(cluster)
        last = ask(client, b"behind the snapshot")
    restart_all(cluster)
    with open_client(cluster) as client:
        assert rows_of(client) == [*rows, last], "from the snapshot, and from the log behind it"
    with LogReader(archives_of(cluster), kinds=[EntryKind.MESSAGE, EntryKind.REQUEST]) as reader:
        entries = list(islice(reader.entries(timeout_s=60), 6))
    assert [entry.arrival_ns for entry in entries] == [*arrivals, last[1]]
    cluster.stop_all()
    for member_id in cluster.member_ids:
        folder = f"{cluster.data_dir(member_id)}/archive"
        table = ordo_package.read(folder, arrival=True, kinds="message,request").to_arrow()
        assert table["arrival_ns"].to_pylist() == [*arrivals, last[1]]
    printed = ordo("log", f"{cluster.data_dir(0)}/archive").stdout
    assert all(f"arrival={arrival_ns} " in printed for arrival_ns in arrivals)


def test_leaders_without_the_setting_and_clients_in_shared_memory_say_nothing(start_cluster: StartCluster) -> None:
    """Member 0 has no such setting: what others wrote it executes as they do, and writes none when it leads."""
    doors = {"ipc_ingress": True, "ingress_channel": group()}
    cluster = start_cluster(ARRIVALS, cluster={**PATIENT, **doors, "arrival_time": True})
    path = cluster.config_path(0)
    path.write_text(path.read_text().replace("arrival_time = true", "arrival_time = false"))
    cluster.restart(0)
    await_level(cluster)
    leader, local = leaders_client(cluster)
    if leader == 0:
        local.close()
        transfer(cluster, 0, 1)
        leader, local = leaders_client(cluster)
    with local:
        assert ask(local, b"in shared memory")[1] is None
    with connect(group()) as client:
        assert ask(client, b"to a group")[1] is not None
    with open_client(cluster) as client:
        timed = ask(client, b"timed")
        assert abs(timed[1] - time_ns(timed[0])) < 60_000_000_000
        transfer(cluster, leader, 0)
        assert ask(client, b"of a leader without")[1] is None
        rows = rows_of(client)
        assert [(arrival_ns is None, text) for _, arrival_ns, text in rows] == [
            (True, "in shared memory"),
            (False, "to a group"),
            (False, "timed"),
            (True, "of a leader with"),
        ]
