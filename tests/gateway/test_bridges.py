"""The bridge to MQTT of docs/BRIDGES.md, with a broker that nobody here wrote; bridges are killed.

This broker loses what was on its way to a client that is killed, so all is published again. That nothing is
acknowledged before it is executed is shown by test_bridge_acknowledgements.py, with a broker that records it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amqtt", reason="needs amqtt")
pytest.importorskip("paho.mqtt", reason="needs paho-mqtt")

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from ordo.deploy.launcher import ROOT, LocalCluster, find_ports, release_ports
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.conftest import StartCluster
from tests.patience import patient
from tests.snippets import open_page

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]
WAIT_S = 60.0
USER, PASSWORD = "bridge", "of this test"
PAGE_MEMBERS, PAGE_BROKER, PAGE_EGRESS = "10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000", "10.0.0.8:1883", "10.0.0.9:0"
CONFIGURATION = """listeners:
  default:
    type: tcp
    bind: {address}
plugins:
  amqtt.plugins.authentication.FileAuthPlugin:
    password_file: {passwords}
"""


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The address of a broker."""
    ports = find_ports(1)
    address = f"127.0.0.1:{ports[0]}"
    passwords = tmp_path / "passwords"  # without one, this broker keeps nothing for clients that are away
    passwords.write_text(f"{USER}:{PasswordHash((Argon2Hasher(),)).hash(PASSWORD)}\n")
    (tmp_path / "broker.yaml").write_text(CONFIGURATION.format(address=address, passwords=passwords))
    program = shutil.which("amqtt", path=str(Path(sys.executable).parent))
    assert program is not None
    with (tmp_path / "broker.log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(tmp_path / "broker.yaml")], stdout=log, stderr=log)
    await_that(lambda: listens(address), "the broker to listen", timeout_s=patient(WAIT_S))
    yield address
    process.kill()
    process.wait()
    release_ports(ports)


StartBridge = Callable[[str], subprocess.Popen[bytes]]


class Desk:
    """A client of the broker that publishes orders, and sees what comes out."""

    def __init__(self, broker: str) -> None:
        self.came: list[tuple[int, bytes]] = []
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="desk")
        self._client.on_message = self._note
        self._client.username_pw_set(USER, PASSWORD)
        host, _, port = broker.rpartition(":")
        self._client.connect(host, int(port))
        self._client.subscribe("orders/out/+", 1)
        self._client.loop_start()

    def _note(self, _: Any, __: Any, message: Any) -> None:
        self.came.append((int(message.topic.rpartition("/")[2]), message.payload))

    def publish(self, number: int) -> None:
        told = self._client.publish(f"orders/in/{number}", json.dumps({"add": number}), 1)
        told.wait_for_publish(patient(WAIT_S))
        assert told.is_published()

    def has(self, count: int) -> bool:
        return len(set(self.came)) >= count

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def desk(broker: str) -> Iterator[Desk]:
    found = Desk(broker)
    yield found
    found.close()


@pytest.fixture
def start_bridge(broker: str, start_cluster: StartCluster, tmp_path: Path) -> Iterator[StartBridge]:
    """Starts a bridge in a direction, by the command of the page."""
    cluster: LocalCluster = start_cluster()
    with open_page("BRIDGES.md") as page:
        pip, *commands = page.take("sh", "mqtt_bridge").strip().splitlines()
    assert pip == "pip install paho-mqtt"
    found = [shlex.split(one) for one in commands]
    here = {
        "python": sys.executable,
        PAGE_MEMBERS: ",".join(cluster.ingress_endpoints.values()),
        PAGE_BROKER: broker,
        PAGE_EGRESS: "127.0.0.1:0",
    }
    running: list[subprocess.Popen[bytes]] = []

    def start(direction: str) -> subprocess.Popen[bytes]:
        words = next(one for one in found if direction in one)
        with (tmp_path / f"{direction}-{len(running)}.log").open("wb") as log:
            command = [here.get(one, one) for one in words]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "MQTT_USER": USER, "MQTT_PASSWORD": PASSWORD}
            running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.wait()


def test_what_is_published_is_executed_once_and_comes_out_while_bridges_are_killed(
    start_bridge: StartBridge, desk: Desk
) -> None:
    bring_in, bring_out = start_bridge("in"), start_bridge("out")

    def has_come() -> bool:
        desk.publish(1)  # as often as it takes until the bridge has subscribed, and it is executed once
        return desk.has(1)

    await_that(has_come, "the first to have come out", timeout_s=patient(WAIT_S))
    for number in range(2, 21):
        desk.publish(number)
    await_that(lambda: desk.has(10), "some to have come out", timeout_s=patient(WAIT_S))
    for one in (bring_in, bring_out):
        one.kill()
        one.wait()
    for number in range(1, 41):  # all while there is no bridge, the first 20 again
        desk.publish(number)
    start_bridge("in")
    start_bridge("out")
    await_that(lambda: desk.has(40), "all to have come out", timeout_s=patient(WAIT_S))
    executed = dict(desk.came)
    assert sorted(executed) == list(range(1, 41)), "numbers of the log, without gaps"
    assert sorted(json.loads(one)["add"] for one in executed.values()) == list(range(1, 41)), "each once"
