"""deploy/kubernetes on a Kubernetes of three nodes: it serves, loses its leader, is maintained and restarted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.scraping import has_prometheus
from tests.deploy.test_kubernetes_components import client_pod, with_components
from tests.docker.counting import GAP_MAX_S, await_value
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.pods import ENDPOINTS, PODS, SELECTOR, PodClient, Pods, set_image
from tests.snippets import Page

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(7200)]
SHARED_MEMORY_KIB = 256 * 1024
RESTART_TIMEOUT_S = 300.0
PROMETHEUS_URL = "127.0.0.1:9090"
RIGHTS = {"Uid": "10001", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
"""What /proc/1/status says first of each: no capability can be had either, and system calls are filtered."""


@pytest.fixture(scope="module")
def pods(control: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Pods:
    return Pods(control, tmp_path_factory.mktemp("pods") / "kubernetes")


@pytest.fixture(scope="module")
def client(pods: Pods, tmp_path_factory: pytest.TempPathFactory) -> PodClient:
    pods.await_ready()
    return PodClient(pods.control, tmp_path_factory.mktemp("client"))


def test_three_pods_on_three_nodes_elect_and_serve(pods: Pods, client: PodClient) -> None:
    assert "Warning" not in pods.applied
    found = pods.await_ready()
    assert sorted(found) == list(PODS)
    assert len({one["spec"]["nodeName"] for one in found.values()}) == len(PODS)
    client.await_progress()
    assert sorted(one["role"] for one in pods.members(PODS[0])) == ["FOLLOWER", "FOLLOWER", "LEADER"]


@pytest.mark.parametrize("pod", PODS)
def test_a_pod_has_no_rights_and_a_limit_of_shared_memory(pods: Pods, pod: str) -> None:
    status = dict(line.split(":", 1) for line in pods.execute(pod, "cat /proc/1/status").splitlines())
    assert {name: status[name].split()[0] for name in RIGHTS} == RIGHTS
    refused = pods.execute(pod, "touch /here /etc/ordo/here 2>&1 || true").splitlines()
    assert len(refused) == 2 and all("Read-only file system" in line for line in refused)
    assert pods.execute(pod, "ls /var/run/secrets 2>&1 || true").endswith("No such file or directory")
    kind, size_kib, used_kib = pods.execute(pod, "df --output=fstype,size,used /dev/shm | tail -1").split()
    assert (kind, int(size_kib)) == ("tmpfs", SHARED_MEMORY_KIB)
    print(f"\n{pod}: {used_kib} KiB of shared memory used")
    assert pods.execute(pod, "touch /var/lib/ordo/here && rm /var/lib/ordo/here") == ""


def test_a_deleted_leader_comes_back_with_another_address(pods: Pods, client: PodClient) -> None:
    first = pods.leader(PODS[0])
    address = pods.address(first)
    pods.control.kubectl("delete", "pod", first)
    client.await_progress()
    pods.await_ready()
    assert pods.address(first) != address
    client.await_progress()
    # with this one's vote the cluster goes on without another, which ends at once
    second = pods.leader(first)
    assert second != first
    pods.control.kubectl("delete", "pod", second, "--grace-period=0", "--force")
    client.await_progress()
    pods.await_ready()
    client.await_progress()
    print(f"\nlongest wait of the client for an answer: {client.longest_s():.2f} s")
    assert client.longest_s() < GAP_MAX_S


@pytest.fixture
def maintenance(pods: Pods) -> Iterator[tuple[list[str], list[str]]]:
    """The page's commands, which here leave the client alone; at the end all nodes are in service."""
    drain, uncordon = map(shlex.split, Page("DEPLOYMENT.md").take("sh", "kubectl drain").splitlines())
    yield [*drain, "--pod-selector", SELECTOR], uncordon
    for node in pods.control.get("nodes")["items"]:
        pods.control.kubectl(*of_node(uncordon, node["metadata"]["name"]))


def of_node(words: list[str], node: str) -> list[str]:
    """A command of the page, of this node."""
    assert words[0] == "kubectl" and "NODE" in words
    return [node if word == "NODE" else word for word in words[1:]]


