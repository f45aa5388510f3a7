"""Requests through a gateway, to clusters of real processes: executed once and answered."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import grpc
import pytest

from ordo.service_api import ordo_pb2 as pb
from tests.cluster.integration.conftest import BANK, LendCluster
from tests.gateway.conftest import StartGateway, sequencer_of
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ADD = b'{"add": 1}'


def balance(answer: Any) -> int:
    return int(json.loads(answer.payload)["balance"])


def test_a_request_is_executed_once_however_often_it_is_sent(
    lend_cluster: LendCluster, start_gateway: StartGateway
) -> None:
    cluster = lend_cluster(BANK, member_count=1)
    gateway = start_gateway(cluster)
    identity = os.urandom(16)
    with grpc.insecure_channel(gateway.address) as channel:
        sequencer = sequencer_of(channel)
        first = sequencer.Submit(pb.SubmitRequest(identity=identity, number=1, payload=ADD), timeout=patient(20))
        again = sequencer.Submit(pb.SubmitRequest(identity=identity, number=1, payload=ADD), timeout=patient(20))
        assert again == first
        assert first.log_position == json.loads(first.payload)["position"]
        second = sequencer.Submit(
            pb.SubmitRequest(identity=identity, number=2, payload=ADD, confirmed=1), timeout=patient(20)
        )
        assert (balance(first), balance(second)) == (1, 2)
        assert second.sequence == first.sequence + 1
        asked = sequencer.Query(pb.QueryRequest(payload=b""), timeout=patient(20))
        assert json.loads(asked.payload) == [{identity.hex(): 2}, 2]
    assert gateway.stop() == 0


def test_an_id_is_executed_once_whatever_its_identity_and_says_what_became_of_it(
    lend_cluster: LendCluster, start_gateway: StartGateway
) -> None:
    cluster = lend_cluster(BANK, member_count=1)
    gateway = start_gateway(cluster)
    with grpc.insecure_channel(gateway.address) as channel:
        sequencer = sequencer_of(channel)

        def submit(payload: bytes, request_id: bytes, number: int = 1, identity: bytes = b"") -> Any:
            request = pb.SubmitRequest(
                identity=identity or os.urandom(16), number=number, payload=payload, id=request_id
            )
            return sequencer.Submit(request, timeout=patient(20))

        await_ids(lambda: submit(ADD, b"payment 1"))
        first = submit(ADD, b"payment 1")
        assert balance(first) == 1
        for payload, request_id, code, outcome in (
            (b'{"add": 2}', b"payment 1", grpc.StatusCode.INVALID_ARGUMENT, "not executed"),
            (b'{"add": -9}', b"payment 2", grpc.StatusCode.FAILED_PRECONDITION, "executed"),
            (b'{"add": -9}', b"payment 2", grpc.StatusCode.FAILED_PRECONDITION, "executed"),
            (ADD, b"x" * 65, grpc.StatusCode.INVALID_ARGUMENT, "not executed"),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                submit(payload, request_id)
            said = dict(refused.value.trailing_metadata())
            assert (refused.value.code(), said["ordo-outcome"]) == (code, outcome)
        stream = sequencer.SubmitStream(
            iter(
                [pb.SubmitBatch(identity=os.urandom(16), number=1, payloads=[ADD] * 3, ids=[b"payment 1", b"", b"s"])]
            ),
            timeout=patient(20),
        )
        answers = [json.loads(payload)["balance"] for batch in stream for payload in batch.payloads]
        assert answers == [1, 1, 2]
        asked = sequencer.Query(pb.QueryRequest(payload=b""), timeout=patient(20))
        assert json.loads(asked.payload)[1] == 3
    assert gateway.stop() == 0


def await_ids(submit: Any) -> None:
    """A cluster that has begun a moment ago takes no ids yet, and says so."""
    deadline_s = time.monotonic() + patient(30)
    while True:
        try:
            submit()
            return
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED and time.monotonic() < deadline_s, error
            time.sleep(0.1)
