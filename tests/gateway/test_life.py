"""A gateway's life: without a cluster, with certificates, and what its command says of mistakes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ordo.service_api import ordo_pb2 as pb
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import BANK, LendCluster, StartCluster
from tests.gateway.conftest import StartGateway, sequencer_of
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ADD = b'{"add": 1}'
ENDPOINTS = ("--endpoints", "127.0.0.1:20000")


def status_of(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        checked = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=patient(10))
        return int(checked.status)


def await_status(address: str, wanted: int) -> None:
    deadline_s = time.monotonic() + patient(40)
    while status_of(address) != wanted:
        assert time.monotonic() < deadline_s, f"the status does not become {wanted}"
        time.sleep(0.1)


def test_without_a_leader_it_does_not_serve_and_says_what_became_of_requests(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = start_cluster(member_count=1)
    gateway = start_gateway(cluster)
    request = pb.SubmitRequest(identity=os.urandom(16), number=1, payload=ADD)
    with grpc.insecure_channel(gateway.address) as channel:
        sequencer_of(channel).Submit(request, timeout=patient(20))
        await_status(gateway.address, health_pb2.HealthCheckResponse.SERVING)
        cluster.kill(0)
        await_status(gateway.address, health_pb2.HealthCheckResponse.NOT_SERVING)
        request.number = 2
        with pytest.raises(grpc.RpcError) as refused:
            sequencer_of(channel).Submit(request, timeout=patient(2))
        assert refused.value.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
        assert "nothing was sent" in refused.value.details() or "nothing was executed" in refused.value.details()


@pytest.mark.usefixtures("executed_nodes")
def test_a_gateway_that_is_executed_as_users_do_serves_and_ends(
    lend_cluster: LendCluster, start_gateway: StartGateway
) -> None:
    gateway = start_gateway(lend_cluster(BANK, member_count=1))
    assert isinstance(gateway.process, subprocess.Popen), "it is not forked"
    await_status(gateway.address, health_pb2.HealthCheckResponse.SERVING)
    assert gateway.stop() == 0


def test_a_gateway_with_certificates_lets_in_only_who_has_one(
    lend_cluster: LendCluster, start_gateway: StartGateway, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    cluster = lend_cluster(BANK, member_count=1)
    words = ("--certificate", "server.pem", "--key", "server.key", "--client-ca", "ca.pem")
    gateway = start_gateway(cluster, *(str(tmp_path / one) if "." in one else one for one in words))
    ca, key, certificate = ((tmp_path / one).read_bytes() for one in ("ca.pem", "client.key", "client.pem"))
    request = pb.SubmitRequest(identity=os.urandom(16), number=1, payload=ADD)
    known = grpc.ssl_channel_credentials(ca, key, certificate)
    with grpc.secure_channel(gateway.address, known) as channel:
        assert sequencer_of(channel).Submit(request, timeout=patient(20)).log_position > 0
    with grpc.secure_channel(gateway.address, grpc.ssl_channel_credentials(ca)) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            sequencer_of(channel).Submit(request, timeout=patient(5))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def make_certificates(folder: Path) -> None:
    """An authority, and a server and a client that it signed."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--endpoints", ""), "endpoints"),
        ((*ENDPOINTS, "--certificate", "/there/is/none"), "certificate and its key"),
        ((*ENDPOINTS, "--client-ca", "x"), "only with TLS"),
        ((*ENDPOINTS, "--certificate", "/no", "--key", "/no"), "cannot be read"),
        ((*ENDPOINTS, "--requests-max", "0"), "requests_max=0"),
        ((*ENDPOINTS, "--listen", "127.0.0.1:99999"), "--listen"),
        (("--endpoints", "nowhere", "--listen", "127.0.0.1:0"), "host:port"),
    ],
)
def test_mistakes_are_one_line(options: tuple[str, ...], word: str) -> None:
    demand_one_line(ordo("gateway", *options, timeout_s=60), 2, word)
