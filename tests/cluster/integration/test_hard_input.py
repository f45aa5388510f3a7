"""What goes wrong around a node: it says so in one line, and the cluster's data stays what it was."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster, find_ports
from tests.cluster.integration.agreement import await_that, counter_of, demand_agreement
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import LEDGER, LendCluster
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
USAGE, FAILED = 2, 1


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LocalCluster]:
    """The configuration of a cluster of one, not started."""
    cluster = LocalCluster(LEDGER, root=tmp_path / "cluster", member_count=1)
    yield cluster
    cluster.close()


def run_node(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ordo("node", "--config", str(cluster.config_path(0)), "--service", cluster.service, *arguments)


def change(cluster: LocalCluster, old: str, new: str) -> None:
    """Replaces a piece of the configuration."""
    path = cluster.config_path(0)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[cluster]", "[cluster]\nelection_timout = '1s'", ["election_timout"]),
        ("[cluster]", "[cluster]\nlog_term_length = '100k'", ["log_term_length", "power of two"]),
        ("[cluster]", "[cluster]\nmtu = 1000", ["mtu", "multiple of 32"]),
        ('sync = "commit"', 'sync = "sometimes"', ["sync", "sometimes"]),
        ("member_id = 0", "member_id = 7", ["member_id", "7"]),
        ("[node]", "[node", ["0.toml"]),
    ],
    ids=["unknown key", "term length", "mtu", "sync", "not a member", "no TOML"],
)
def test_a_wrong_configuration(lone: LocalCluster, old: str, new: str, words: list[str]) -> None:
    change(lone, old, new)
    demand_one_line(run_node(lone), USAGE, *words)


def test_a_configuration_that_is_not_there(lone: LocalCluster) -> None:
    lone.config_path(0).unlink()
    demand_one_line(run_node(lone), USAGE, "0.toml")


def test_a_service_that_cannot_be_loaded(lone: LocalCluster) -> None:
    lone.service = "tests.cluster.integration.services:Legder"
    demand_one_line(run_node(lone), USAGE, "Legder")
    lone.service = "tests.cluster.integration.no_such_module:Ledger"
    demand_one_line(run_node(lone), USAGE, "no_such_module")


def test_a_folder_for_shared_memory_that_cannot_be_made(lone: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    change(lone, str(lone.aeron_dir(0)), str(tmp_path / "file" / "aeron"))
    demand_one_line(run_node(lone), FAILED, str(tmp_path / "file"))


def test_a_port_that_is_in_use(lone: LocalCluster) -> None:
    host, _, port = lone.ingress_endpoints[0].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((host, int(port)))
        demand_one_line(run_node(lone), FAILED, port, "in use")
    assert not lone.aeron_dir(0).exists()


def test_a_data_folder_of_a_live_node(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(member_count=1)
    second = cluster.root / "second.toml"
    (port,) = find_ports(1)
    text = cluster.config_path(0).read_text()
    text = text.replace(str(cluster.aeron_dir(0)), f"{cluster.aeron_dir(0)}-second")
    second.write_text(text.replace(cluster.ingress_endpoints[0].rpartition(":")[2], str(port)))
    done = ordo("node", "--config", str(second), "--service", LEDGER)
    demand_one_line(done, FAILED, str(cluster.data_dir(0)), "in use")
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(100)
        demand_agreement(cluster, [writer])


def test_a_driver_folder_of_a_live_node(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster(member_count=1)
    second = cluster.root / "second.toml"
    text = cluster.config_path(0).read_text()
    second.write_text(text.replace(str(cluster.data_dir(0)), f"{cluster.data_dir(0)}-second"))
    done = ordo("node", "--config", str(second), "--service", LEDGER)
    demand_one_line(done, FAILED, str(cluster.aeron_dir(0)))
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(100)
        demand_agreement(cluster, [writer])


def test_garbage_on_every_port(lend_cluster: LendCluster) -> None:
    cluster = lend_cluster()
    generator = random.Random(4711)
    with Writer(cluster.ingress_endpoints) as writer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        writer.write(500)
        elections = [counter_of(cluster, one, CounterType.ELECTION_COUNT) for one in cluster.member_ids]
        for _ in range(20):
            for member_id in cluster.member_ids:
                for endpoint in endpoints(cluster, member_id):
                    for datagram in garbage(generator):
                        stranger.sendto(datagram, endpoint)
            writer.write(50)
        demand_agreement(cluster, [writer])
        assert [counter_of(cluster, one, CounterType.ELECTION_COUNT) for one in cluster.member_ids] == elections
        for member_id in cluster.member_ids:
            await_that(
                partial(counts_garbage, cluster, member_id), f"member {member_id} counts what is none of its own"
            )


def endpoints(cluster: LocalCluster, member_id: int) -> list[tuple[str, int]]:
    """Every address on which a member listens."""
    member = next(one for one in load_config(cluster.config_path(member_id)).member_list if one.id == member_id)
    found = [member.ingress, member.consensus, member.log, member.catchup]
    return [(host, int(port)) for host, _, port in (endpoint.rpartition(":") for endpoint in found)]


def garbage(generator: random.Random) -> Iterator[bytes]:
    """Random bytes, and bytes that begin as a frame does."""
    yield b""
    yield generator.randbytes(generator.randrange(1, 1500))
    for frame_type in range(8):
        length = generator.choice([0, 7, 8, 24, 32, 40, 1408, -1, 2**31 - 1])
        head = length.to_bytes(4, "little", signed=True) + bytes([0, generator.randrange(256)])
        yield head + frame_type.to_bytes(2, "little") + generator.randbytes(generator.randrange(0, 64))


def counts_garbage(cluster: LocalCluster, member_id: int) -> bool:
    counters = read_counters(cluster.aeron_dir(member_id))
    return next(one.value for one in counters if "invalid packets" in one.label.lower()) > 100
