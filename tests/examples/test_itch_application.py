"""The matching engine outside the cluster, over a day's orders: the exchange's own executions, each once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cluster.client.session import ClusterClient
from deploy.launcher import LocalCluster
from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.protocol import Kind, Status, decode_answer
from tests.sequencer.instances import Instances, Outputs, await_outputs, executed

EXECUTIONS = 849


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_every_execution_once_while_instances_are_killed_and_stopped(tmp_path: Path, aapl_feed: Path) -> None:
    requests = [entry.request for entry in ItchFeed(1).entries(read_itch_file(aapl_feed))]
    with LocalCluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster") as cluster:
        cluster.await_leader(60)
        instances, outputs = Instances(cluster, "ordo.matching.service:MatchingEngine", tmp_path), Outputs(cluster)
        try:
            for name in ("a", "b", "c"):
                instances.start(name)
            with ClusterClient(cluster.ingress_endpoints) as client:
                parts = [requests[start : start + 1000] for start in range(0, len(requests), 1000)]
                for number, part in enumerate(parts):
                    client.request_many(part, timeout_s=60)
                    outputs.poll()
                    if number == 2:
                        instances.kill("a")
                    elif number == 4:
                        instances.send("b", signal.SIGSTOP)
                    elif number == 6:
                        instances.start("a")
                        instances.send("b", signal.SIGCONT)
                await_outputs(client, outputs, instances, len(requests))
                by_member = [executed(client, member_id) for member_id in cluster.member_ids]
            assert by_member == [outputs.payloads] * 3
            assert not outputs.different
        finally:
            instances.close()
            outputs.close()
    answers = [decode_answer(payload) for payload in outputs.payloads if payload[0] == Kind.ANSWER]
    assert [answer.sequence for answer in answers] == list(range(1, len(requests) + 1))
    assert {answer.status for answer in answers} == {Status.ACCEPTED}
    matches = [fill.match_number for answer in answers for fill in answer.fills]
    assert len(matches) == len(set(matches)) == EXECUTIONS
