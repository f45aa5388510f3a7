"""Nodes beside a media driver of another process: two clusters share one, and die and come back without harm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ordo.cli import run
from ordo.cluster.admin.local_member import LocalMember, node_status
from ordo.cluster.admin.orders import take_snapshot
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import OrdoError, StorageMissingError
from tests.cluster.integration.agreement import await_that
from tests.patience import factor, patient
from tests.transport.test_driver_threads import program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
TIMEOUT_S = 60.0
LIVENESS_S = round(2 * min(3.0, factor()))


@pytest.fixture
def driver_folder(shm_path: Path, tmp_path: Path) -> Iterator[Path]:
    settings = tmp_path / "driver.toml"
    settings.write_text(
        f'client_liveness_timeout = "{LIVENESS_S}s"\ntimer_interval = "50ms"\n'
        f'publication_unblock_timeout = "{LIVENESS_S + 1}s"\n'
    )
    folder = shm_path / "driver"
    with program(folder, "--threads", "dedicated", "--config", str(settings)):
        yield folder


@contextmanager
def cluster_on(folder: Path, cluster_id: int, root: Path, **cluster: Any) -> Iterator[LocalCluster]:
    """A cluster of one node that uses the driver in a folder."""
    with LocalCluster(
        "examples.counter:Counter",
        member_count=1,
        root=root,
        node={"own_driver": False, "aeron_dir": str(folder)},
        cluster={"id": cluster_id, **cluster},
    ) as started:
        yield started


def leads(config: NodeSettings) -> bool:
    try:
        status = node_status(config)
    except (OrdoError, ValueError):
        return False
    return status.role == "LEADER" and status.state == "ACTIVE"


def await_leading(config: NodeSettings, cluster: LocalCluster) -> None:
    await_that(lambda: leads(config), "leader", explain=lambda: cluster.logs(0)[-2000:])


def is_missing(config: NodeSettings) -> bool:
    """Whether a node is told of as one that does not run."""
    try:
        node_status(config)
    except StorageMissingError as error:
        return "is not running" in error.message
    return False


def count_to(cluster: LocalCluster, count: int) -> None:
    """Sends so many messages, and demands an answer to each."""
    answers: list[bytes] = []
    with ClusterClient(cluster.ingress_endpoints, on_message=lambda message, *_: answers.append(message)) as client:
        sent = 0
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while len(answers) < count:
            assert time.monotonic() < deadline_s, f"{len(answers)} of {count} answers"
            if sent < count and client.offer(b"1") > 0:
                sent += 1
            client.poll()


def test_two_clusters_on_one_driver(driver_folder: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        clusters = [stack.enter_context(cluster_on(driver_folder, number, tmp_path / str(number))) for number in (1, 2)]
        configs = [load_config(one.config_path(0)) for one in clusters]
        for config, one in zip(configs, clusters, strict=True):
            await_leading(config, one)
        count_to(clusters[0], 200)
        count_to(clusters[1], 50)
        positions = [node_status(config).commit_position for config in configs]
        assert positions[0] > positions[1], "each has a log of its own"
        take_snapshot(LocalMember(configs[0]))
        assert [node_status(config).snapshots for config in configs] == [1, 0], "one takes a snapshot, alone"
        clusters[0].kill(0)
        count_to(clusters[1], 50)
        clusters[0].start_member(0)
        await_leading(configs[0], clusters[0])
        count_to(clusters[0], 50)
        assert clusters[0].stop(0) == 0
        await_that(lambda: is_missing(configs[0]), "the driver frees the counters of the node that has ended")
        count_to(clusters[1], 50)


def test_a_second_node_of_the_cluster_is_refused(driver_folder: Path, tmp_path: Path) -> None:
    with cluster_on(driver_folder, 3, tmp_path / "a") as first:
        await_leading(load_config(first.config_path(0)), first)
        with cluster_on(driver_folder, 3, tmp_path / "b") as second:
            assert second.wait(0, TIMEOUT_S) == 1
            assert "another node of cluster id=3 uses the driver" in second.logs(0)
        count_to(first, 20)


def test_a_node_ends_with_one_line_when_its_driver_does(tmp_path: Path, shm_path: Path) -> None:
    folder = shm_path / "driver"
    with (
        program(folder, "--termination-token", "t") as process,
        cluster_on(folder, 4, tmp_path / "a") as cluster,
    ):
        await_leading(load_config(cluster.config_path(0)), cluster)
        assert run(["driver", "terminate", "--dir", str(folder), "--token", "t"]) == 0
        assert process.wait(TIMEOUT_S) == 0
        assert cluster.wait(0, TIMEOUT_S) == 1
        last = [line for line in cluster.logs(0).splitlines() if line.startswith("ordo: ")]
        assert len(last) == 1 and "driver" in last[0], cluster.logs(0)


def test_no_driver_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        f'[node]\nmember_id = 0\ndata_dir = "{tmp_path}/d"\nown_driver = false\n'
        '[[members]]\nid = 0\nhost = "127.0.0.1"\nport = 9000\n'
    )
    assert run(["node", "--config", str(path), "--service", "examples.counter:Counter"]) == 2
    assert "give aeron_dir, the folder of the running driver" in capsys.readouterr().err
