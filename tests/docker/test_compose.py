"""deploy/compose.yaml as it is: three containers elect, serve, lose one that comes back elsewhere, and are upgraded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docker.counting import GAP_MAX_S, Client, await_value
from tests.docker.engine import ROOT, Engine, run

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3000)]
COMPOSE_FILE = ROOT / "deploy" / "compose.yaml"
NODES = ("node0", "node1", "node2")
ENDPOINTS = tuple(f"{node}:20000" for node in NODES)
DEFAULT_SHARED_MEMORY_KIB = 64 * 1024


class Stack:
    """The Compose file's containers."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine, self.image = engine, image
        self.said = ""
        """By the last `ordo cluster status`, with what went wrong."""

    def compose(self, *words: str) -> str:
        environment = {**self.engine.environment, "ORDO_IMAGE": self.image, "ORDO_SERVICE": "tally:Tally"}
        return run("docker-compose", "-p", "ordo", "-f", COMPOSE_FILE, *words, env=environment)

    def container(self, node: str) -> str:
        """Its id."""
        return self.compose("ps", "-q", node)

    def inspect(self, container: str) -> Any:
        return json.loads(self.engine.docker("inspect", container))[0]

    def address(self, node: str) -> str:
        (network,) = self.inspect(self.container(node))["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def await_ready(self, *nodes: str) -> None:
        """As its HEALTHCHECK says: in touch with a quorum."""

        def health(node: str) -> str:
            return str(self.inspect(self.container(node))["State"]["Health"]["Status"])

        def are_healthy() -> bool | None:
            return all(health(node) == "healthy" for node in nodes) or None

        await_value(are_healthy, f"{', '.join(nodes)}: healthy")

    def members(self, asked: str) -> dict[str, dict[str, Any]]:
        command = f"ordo cluster status --json --endpoints {','.join(ENDPOINTS)} 2>&1 || true"
        self.said = self.engine.docker("exec", self.container(asked), "sh", "-c", command)
        found = json.loads(self.said) if self.said.startswith("{") else {"members": []}
        return {one["ingress"].partition(":")[0]: one for one in found["members"]}

    def leader(self, asked: str) -> str:
        def probe() -> str | None:
            leaders = [name for name, one in self.members(asked).items() if one.get("role") == "LEADER"]
            return leaders[0] if len(leaders) == 1 else None

        return await_value(probe, "a leader", lambda: self.said)


@pytest.fixture(scope="module")
def stack(engine: Engine, tally_images: tuple[str, str]) -> Iterator[Stack]:
    stack = Stack(engine, tally_images[0])
    try:
        stack.compose("up", "-d")
        yield stack
    finally:
        engine.docker("rm", "-f", *engine.docker("ps", "-aq").split())
        stack.compose("down", "-v")


@pytest.fixture(scope="module")
def client(engine: Engine, stack: Stack) -> Client:
    stack.await_ready(*NODES)
    return Client(engine, stack.image, "ordo_cluster", ENDPOINTS)


def test_three_containers_elect_and_serve_with_default_limits(stack: Stack, client: Client) -> None:
    client.await_progress()
    assert sorted(one["role"] for one in stack.members("node0").values()) == ["FOLLOWER", "FOLLOWER", "LEADER"]
    for node in NODES:
        found = stack.inspect(stack.container(node))["HostConfig"]
        assert found["ReadonlyRootfs"] and found["CapDrop"] == ["ALL"] and not found["Ulimits"]
        memory = stack.engine.docker("exec", stack.container(node), "df", "--output=size,used", "/dev/shm").split()
        assert int(memory[-2]) == DEFAULT_SHARED_MEMORY_KIB
        print(f"\n{node}: {int(memory[-1])} KiB of shared memory used")


def test_a_killed_leader_comes_back_with_another_address(stack: Stack, client: Client, engine: Engine) -> None:
    killed = stack.leader("node0")
    others = [node for node in NODES if node != killed]
    address = stack.address(killed)
    engine.docker("rm", "-f", stack.container(killed))
    # what it had is somebody else's now
    words = ("run", "-d", "--no-healthcheck", "--network", "ordo_cluster", "--entrypoint", "sleep")
    squatter = engine.docker(*words, stack.image, "600")
    (network,) = stack.inspect(squatter)["NetworkSettings"]["Networks"].values()
    assert network["IPAddress"] == address
    client.await_progress()
    assert stack.leader(others[0]) in others
    stack.compose("up", "-d", "--no-deps", killed)
    stack.await_ready(killed)
    assert stack.address(killed) != address
    client.await_progress()
    print(f"\nlongest wait of the client for an answer: {client.longest_s():.2f} s")
    assert client.longest_s() < GAP_MAX_S
    # with this one's vote the cluster goes on without another
    second = stack.leader(killed)
    assert second != killed
    engine.docker("rm", "-f", stack.container(second))
    client.await_progress()
    stack.compose("up", "-d", "--no-deps", second)
    stack.await_ready(*NODES)


def test_containers_are_upgraded_one_by_one_while_a_client_goes_on(
    stack: Stack, client: Client, tally_images: tuple[str, str]
) -> None:
    leader = stack.leader("node0")
    stack.image = tally_images[1]
    for node in sorted(NODES, key=lambda one: one == leader):
        stack.compose("up", "-d", "--no-deps", node)
        stack.await_ready(node)
        client.await_progress()
        code = "import importlib.metadata as m; print(m.version('tally'))"
        assert stack.engine.docker("exec", stack.container(node), "python3", "-c", code) == "1.1"
    total = client.stop()
    assert total > 0

    def settled() -> set[int] | None:
        members = stack.members("node0").values()
        positions = {int(one["service_position"]) for one in members} | {int(one["commit_position"]) for one in members}
        return positions if len(positions) == 1 else None

    await_value(settled, "members with equal positions")
    print(f"\n{total} requests, each answered once; longest wait {client.longest_s():.2f} s")
    assert client.longest_s() < GAP_MAX_S


CALL = """
import urllib.request, grpc
from ordo.proto import ordo_pb2 as pb
from ordo.proto import ordo_pb2_grpc
sequencer = ordo_pb2_grpc.SequencerStub(grpc.insecure_channel("gateway:50051"))
request = pb.SubmitRequest(identity=bytes(range(16)), number=1, payload=b"x")
answer = sequencer.Submit(request, timeout=30)
asked = sequencer.Query(pb.QueryRequest(), timeout=30)
page = urllib.request.urlopen("http://127.0.0.1:8080/", timeout=10)
print(0 < int(answer.payload) <= int(asked.payload), page.status, b"<title>" in page.read())
"""


def test_the_gateway_of_the_file_serves_grpc_and_the_console(stack: Stack, gateway_image: str) -> None:
    """Behind the others, whose client counts alone."""
    stack.compose("--profile", "gateway", "up", "-d", "--no-deps", "gateway")
    stack.await_ready("gateway")
    called = stack.engine.docker("exec", stack.container("gateway"), "python3", "-c", CALL)
    assert called == "True 200 True"
    stack.compose("--profile", "gateway", "rm", "-fs", "gateway")
