"""When messages arrived at the leader, as every door of a gateway tells it of a real log."""

from __future__ import annotations

import json
import queue
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from ordo import ClientSettings, ClusterClient
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.clusters import await_level, ready_cluster
from tests.gateway.conftest import GatewayProcess, sequencer_of
from tests.gateway.console.conftest import Browser, console_of
from tests.gateway.watching.conftest import Events
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ARRIVALS = "tests.cluster.integration.arrivals:Arrivals"


def entries_of(address: str) -> tuple[list[pb.LogEntry], list[pb.LogEntry]]:
    """The first two messages, as a subscription and a durable consumer get them."""
    wanted, steps = ["request"], queue.SimpleQueue[Any]()
    steps.put(pb.ConsumeRequest(begin=pb.BeginConsuming(name="arrivals", kinds=wanted)))
    subscribed, consumed = [], []
    with grpc.insecure_channel(address) as channel:
        for batch in sequencer_of(channel).Subscribe(pb.SubscribeRequest(kinds=wanted), timeout=patient(30)):
            subscribed += batch.entries
            if len(subscribed) >= 2:
                break
        consumers = ordo_pb2_grpc.ConsumersStub(channel)  # type: ignore[no-untyped-call]
        for response in consumers.Consume(iter(steps.get, None), timeout=patient(30)):
            consumed += [one.entry for one in response.entries]
            if len(consumed) >= 2:
                steps.put(None)
                break
    return subscribed, consumed


def test_doors_say_when_a_message_arrived_and_nothing_of_other_entries(tmp_path: Path) -> None:
    options: dict[str, Any] = {"member_count": 1, "sync": "none", "cluster": {"arrival_time": True}}
    with ready_cluster(ARRIVALS, root=tmp_path / "cluster", **options) as cluster:
        await_level(cluster)
        with ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(message_timeout_s=patient(30))) as client:
            rows = [json.loads(client.request(text).payload) for text in (b"one", b"two")]
        gateway = GatewayProcess(cluster, tmp_path / "gateway.log", "--console", "0")
        try:
            subscribed, consumed = entries_of(gateway.address)
            with closing(Events(console_of(gateway), "/api/log?from=1", token="")) as events:
                watched = events.take(2)
            browser = Browser(console_of(gateway))
            browser.log_in("")
            listed = browser.ask("/api/messages").body["entries"]
        finally:
            gateway.kill()
    arrivals = [arrival_ns for _, arrival_ns, _ in rows]
    assert all(isinstance(one, int) and one > 0 for one in arrivals)
    assert [one.arrival_ns for one in subscribed] == [one.arrival_ns for one in consumed] == arrivals
    assert [one["arrival_ns"] for one in watched] == [str(one) for one in arrivals]
    assert [one["arrival_ns"] for one in listed if one["kind"] == "request"] == [str(one) for one in arrivals]
    assert all("arrival_ns" not in one for one in listed if one["kind"] != "request")
