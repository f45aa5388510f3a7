"""The example of docs/APPLICATIONS.md, with the processes that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.pricer import Pricer
from ordo.cluster.client.session import ClusterClient
from ordo.service_api.testing.harness import Input
from ordo.testing import Message, OpenSession, check_service
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.sequencer.instances import Instances, Outputs, await_outputs


def test_quotes_are_a_function_of_the_messages() -> None:
    prices = [b"a 100", b"a 100", b"b 7", b"a 101", b"noise", b"a 101", b"a x", b"b 8"]
    inputs: list[Input] = [OpenSession(1, 1)]
    inputs += [Message(1, 2 + index, price) for index, price in enumerate(prices)]
    harness = check_service(Pricer, inputs)
    quotes = [effect.value for effect in harness.effects if effect.kind == "offer"]
    assert quotes == [b"quote a 100", b"quote b 7", b"quote a 101", b"quote b 8"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_worked_example(tmp_path: Path) -> None:
    with ready_cluster("ordo:Ordering", root=tmp_path / "cluster") as cluster:
        instances, outputs = Instances(cluster, "examples.pricer:Pricer", tmp_path), Outputs(cluster)
        try:
            for name in ("pricing-1", "pricing-2", "pricing-3"):
                instances.start(name)
            with ClusterClient(cluster.ingress_endpoints) as client:
                for price in (100, 100, 102, 102, 90):
                    client.send(b"ACME %d" % price, timeout_s=patient(30))
                await_outputs(client, outputs, instances, 3)
                assert client.query(b"", group="tested", timeout_s=patient(30)).payload == b'{"ACME": 90}'
            assert outputs.payloads == [b"quote ACME 100", b"quote ACME 102", b"quote ACME 90"]
        finally:
            instances.close()
            outputs.close()