def test_maintenance_takes_one_node_at_a_time(
    pods: Pods, client: PodClient, maintenance: tuple[list[str], list[str]]
) -> None:
    drain, uncordon = maintenance
    nodes = {pod: str(one["spec"]["nodeName"]) for pod, one in pods.await_ready().items()}
    leader = pods.leader(PODS[0])
    address = pods.address(leader)
    pods.control.kubectl(*of_node(drain, nodes[leader]))
    others = [pod for pod in PODS if pod != leader]
    for pod in others:
        refused = pods.control.try_kubectl(*of_node(drain, nodes[pod]), "--timeout=1s")
        assert refused.returncode == 1 and "disruption budget" in refused.stderr
    client.await_progress()
    assert sorted(pods.ready()) == others
    pods.control.kubectl(*of_node(uncordon, nodes[leader]))
    found = pods.await_ready()
    assert {pod: str(one["spec"]["nodeName"]) for pod, one in found.items()} == nodes
    assert pods.address(leader) != address
    client.await_progress()


def test_a_restart_takes_one_pod_at_a_time_while_a_client_goes_on(pods: Pods, client: PodClient) -> None:
    before = {one["metadata"]["uid"] for one in pods.await_ready().values()}
    revision = pods.revision()
    pods.control.kubectl("rollout", "restart", "statefulset/ordo")
    counts = []

    def is_done() -> bool | None:
        counts.append(len(pods.ready()))
        return pods.revision() != revision or None

    await_value(is_done, "a restart", timeout_s=RESTART_TIMEOUT_S)
    assert min(counts) == len(PODS) - 1
    assert not before & {one["metadata"]["uid"] for one in pods.await_ready().values()}
    client.await_progress()
    longest_s, total = client.longest_s(), client.stop()
    pods.await_equal_positions()
    print(f"\n{total} requests, each answered once; longest wait {longest_s:.2f} s")
    assert longest_s < GAP_MAX_S


@has_prometheus
def test_a_prometheus_without_rights_finds_the_members(pods: Pods, tmp_path: Path) -> None:
    """The page's configuration, on the network of the pods."""
    pods.await_ready()
    (tmp_path / "prometheus.yml").write_text(Page("DEPLOYMENT.md").take("yaml", "dns_sd_configs"))
    pods.control.run_on_network(
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={PROMETHEUS_URL}",
    )

    def members() -> list[str] | None:
        found = {row["metric"]["member"]: row["value"][1] for row in pods.control.query(PROMETHEUS_URL, "ordo_ready")}
        return sorted(found) if len(found) == len(PODS) and set(found.values()) == {"1"} else None

    assert await_value(members, "three scraped members", timeout_s=RESTART_TIMEOUT_S) == ["0", "1", "2"]


def test_with_keys_of_its_own_the_cluster_goes_on_for_whom_it_trusts(
    pods: Pods, client: PodClient, tmp_path: Path
) -> None:
    """Both components, as the page has a cluster changed that runs: what was written stays."""
    total = client.stop()
    folder = with_components(tmp_path / "kubernetes")
    set_image(folder)
    said = pods.type_in(Page("DEPLOYMENT.md").take("sh", "kubectl delete statefulset"), folder)
    assert "networkpolicy.networking.k8s.io/ordo created" in said and "Warning" not in said
    pods.await_ready()
    assert sorted(one["role"] for one in pods.members(PODS[0])) == ["FOLLOWER", "FOLLOWER", "LEADER"]
    for pod in PODS:
        modes = pods.execute(pod, "stat -L -c '%u %g %a' /etc/ordo-keys/*")
        assert modes.split() == ["0", "10001", "440"], "its own key, and no other"
        refused = pods.execute(pod, f"env -u ORDO_KEY_FILE -u ORDO_TRUSTED_FILE {status_of_all()} || echo $?")
        assert refused.endswith("3"), "without a key nobody answers"
    trusted = PodClient(pods.control, tmp_path, client_pod()["spec"])
    said = await_value(lambda: trusted.said() or None, "an answer")
    assert json.loads(said) == {"total": total + 1, "expected": 1}, "the cluster goes on where the first client ended"


def status_of_all() -> str:
    return f"ordo cluster status --json --endpoints {','.join(ENDPOINTS)} --timeout 3 2>&1 >/dev/null"
