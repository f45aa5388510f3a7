"""deploy/compose.yaml as it is: three containers elect, serve, lose one that comes back elsewhere, and are upgraded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.docker.engine import ROOT, Engine, run

T = TypeVar("T")
pytestmark = [pytest.mark.docker, pytest.mark.timeout(3000)]
COMPOSE_FILE = ROOT / "deploy" / "compose.yaml"
NODES = ("node0", "node1", "node2")
ENDPOINTS = tuple(f"{node}:20000" for node in NODES)
CLIENT = "test-client"
DEFAULT_SHARED_MEMORY_KIB = 64 * 1024
GAP_MAX_S = 20.0


def await_value(probe: Callable[[], T | None], what: str, timeout_s: float = 90.0) -> T:
    deadline_s = time.monotonic() + timeout_s
    while (value := probe()) is None:
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s"
        time.sleep(0.25)
    return value


class Stack:
    """The Compose file's containers."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine, self.image = engine, image

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
        command = f"ordo cluster status --json --endpoints {','.join(ENDPOINTS)} 2>/dev/null || true"
        found = json.loads(self.engine.docker("exec", self.container(asked), "sh", "-c", command) or '{"members": []}')
        return {one["ingress"].partition(":")[0]: one for one in found["members"]}

    def leader(self, asked: str) -> str:
        def probe() -> str | None:
            leaders = [name for name, one in self.members(asked).items() if one.get("role") == "LEADER"]
            return leaders[0] if len(leaders) == 1 else None

        return await_value(probe, "a leader")


class Client:
    """tests/docker/client.py in a container beside the nodes."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine = engine
        mount = f"{ROOT / 'tests' / 'docker' / 'client.py'}:/client.py:ro"
        words = ("run", "-d", "--name", CLIENT, "--no-healthcheck", "--network", "ordo_cluster", "-v", mount)
        engine.docker(*words, "--entrypoint", "python3", image, "/client.py", *ENDPOINTS)

    def lines(self) -> list[dict[str, Any]]:
        text = self.engine.docker("logs", CLIENT)
        assert "Traceback" not in text and '"expected"' not in text, text[-2000:]
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def total(self) -> int:
        lines = self.lines()
        return int(lines[-1]["total"]) if lines else 0

    def await_progress(self, count: int = 200) -> None:
        goal = self.total() + count
        await_value(lambda: self.total() >= goal or None, f"{count} more requests")

    def longest_s(self) -> float:
        return max(float(line.get("longest_s", 0)) for line in self.lines())

    def stop(self) -> int:
        """How many requests were made and answered, each with the next number."""
        self.engine.docker("stop", "-t", "70", CLIENT)
        last = self.lines()[-1]
        assert last.get("end") is True, last
        return int(last["total"])


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
    return Client(engine, stack.image)


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
