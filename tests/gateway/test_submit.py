"""Requests through a gateway, to clusters of real processes: executed once and answered."""

from __future__ import annotations

import json
import os
from typing import Any

import grpc
import pytest

from service_api import ordo_pb2 as pb
from tests.cluster.integration.conftest import StartCluster
from tests.gateway.conftest import StartGateway, sequencer_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ADD = b'{"add": 1}'


def balance(answer: Any) -> int:
    return int(json.loads(answer.payload)["balance"])


def test_a_request_is_executed_once_however_often_it_is_sent(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = start_cluster(member_count=1)
    gateway = start_gateway(cluster)
    identity = os.urandom(16)
    with grpc.insecure_channel(gateway.address) as channel:
        sequencer = sequencer_of(channel)
        first = sequencer.Submit(pb.SubmitRequest(identity=identity, number=1, payload=ADD), timeout=20)
        again = sequencer.Submit(pb.SubmitRequest(identity=identity, number=1, payload=ADD), timeout=20)
        assert again == first
        assert first.log_position == json.loads(first.payload)["position"]
        second = sequencer.Submit(pb.SubmitRequest(identity=identity, number=2, payload=ADD, confirmed=1), timeout=20)
        assert (balance(first), balance(second)) == (1, 2)
        asked = sequencer.Query(pb.QueryRequest(payload=b""), timeout=20)
        assert json.loads(asked.payload) == [{identity.hex(): 2}, 2]
    assert gateway.stop() == 0
