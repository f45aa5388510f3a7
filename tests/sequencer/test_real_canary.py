"""Other code beside a group: it writes nothing, and tells where it would have written otherwise."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from tests.clusters import STEADY, await_level, ready_cluster
from tests.patience import patient
from tests.sequencer.instances import Instances, Outputs, await_outputs, expected, look_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def differences(log: str) -> list[tuple[int, int, str]]:
    found = [json.loads(line) for line in log.splitlines() if line.startswith("{") and "app.difference" in line]
    return sorted({(one["position"], one["index"], one["difference"]) for one in found})


def endpoints(cluster: LocalCluster) -> str:
    return ",".join(cluster.ingress_endpoints.values())


def diff(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], group: str = "tested"
) -> list[tuple[int, int, str]]:
    """What `ordo app diff` says."""
    capsys.readouterr()
    assert run(["app", "diff", "--group", group, "--endpoints", endpoints(cluster), "--json"]) == 0
    return sorted((one["position"], one["index"], one["difference"]) for one in json.loads(capsys.readouterr().out))


def check_diff(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], different: list[tuple[int, int, str]]
) -> None:
    """The members that are left when the leader dies know them all."""
    await_level(cluster)
    cluster.kill(cluster.await_leader())
    cluster.await_leader()
    deadline_s = time.monotonic() + patient(60)
    while (shown := diff(cluster, capsys)) != different and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert shown == different
    assert run(["app", "diff", "--group", "tested", "--endpoints", endpoints(cluster)]) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert all(word in table for word in ("canary", "1.2.0", "only the canary writes", "b'changed'")), table
    assert diff(cluster, capsys, group="other") == []
    assert run(["app", "diff", "--group", "g" * 65, "--endpoints", endpoints(cluster)]) == 2
    assert "must be 1 to 64 bytes long" in capsys.readouterr().err


def test_a_canary_that_is_killed_goes_on_and_tells_every_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ready_cluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster", heartbeat=STEADY) as cluster:
        instances = Instances(cluster, "tests.sequencer.applications:Numbered", tmp_path)
        outputs = Outputs(cluster)

        def start_canary() -> None:
            instances.start("canary", "--mode", "canary", service="tests.sequencer.applications:Changed")

        try:
            instances.start("a")
            start_canary()
            lengths = [number % 20 for number in range(100)]
            inputs: list[int] = []
            with ClusterClient(cluster.ingress_endpoints) as client:
                for number, length_bytes in enumerate(lengths):
                    inputs.append(client.request(b"x" * length_bytes, timeout_s=patient(30)).log_position)
                    outputs.poll()
                    if number == 50:
                        instances.kill("canary")
                        start_canary()
                await_outputs(client, outputs, instances, 200)
            different = []
            for position, length_bytes in zip(inputs, lengths, strict=True):
                if length_bytes == 13:
                    different.append((position, 0, "another payload"))
                    different.append((position, 1, "the canary does not write this output"))
                elif length_bytes == 14:
                    different.append((position, 2, "only the canary writes this output"))
            deadline_s = time.monotonic() + patient(60)
            while len(differences(instances.log("canary"))) < len(different) and time.monotonic() < deadline_s:
                instances.check_running()
                time.sleep(0.05)
            assert differences(instances.log("canary")) == different
            rows = look_until(lambda rows: {row["instance"] for row in rows} >= {"a", "canary"}, cluster, capsys)
            assert {row["instance"] for row in rows if row["active"]} == {"a"}
            check_diff(cluster, capsys, different)
            outputs.poll()
            assert outputs.payloads == expected(lengths) and not outputs.different
            assert instances.end("canary") == 0
        finally:
            instances.close()
            outputs.close()
