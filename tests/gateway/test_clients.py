"""The clients of examples/clients/, built as docs/GATEWAY.md says, while a leader, a gateway and they are killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.conftest import StartCluster
from tests.clusters import await_level
from tests.gateway.built_clients import PROGRAMS, TIMEOUT_S, built, running
from tests.gateway.conftest import GatewayProcess, StartGateway, sequencer_of
from tests.gateway.test_life import make_certificates
from tests.snippets import Page

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
PUBLISHER = "tests.gateway.publishing_bank:PublishingBank"
TOKEN = "c" * 40
ROLES = ("ingress", "queries", "log", "consumers")
REFUSED = 25
LINES = [json.dumps({"add": -10_000 if number == REFUSED else number}) for number in range(1, 61)]
"""Line N is request N; the bank refuses one of them."""


class Truth:
    """What the cluster has, as a gateway tells it to grpcio."""

    def __init__(self, gateway: GatewayProcess, ca: Path, identity: str) -> None:
        self.identity = identity
        self._channel = grpc.secure_channel(gateway.address, grpc.ssl_channel_credentials(ca.read_bytes()))
        self._caller: dict[str, Any] = {"metadata": [("authorization", f"Bearer {TOKEN}")], "timeout": TIMEOUT_S}

    def accounts(self) -> Any:
        return json.loads(sequencer_of(self._channel).Query(pb.QueryRequest(), **self._caller).payload)

    def executed(self, count: int) -> list[tuple[int, int]]:
        """Number and position of the first requests of the log that are executed, and of any that follow at once."""
        wanted = pb.SubscribeRequest(kinds=["request"])
        found: list[tuple[int, int]] = []
        for batch in sequencer_of(self._channel).Subscribe(wanted, **self._caller):
            found += [(one.number, one.position) for one in batch.entries if one.identity.hex() == self.identity]
            if len(found) >= count:
                return found
        raise AssertionError(f"the log ends after {found}")

    def is_all_done(self, name: str, position: int) -> bool:
        """Whether nothing of a durable consumer is left to hand out, up to a position."""
        stub = ordo_pb2_grpc.ConsumersStub(self._channel)  # type: ignore[no-untyped-call]
        one = stub.DescribeConsumer(pb.DescribeConsumerRequest(name=name), **self._caller).consumer
        assert one.dead_count == 0
        return bool(one.position >= position and one.in_flight_count == one.waiting_count == 0)


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_client_loses_and_doubles_nothing(
    language: str, start_cluster: StartCluster, start_gateway: StartGateway, tmp_path: Path
) -> None:
    page = Page("GATEWAY.md")
    client = built(page, language)
    make_certificates(tmp_path)
    tokens = [{"principal": "clerk", "hash": hash_token(TOKEN), "roles": list(ROLES)}]
    cluster = start_cluster(PUBLISHER, tables={"tokens": tokens})
    await_level(cluster)
    tls = ("--certificate", str(tmp_path / "server.pem"), "--key", str(tmp_path / "server.key"))
    gateways = [start_gateway(cluster, *tls), start_gateway(cluster, *tls)]
    given = [",".join(one.address for one in gateways), TOKEN, str(tmp_path / "ca.pem")]
    names = [word.partition("=")[0] for word in page.take("sh", "ORDO_GATEWAYS").split()[1:]]
    environment = dict(zip(names, given, strict=True))
    file = tmp_path / "requests.identity"

    def start(output: str, *words: str) -> Any:
        return running(client, environment, tmp_path / output, *words)

    with start("watched", "watch", "balances", "1") as watcher, start("consumed", "consume", "billing") as consumer:
        with start("first", "submit", str(file)) as first:
            first.tell(LINES[:20])
            first.await_rows(20)
            consumer.await_rows(5)
            in_use = len(first.complaints()) % len(gateways)
            gateways.pop(in_use).kill()
            first.tell(LINES[20:35])
            first.await_rows(35)
            assert len(first.complaints()) % 2 != in_use, first.explain()
            cluster.kill(cluster.await_leader())
            first.tell(LINES[35:50])
            first.await_rows(40)
        with start("second", "submit", str(file)) as second:
            second.tell(LINES)
            assert second.process.stdin is not None
            second.process.stdin.close()
            assert second.process.wait(TIMEOUT_S) == 0, second.explain()
        truth = Truth(gateways[0], tmp_path / "ca.pem", file.read_text().split()[0])
        check_answers(first.rows(), second.rows(), truth)
        positions = [position for _, position in truth.executed(len(LINES))]
        watcher.await_rows(len(LINES) - 1)
        await_that(lambda: truth.is_all_done("billing", positions[-1]), "the consumer", TIMEOUT_S, consumer.explain)
        check_readers(watcher.rows(), consumer.rows(), positions)


def check_answers(first: list[list[str]], second: list[list[str]], truth: Truth) -> None:
    """Every request has one answer, which both runs were given; the log and the service have it once."""
    answers = {row[0]: row for row in first}
    assert {**answers, **{row[0]: row for row in second}} == {**{row[0]: row for row in second}, **answers}
    answers |= {row[0]: row for row in second}
    assert sorted(map(int, answers)) == list(range(1, len(LINES) + 1))
    assert answers[str(REFUSED)][1] == "refused"
    total = sum(range(1, len(LINES) + 1)) - REFUSED
    assert json.loads(answers[str(len(LINES))][2])["balance"] == total
    assert truth.accounts() == [{truth.identity: total}, len(LINES) - 1]
    assert [number for number, _ in truth.executed(len(LINES))] == list(range(1, len(LINES) + 1))


def check_readers(watched: list[list[str]], consumed: list[list[str]], positions: list[int]) -> None:
    """A watcher has each message once, in order; a consumer has each, and again only what is handed out again."""
    assert [int(row[0]) for row in watched] == list(range(1, len(LINES)))
    balances = [json.loads(row[1])["balance"] for row in watched]
    assert [after - before for before, after in zip([0, *balances], balances, strict=False)] == [
        number for number in range(1, len(LINES) + 1) if number != REFUSED
    ]
    assert {int(row[0]) for row in consumed} == set(positions)
    assert len({(row[0], row[1]) for row in consumed}) == len(consumed)
