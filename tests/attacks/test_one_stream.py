"""A stranger with a single stream, full of messages that each take a member a while: they take little of its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ordo.archive.protocol.codes import CONTROL_STREAM_ID_DEFAULT
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID, INGRESS_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption
from ordo.transport.streams.publication import ExclusivePublication
from tests.attacks.test_sessions import leader_endpoint
from tests.cluster.integration.agreement import counter_of, demand_agreement
from tests.cluster.integration.conftest import PATIENT, StartCluster, start_cluster
from tests.cluster.integration.writer import Writer

__all__ = ["start_cluster"]
RATE, BURST = 1000, 256
"""Of strangers' messages in all that a member takes a second."""
ROUNDS = 40
NOWHERE = "aeron:udp?endpoint=127.0.0.1:9"
MESSAGES = {
    "operators": ordo_codecs.OPERATOR_CONNECT.encode(correlation_id=1, response_port=9, credentials=b""),
    "queries": ordo_codecs.QUERY.encode(
        cluster_session_id=77, correlation_id=1, min_position=2**63 - 1, consistency=0, payload=b""
    ),
    "connects": codecs.SESSION_CONNECT_REQUEST.encode(
        correlation_id=1,
        response_stream_id=102,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        response_channel=NOWHERE,
        encoded_credentials=b"",
        client_info="",
    ),
    "backups": codecs.BACKUP_QUERY.encode(
        correlation_id=1,
        response_stream_id=5,
        version=0,
        log_position=-1,
        response_channel=NOWHERE,
        encoded_credentials=b"",
    ),
    "nothing": bytes(16),
}


@contextmanager
def stream(
    cluster: LocalCluster, endpoint: str, stream_id: int
) -> Iterator[tuple[ExclusivePublication, ClientTransport]]:
    transport = ClientTransport.embedded(encryption=Encryption.chosen(**cluster.client_keys))
    try:
        channel = f"aeron:udp?endpoint={endpoint}|term-length=256k|interface=127.0.0.2"
        yield transport.client.add_exclusive_publication(channel, stream_id), transport
    finally:
        transport.close()


def refused(cluster: LocalCluster, leader: int) -> int:
    return counter_of(cluster, leader, CounterType.INVALID_REQUESTS)


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_stream_full_of_costly_messages_keeps_nobody_from_being_answered(
    start_cluster: StartCluster, is_encrypted: bool
) -> None:
    """Connects of operators in one stream kept a cluster from answering anybody for as long as they came."""
    cluster = start_cluster(encrypted=is_encrypted, cluster=PATIENT)
    leader, endpoint = leader_endpoint(cluster)
    host, _, port = endpoint.rpartition(":")
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer:
        writer.write(50)
        before, began_s = refused(cluster, leader), time.monotonic()
        doors = [
            (0, INGRESS_STREAM_ID, list(MESSAGES)),
            (1, CONSENSUS_STREAM_ID, ["backups", "nothing"]),
            (4, CONTROL_STREAM_ID_DEFAULT, ["nothing"]),
        ]
        for door_count, (offset, stream_id, kinds) in enumerate(doors, 1):
            with stream(cluster, f"{host}:{int(port) + offset}", stream_id) as (publication, transport):
                writer.run(lambda: transport.drive() > 0 and publication.is_connected, timeout_s=30)
                for kind in kinds:
                    for _ in range(ROUNDS):
                        while publication.offer(MESSAGES[kind]) > 0:
                            pass
                        transport.drive()
                        writer.write(2)
                    # Since the beginning: what was taken then is refused later, when a wait of it is over.
                    taken_max = RATE * (time.monotonic() - began_s) + door_count * BURST
                    assert refused(cluster, leader) - before <= taken_max, kind
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
    cluster.check_running()
