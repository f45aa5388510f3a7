"""The matching engine outside the cluster, over orders of a day: the exchange's own executions, each once."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.protocol import Kind, Status, decode_answer
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.sequencer.instances import Instances, Outputs, await_outputs, executed

EXECUTIONS = 849
FIRST = 3000
"""Requests of the test that each change passes; the long one has all 9,549."""
NAMES = ("a", "b", "c")
SECONDS = 60


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_every_execution_once_while_instances_are_killed_and_stopped(tmp_path: Path, aapl_feed: Path) -> None:
    entries = list(ItchFeed(1).entries(read_itch_file(aapl_feed)))[:FIRST]
    requests = [entry.request for entry in entries]
    with ready_cluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster") as cluster:
        instances, outputs = Instances(cluster, "ordo.matching.service:MatchingEngine", tmp_path), Outputs(cluster)
        try:
            for name in NAMES:
                instances.start(name)
            with ClusterClient(cluster.ingress_endpoints) as client:
                parts = [requests[start : start + FIRST // 10] for start in range(0, len(requests), FIRST // 10)]
                for number, part in enumerate(parts):
                    client.request_many(part, timeout_s=patient(60))
                    outputs.poll()
                    if number == 2:
                        instances.kill("a")
                    elif number == 4:
                        instances.send("b", signal.SIGSTOP)
                    elif number == 6:
                        instances.start("a")
                        instances.send("b", signal.SIGCONT)
                await_outputs(client, outputs, instances, len(requests))
                by_member = [executed(client, member_id, len(requests)) for member_id in cluster.member_ids]
            assert by_member == [outputs.payloads] * 3
            assert not outputs.different
        finally:
            instances.close()
            outputs.close()
    executions = sum(len(entry.expected) for entry in entries)
    assert executions > FIRST // 100
    check_executions(outputs, len(requests), executions)


def check_executions(outputs: Outputs, request_count: int, executions: int) -> None:
    """Each request is answered once, with the exchange's own executions."""
    answers = [decode_answer(payload) for payload in outputs.payloads if payload[0] == Kind.ANSWER]
    assert [answer.sequence for answer in answers] == list(range(1, request_count + 1))
    assert {answer.status for answer in answers} == {Status.ACCEPTED}
    matches = [fill.match_number for answer in answers for fill in answer.fills]
    assert len(matches) == len(set(matches)) == executions


class Disorder:
    """Each second one instance, drawn from a seed, is killed, and another one stopped; both are back a second later."""

    def __init__(self, instances: Instances, seed: int) -> None:
        self._instances = instances
        self._random = random.Random(seed)
        self._away: list[str] = []
        self.kills = self.stops = 0

    def work(self) -> None:
        """The next second's."""
        self.restore()
        killed, stopped = self._random.sample(NAMES, 2)
        self._instances.kill(killed)
        self._instances.send(stopped, signal.SIGSTOP)
        self._away = [killed, stopped]
        self.kills, self.stops = self.kills + 1, self.stops + 1

    def restore(self) -> None:
        for killed, stopped in [self._away] if self._away else ():
            self._instances.send(stopped, signal.SIGCONT)
            self._instances.spawn(killed)
        self._away = []


class Answers:
    """When a client heard from the application last, and how long it heard nothing at most."""

    def __init__(self) -> None:
        self.count = 0
        self.silence_s = 0.0
        self.heard_s = time.monotonic()

    def hear(self, *_: object) -> None:
        now_s = time.monotonic()
        self.count += 1
        self.silence_s, self.heard_s = max(self.silence_s, now_s - self.heard_s), now_s


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_every_execution_once_in_a_minute_of_a_kill_and_a_stop_each_second(tmp_path: Path, aapl_feed: Path) -> None:
    """Prints what the client saw of it. ORDO_SEED draws who is killed and stopped."""
    requests = [entry.request for entry in ItchFeed(1).entries(read_itch_file(aapl_feed))]
    with ready_cluster("tests.sequencer.applications:Ledger", root=tmp_path / "cluster") as cluster:
        instances, outputs = Instances(cluster, "ordo.matching.service:MatchingEngine", tmp_path), Outputs(cluster)
        disorder, heard = Disorder(instances, int(os.environ.get("ORDO_SEED", "1"))), Answers()
        try:
            for name in NAMES:
                instances.start(name)
            with ClusterClient(cluster.ingress_endpoints, on_message=heard.hear) as client:
                began_s, sent = time.monotonic(), 0
                heard.heard_s = began_s
                while sent < len(requests):
                    elapsed_s = time.monotonic() - began_s
                    if elapsed_s >= disorder.kills and disorder.kills < SECONDS:
                        disorder.work()
                    while sent < min(len(requests), int(elapsed_s / SECONDS * len(requests))):
                        client.submit(requests[sent])
                        sent += 1
                    client.poll()
                    outputs.poll()
                    client.park(0.001)
                disorder.restore()
                await_outputs(client, outputs, instances, len(requests))
                by_member = [executed(client, member_id, len(requests)) for member_id in cluster.member_ids]
            assert by_member == [outputs.payloads] * 3
            assert not outputs.different
        finally:
            instances.close()
            outputs.close()
    check_executions(outputs, len(requests), EXECUTIONS)
    assert heard.count == len(requests), "the client was told each answer once"
    print(
        f"{len(requests)} requests in {SECONDS} s, {disorder.kills} kills, {disorder.stops} stops of three instances: "
        f"{EXECUTIONS} executions once each, {outputs.copies} copies of outputs in the log, longest silence "
        f"{heard.silence_s:.2f} s"
    )
