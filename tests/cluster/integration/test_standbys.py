"""Three real standbys of one primary, which is killed under load: one is promoted, and another one in its stead."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.runtime.errors import OrdoError
from tests.cluster.integration.command import ordo
from tests.cluster.integration.test_standby import COUNTER, Standby
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FIRST_ID = 9
COUNT = 3
REQUESTS = 200


class OneOfSeveral(Standby):
    """One of three standbys, each of whose files names all of them."""

    def __init__(self, primary: LocalCluster, folder: Path, ports: list[int], number: int) -> None:
        super().__init__(primary, folder)
        self.member_id = FIRST_ID + number
        self.endpoint = f"127.0.0.1:{ports[number]}"
        tables = {
            "node": {"member_id": self.member_id, "data_dir": str(folder / "standby")},
            "members": [{"id": self.member_id, "host": "127.0.0.1", "port": ports[number]}],
            "standbys": [{"id": FIRST_ID + i, "ingress": f"127.0.0.1:{port}"} for i, port in enumerate(ports)],
        }
        self.config.write_text(tomlkit.dumps(tables))
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

    def await_state(self, state: str) -> dict[str, Any]:
        return self.await_status(lambda told: told.get("state") == state, f"standby {self.member_id} that {state}")


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


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr, behind how far each standby is, says why."""
    assert done.returncode == 1, done
    return done.stderr.splitlines()[-1]


def promote(standbys: list[OneOfSeveral], *words: str) -> tuple[OneOfSeveral, dict[str, Any]]:
    """Give the order where it is said to be given."""
    for one in standbys:
        done = one.promote("--json", *words)
        if done.returncode == 0:
            return one, json.loads(done.stdout)
        assert "give the command there" in done.stderr, done
    raise AssertionError("no standby has the most")


def test_the_one_with_the_most_is_promoted_and_the_others_follow_it(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    ports = find_ports(COUNT)
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=3) as cluster, ExitStack() as stack:
        standbys = [OneOfSeveral(cluster, tmp_path / str(i), ports, i) for i in range(COUNT)]
        for one in standbys:
            stack.callback(one.kill)
            one.start()
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = client.request(b"1", timeout_s=60).log_position
            assert position is not None
            for one in standbys:
                one.await_position(position)
            assert "it is not gone" in refusal(standbys[0].promote())
            standbys[2].kill()  # it is behind from now on
            answered = ask_until_it_ends(client, cluster)
        standbys[2].start()
        standbys[2].await_status(lambda told: "looking" in told.get("state", ""), "a standby that finds no primary")
        assert "give the command there" in refusal(standbys[2].promote("--although-alive"))

        first, told = promote(standbys[:2], "--although-alive")
        others = [one for one in standbys if one is not first]
        with ClusterClient([first.endpoint]) as client:
            answer = client.request(b"1", timeout_s=90)
            assert answer.log_position is not None
            total = int(answer.payload) - 1
            for number, at in answered:
                assert (number > total) == (at > told["position"]), "what is told as lost is lost, and no more"
            for one in others:
                one.await_position(answer.log_position)
        assert "was promoted: this one follows it by itself" in refusal(others[0].promote("--although-alive"))

        first.kill()
        assert f"give --instead-of {first.member_id}" in refusal(others[0].promote("--although-alive"))
        words = ("--although-alive", "--instead-of", str(first.member_id))
        second, _ = promote(others, *words)
        with ClusterClient([second.endpoint]) as client:
            answer = client.request(b"1", timeout_s=90)
            assert answer.payload == str(total + 2).encode() and answer.log_position is not None
            (last,) = (one for one in others if one is not second)
            last.await_position(answer.log_position)


def test_one_that_most_do_not_hold_for_is_not_promoted_and_a_lost_candidate_lets_go(tmp_path: Path) -> None:
    ports = find_ports(COUNT)
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster, ExitStack() as stack:
        one, other = (OneOfSeveral(cluster, tmp_path / str(i), ports, i) for i in range(2))
        stack.callback(one.kill)
        stack.callback(other.kill)
        one.start()
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = client.request(b"1", timeout_s=60).log_position
            assert position is not None
            one.await_position(position)
            assert "only 1 of 3 standbys hold for this one, and 2 are needed" in refusal(
                one.promote("--although-alive")
            )
            one.await_position(client.request(b"1", timeout_s=60).log_position or 0)
            assert "not done yet" in refusal(one.switch())
            assert "holds for no other one" in refusal(ordo(*one.words("release")))

            other.start()
            other.await_position(position)
            (one.config.parent / "standby" / "hold.json").write_text('{"promotion": 4711, "instead_of": -1}')
            other.await_state(f"holds for standby {one.member_id}")
            one.kill()
            assert ordo(*other.words("release")).returncode == 0
            other.await_position(client.request(b"1", timeout_s=60).log_position or 0)
