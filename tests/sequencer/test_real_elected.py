"""Groups of which one instance writes: when it is killed or stopped, another one does, and each output counts once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.patience import factor, patient
from tests.sequencer.instances import Instances, Outputs, await_outputs, executed, expected, look_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
NAMES = ("a", "b", "c")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with ready_cluster(
        "tests.sequencer.applications:Ledger",
        root=tmp_path / "cluster",
        cluster={"session_timeout": f"{round(2 * min(3.0, factor()))}s"},
    ) as cluster:
        yield cluster


@pytest.fixture
def instances(cluster: LocalCluster, tmp_path: Path) -> Iterator[Instances]:
    instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path, "--mode", "active-passive")
    try:
        for name in NAMES:
            instances.start(name)
        yield instances
    finally:
        instances.close()


@pytest.fixture
def outputs(cluster: LocalCluster) -> Iterator[Outputs]:
    outputs = Outputs(cluster)
    yield outputs
    outputs.close()


def await_active(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], count: int = 3, other_than: str = ""
) -> str:
    """Returns the one instance of `count` that says that it writes. One that has stood still says so until it has read
    what was written meanwhile."""

    def active(rows: list[dict[str, object]]) -> list[str]:
        return [str(row["instance"]) for row in rows if row["active"]]

    def is_settled(rows: list[dict[str, object]]) -> bool:
        return len(rows) == count and len(active(rows)) == 1 and active(rows) != [other_than]

    return active(look_until(is_settled, cluster, capsys))[0]


def send(cluster: LocalCluster, outputs: Outputs, instances: Instances, lengths: list[int], written: int) -> None:
    """Sends messages of these lengths, and waits until so many outputs are in the log altogether."""
    with ClusterClient(cluster.ingress_endpoints) as client:
        for length_bytes in lengths:
            client.request(b"x" * length_bytes, timeout_s=patient(30))
            outputs.poll()
        await_outputs(client, outputs, instances, written)


def check_outputs(cluster: LocalCluster, outputs: Outputs, lengths: list[int]) -> None:
    """Each output is in the log and was executed by every member once, and nobody wrote after its successor."""
    outputs.poll()
    assert outputs.payloads == expected(lengths)
    with ClusterClient(cluster.ingress_endpoints) as client:
        outputs_of = [executed(client, member_id, 2 * len(lengths)) for member_id in cluster.member_ids]
        assert outputs_of == [expected(lengths)] * 3
    assert len(set(outputs.generations)) == len(outputs.generations)


def test_others_take_over_when_the_active_one_ends_or_is_killed(
    cluster: LocalCluster, instances: Instances, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = [number * 7 % 90 for number in range(240)]
    await_active(cluster, capsys)
    send(cluster, outputs, instances, lengths[:80], 160)
    first = await_active(cluster, capsys)
    assert instances.end(first) == 0
    send(cluster, outputs, instances, lengths[80:160], 320)
    second = await_active(cluster, capsys, count=2)
    instances.kill(second)
    send(cluster, outputs, instances, lengths[160:], 480)
    third = await_active(cluster, capsys, count=1)
    assert {first, second, third} == set(NAMES)
    check_outputs(cluster, outputs, lengths)
    assert len(outputs.generations) >= 3, "each writer has a generation of its own"
    assert instances.end(third) == 0


def test_one_that_stood_still_finds_another_in_its_place_and_writes_no_more(
    cluster: LocalCluster, instances: Instances, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = [number * 5 % 70 for number in range(150)]
    await_active(cluster, capsys)
    send(cluster, outputs, instances, lengths[:50], 100)
    stopped = await_active(cluster, capsys)
    instances.send(stopped, signal.SIGSTOP)
    send(cluster, outputs, instances, lengths[50:100], 200)
    instances.send(stopped, signal.SIGCONT)
    send(cluster, outputs, instances, lengths[100:], 300)
    assert await_active(cluster, capsys, other_than=stopped) != stopped
    look_until(lambda rows: all(row["outputs_executed"] == 300 for row in rows), cluster, capsys)
    await_that(lambda: "app.passive" in instances.log(stopped), "the line of one that has noticed")
    check_outputs(cluster, outputs, lengths)
    assert len(outputs.generations) >= 2
