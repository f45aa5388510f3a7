"""Three standby nodes beside a primary that is killed under load: one is promoted, the others join, its leader dies."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import tomlkit

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.runtime.errors import OrdoError
from tests.cluster.integration.command import ordo
from tests.cluster.integration.test_standby import COUNTER, Standby
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FIRST_ID = 9
NODES = 3
REQUESTS = 200


class StandbyNode(Standby):
    """One of several standby nodes, whose node.toml names all of them."""

    def __init__(self, primary: LocalCluster, folder: Path, ports: list[int], number: int) -> None:
        super().__init__(primary, folder)
        members = [{"id": FIRST_ID + i, "host": "127.0.0.1", "port": port} for i, port in enumerate(ports)]
        node = {"member_id": FIRST_ID + number, "data_dir": str(folder / "standby")}
        self.member_id = FIRST_ID + number
        self.endpoint = f"127.0.0.1:{ports[number]}"
        self.config.write_text(tomlkit.dumps({"node": node, "members": members, "cluster": dict(STEADY)}))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-P", "-m", "ordo.cli", *self.words("run"), "--die-with-parent"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def kill(self) -> None:
        """As the end of its machine does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(patient(60))
            self.process = None


def ask_until_it_ends(client: ClusterClient, cluster: LocalCluster) -> list[tuple[int, int]]:
    """Ask until the primary is killed under it; return the totals that were answered, and where the log has them."""
    answered: list[tuple[int, int]] = []
    try:
        while True:
            answer = client.request(b"1", timeout_s=2)
            assert answer.log_position is not None
            answered.append((int(answer.payload), answer.log_position))
            if len(answered) == REQUESTS:
                for member_id in cluster.ingress_endpoints:
                    cluster.kill(member_id)
    except OrdoError:
        return answered


def test_a_node_is_promoted_the_others_join_and_go_on_when_it_dies(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    ports = find_ports(NODES)
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=3) as cluster, ExitStack() as stack:
        nodes = [StandbyNode(cluster, tmp_path / str(i), ports, i) for i in range(NODES)]
        for one in nodes:
            stack.callback(one.kill)
            one.start()
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = client.request(b"1", timeout_s=60).log_position
            assert position is not None
            for one in nodes:
                one.await_position(position)
            nodes[2].kill()  # it is behind from now on
            answered = ask_until_it_ends(client, cluster)
        nodes[2].start()
        nodes[2].await_status(lambda told: "looking" in told.get("state", ""), "a node that finds no primary")

        ordered_s = time.monotonic()
        refused = nodes[2].promote("--although-alive")
        demand_refused(refused, "has the log up to position=", "give the command there")
        first = next(one for one in nodes[:2] if promoted(one))
        told = first.status()["promotion"]
        with ClusterClient([one.endpoint for one in nodes], settings=ClientSettings(reconnect=True)) as client:
            total = int(client.request(b"1", timeout_s=90).payload) - 1
            record_property("first_answer_s", time.monotonic() - ordered_s)
            assert told["voter_count"] == NODES
            for number, position in answered:
                assert (number > total) == (position > told["position"]), "what is told as lost is lost, and no more"

            first.kill()
            assert client.request(b"1", timeout_s=90).payload == str(total + 2).encode()
            first.start()
            statuses = {one.member_id: one.status() for one in nodes if one is not first}
            assert {one["state"] for one in statuses.values()} == {"promoted"}, "both others have joined"


def demand_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The last line on stderr, behind how far each node is, says why."""
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ordo: ") and all(word in last for word in words), done


def promoted(one: StandbyNode) -> bool:
    """Promote a node, unless another has more."""
    done = one.promote("--although-alive", "--json")
    assert done.returncode == 0 or "give the command there" in done.stderr, done
    return done.returncode == 0


def test_a_node_without_most_of_the_others_is_not_promoted(tmp_path: Path) -> None:
    ports = find_ports(NODES)
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster, ExitStack() as stack:
        one = StandbyNode(cluster, tmp_path / "0", ports, 0)
        stack.callback(one.kill)
        one.start()
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = client.request(b"1", timeout_s=60).log_position
            assert position is not None
        one.await_position(position)
        demand_refused(one.promote("--although-alive"), "only 1 of the 3 standby nodes can be reached")
        demand_refused(one.switch(), "only 1 of the 3 standby nodes can be reached")
        shown = ordo(*one.words("status"))
        assert shown.returncode == 0 and f"127.0.0.1:{ports[1]} cannot be asked" in shown.stdout
        with ClusterClient(cluster.ingress_endpoints) as client:
            assert client.request(b"1", timeout_s=60).payload == b"2", "the primary goes on"
