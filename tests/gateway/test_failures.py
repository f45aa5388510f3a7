"""Leaders and gateways that are killed, and gateways that are stopped, while callers make requests."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from ordo.service_api import ordo_pb2 as pb
from tests.cluster.integration.conftest import BANK, LendCluster, StartCluster
from tests.gateway.conftest import GatewayProcess, StartGateway, sequencer_of
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ADD = b'{"add": 1}'
TIMEOUT_S = patient(20.0)


def submit(gateways: list[GatewayProcess], identity: bytes, number: int) -> Any:
    """What a caller does: it asks one gateway after the other with the same number until one has the answer."""
    request = pb.SubmitRequest(identity=identity, number=number, payload=ADD, confirmed=number - 1)
    for attempt in range(20):
        with grpc.insecure_channel(gateways[attempt % len(gateways)].address) as channel:
            try:
                return sequencer_of(channel).Submit(request, timeout=TIMEOUT_S)
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), error
    raise AssertionError("no gateway has the answer")


def accounts(gateway: GatewayProcess) -> Any:
    with grpc.insecure_channel(gateway.address) as channel:
        return json.loads(sequencer_of(channel).Query(pb.QueryRequest(), timeout=TIMEOUT_S).payload)


def test_requests_are_executed_once_when_the_leader_and_a_gateway_are_killed(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = start_cluster()
    gateways = [start_gateway(cluster), start_gateway(cluster)]
    identity = os.urandom(16)
    answers = [submit(gateways, identity, number) for number in range(1, 4)]
    cluster.kill(cluster.await_leader())
    answers += [submit(gateways, identity, number) for number in range(4, 7)]
    gateways[0].kill()
    assert submit(gateways, identity, 6) == answers[5], "the answer that the killed gateway has given"
    answers += [submit(gateways, identity, number) for number in range(7, 10)]
    assert [json.loads(one.payload)["balance"] for one in answers] == list(range(1, 10))
    assert accounts(gateways[1]) == [{identity.hex(): 9}, 9]


def test_a_stream_goes_on_when_the_leader_is_killed(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = start_cluster()
    gateway = start_gateway(cluster)
    identity, count = os.urandom(16), 3000
    numbers: list[int] = []

    def batches() -> Iterator[pb.SubmitBatch]:
        for number in range(1, count, 10):
            confirmed = max(numbers[-1] - 1, 0) if numbers else 0
            yield pb.SubmitBatch(identity=identity, number=number, payloads=[ADD] * 10, confirmed=confirmed)
            if number == 1001:
                cluster.kill(cluster.await_leader())

    with grpc.insecure_channel(gateway.address) as channel:
        for batch in sequencer_of(channel).SubmitStream(batches()):
            for number, payload in enumerate(batch.payloads, batch.number):
                assert json.loads(payload)["balance"] == number
                numbers.append(number)
    assert numbers == list(range(1, count + 1))
    assert accounts(gateway) == [{identity.hex(): count}, count]


def test_a_gateway_that_stops_answers_what_it_took(lend_cluster: LendCluster, start_gateway: StartGateway) -> None:
    cluster = lend_cluster(BANK, member_count=1)
    gateway = start_gateway(cluster)
    identity = os.urandom(16)
    answered = 0
    stopping, heard = threading.Event(), threading.Event()

    def batches() -> Iterator[pb.SubmitBatch]:
        for number in range(1, 1_000_000):
            if stopping.is_set():
                heard.wait(TIMEOUT_S)  # who still sends when the connection closes may not hear why
                return
            yield pb.SubmitBatch(identity=identity, number=number, payloads=[ADD], confirmed=max(answered - 1, 0))

    with grpc.insecure_channel(gateway.address) as channel:
        stream = sequencer_of(channel).SubmitStream(batches())
        with pytest.raises(grpc.RpcError) as ended:
            for batch in stream:
                answered = batch.number + len(batch.payloads) - 1
                if answered > 50 and gateway.process.poll() is None and not gateway.events("gateway.stopping"):
                    stopping.set()
                    gateway.process.terminate()
                    gateway.await_event("gateway.stopping")
    heard.set()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "the gateway stops" in ended.value.details()
    assert gateway.process.wait(patient(20)) == 0
    assert accounts(start_gateway(cluster)) == [{identity.hex(): answered}, answered]
