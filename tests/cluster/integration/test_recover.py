"""A majority that is gone for good: real members, the commands of the page, and a client that knows what was lost."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import OtherClusterError
from tests.cluster.integration.command import demand_one_line, ordo
from tests.clusters import STEADY, ready_cluster
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SERVICE = "tests.cluster.integration.talker:Talker"
REQUESTS = 20


def commands(**replaced: str) -> list[list[str]]:
    """The words of the runbook's commands, with other words in their places."""
    lines = Page("OPERATIONS.md").take("sh", "recover --config").splitlines()
    words = [shlex.split(line.partition(" >")[0], comments=True)[1:] for line in lines]
    return [[replaced.get(word, word) for word in one] for one in words]


def ask(client: ClusterClient, first: int) -> None:
    for total in range(first, first + REQUESTS):
        assert client.request(b"1", timeout_s=60).payload == str(total + 1).encode()


def lose_two(cluster: LocalCluster, client: ClusterClient) -> int:
    """Stop a follower, go on without it, and stop the others; return the follower."""
    left = next(one for one in cluster.member_ids if one != cluster.await_leader(60))
    ask(client, 0)
    cluster.await_value(lambda: client.poll() * 0 or client.known_cluster.origin, "a client that knows whose it is", 60)
    cluster.kill(left)
    ask(client, REQUESTS)
    for member_id in {*cluster.member_ids} - {left}:
        cluster.kill(member_id)
    return left


def test_one_member_goes_on_and_whoever_knows_more_is_told(tmp_path: Path) -> None:
    settings = ClientSettings(reconnect=True)
    steady = ready_cluster(SERVICE, heartbeat=STEADY)  # a client waits for as long before it asks others
    with steady as cluster, ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
        running = ordo("cluster", "recover", "--config", str(cluster.config_path(0)))
        demand_one_line(running, 1, "folder is in use")
        left = lose_two(cluster, client)
        config, report = str(cluster.config_path(left)), str(tmp_path / "other.json")
        compare, write_report, go_on = commands(**{"node.toml": config, "member2.json": report, "0": str(left)})
        found = ordo(*compare)
        assert found.returncode == 0 and "may be lost: what was acknowledged behind position=" in found.stdout, found

        other = next(one for one in cluster.member_ids if one != left)
        written = ordo(*(str(cluster.config_path(other)) if word == config else word for word in write_report))
        Path(report).write_text(written.stdout)
        demand_one_line(ordo(*go_on), 1, "a quorum can be had")

        alone = [word for word in go_on if word not in ("--report", report)]
        done = ordo(*alone, "--json")
        assert done.returncode == 0, done
        said = json.loads(done.stdout)
        assert said["recovered"]["from_position"] == said["comparison"]["loss"]["from_position"]
        demand_one_line(ordo(*alone), 1, "a quorum can be had: members")
        cluster.start_member(left)
        assert ordo("cluster", "wait", "--config", config).returncode == 0
        with pytest.raises(OtherClusterError, match="is of the cluster with identity"):
            client.request(b"1", timeout_s=60)
        with ClusterClient({left: cluster.ingress_endpoints[left]}) as new:
            total = int(new.request(b"1", timeout_s=60).payload)
        assert 0 < total <= REQUESTS + 1, "what the member had, and nothing of what came after"
