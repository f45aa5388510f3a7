"""What the bridge to MQTT of docs/BRIDGES.md acknowledges, and how it ends, before a broker that records it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("paho.mqtt", reason="needs paho-mqtt")

from examples import mqtt_bridge
from ordo import ClientSettings
from ordo.deploy.launcher import ROOT
from ordo.errors import ClusterTimeoutError, RequestOutcome
from tests.cluster.integration.agreement import hold
from tests.cluster.integration.conftest import StartCluster
from tests.gateway.mqtt_stub import StubBroker
from tests.patience import patient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]
SETTINGS = ClientSettings(egress_channel="aeron:udp?endpoint=127.0.0.1:0")
ADD = b'{"add": 1}'
NOBODY = "127.0.0.1:1"
NOT_AUTHORIZED = 5
StartBroker = Callable[..., StubBroker]


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    started: list[StubBroker] = []

    def start(*messages: tuple[str, bytes], refusal: int = 0) -> StubBroker:
        started.append(StubBroker(messages, refusal))
        return started[-1]

    yield start
    for one in started:
        one.close()


def bring_in(endpoints: list[str], broker: StubBroker) -> None:
    mqtt_bridge.bring_in(endpoints, broker.address, "orders/in/+", SETTINGS)


def run_bridge(direction: str, broker: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "examples.mqtt_bridge", direction, NOBODY, broker, "orders/in/+"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patient(60))


def test_what_is_not_answered_is_not_acknowledged_and_comes_again(
    start_cluster: StartCluster, start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster(member_count=1)
    endpoints = list(cluster.ingress_endpoints.values())
    broker = start_broker(("orders/in/1", ADD), ("orders/in/2", ADD))
    broker.on_acknowledged = lambda topic: hold(cluster.pid(0)) if topic.endswith("/1") else None
    with monkeypatch.context() as impatient:
        impatient.setattr(mqtt_bridge, "TIMEOUT_S", 2.0)
        with pytest.raises(ClusterTimeoutError) as late:
            bring_in(endpoints, broker)
    assert late.value.outcome is RequestOutcome.UNKNOWN
    assert late.value.pending.id == b"orders/in/2", "the first was answered before it was acknowledged"
    assert broker.acknowledged == ["orders/in/1"], "the cluster was held from then on"
    cluster.send_signal(0, signal.SIGCONT)
    with pytest.raises(ConnectionError, match="the connection to the broker is lost"):
        bring_in(endpoints, broker)
    assert broker.acknowledged == ["orders/in/1", "orders/in/2"]


def test_what_can_never_be_executed_is_told_and_acknowledged(
    start_cluster: StartCluster, start_broker: StartBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [
        ("orders/in/1", ADD),
        ("orders/in/1", ADD),
        ("orders/in/1", b'{"add": 2}'),
        ("orders/in/long", b"x" * 300_000),
        ("orders/in/refused", b""),
        ("orders/in/" + "4" * 64, ADD),
        ("orders/in/last", ADD),
    ]
    broker = start_broker(*messages)
    with pytest.raises(ConnectionError):
        bring_in(list(start_cluster(member_count=1).ingress_endpoints.values()), broker)
    assert broker.acknowledged == [topic for topic, _ in messages]
    told = [line.partition(": ") for line in capsys.readouterr().err.splitlines()]
    assert [topic for topic, _, _ in told] == [topic for topic, _ in messages[2:6]]
    words = ("the id was used for another payload", "300,000 bytes", "", "longer than an id")
    assert all(one in text for one, (_, _, text) in zip(words, told, strict=True)), told


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_broker_that_refuses_or_is_gone_ends_it_in_one_line(direction: str, start_broker: StartBroker) -> None:
    broker = start_broker(refusal=NOT_AUTHORIZED)
    for address, word in ((broker.address, "Not authorized"), (NOBODY, "Connection refused")):
        ended = run_bridge(direction, address)
        assert ended.returncode == 1
        assert len(ended.stderr.splitlines()) == 1 and ended.stderr.startswith("mqtt_bridge: "), ended.stderr
        assert word in ended.stderr
    assert broker.connections == 1


def bridge_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if "ordo-bridge" in one.name]


def test_bridges_that_lose_the_broker_end_and_do_not_connect_again(
    start_cluster: StartCluster, start_broker: StartBroker
) -> None:
    endpoints = list(start_cluster(member_count=1).ingress_endpoints.values())
    for bring in (mqtt_bridge.bring_in, mqtt_bridge.bring_out):
        broker = start_broker()
        broker.stays = False
        with pytest.raises(ConnectionError, match="the connection to the broker is lost"):
            bring(endpoints, broker.address, "orders", SETTINGS)
        for one in bridge_threads():
            one.join(patient(20))
        assert not bridge_threads(), "one that connects again never ends"
        assert broker.connections == 1
