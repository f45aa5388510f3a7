"""A cluster with tokens, and a gateway with a console in front of it."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
import pytest

from ordo.deploy.launcher import LocalCluster
from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2 as pb
from tests.cluster.integration.conftest import BANK
from tests.clusters import PATIENT, ready_cluster
from tests.gateway.conftest import GatewayProcess, sequencer_of
from tests.patience import patient

OPERATOR, TRADER, PROGRAM = "o" * 40, "t" * 40, "p" * 40
TOKENS: list[dict[str, Any]] = [
    {"principal": "root", "hash": hash_token(OPERATOR), "roles": ["operator", "consumers", "administration", "log"]},
    {"principal": "program", "hash": hash_token(PROGRAM), "roles": ["ingress", "consumers", "log"]},
    {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress", "queries"]},
]
DECODER = "tests.gateway.console.conftest:decode"


def decode(payload: bytes) -> Any:
    """What the consoles of these tests show of a payload."""
    return {"amount": json.loads(payload)["add"]}


def submit(gateway: GatewayProcess, count: int) -> None:
    """So many requests of a new identity."""
    identity = os.urandom(16)
    with grpc.insecure_channel(gateway.address) as channel:
        for number in range(1, count + 1):
            request = pb.SubmitRequest(
                identity=identity, number=number, confirmed=number - 1, payload=b'{"add": %d}' % number
            )
            metadata = [("authorization", f"Bearer {TRADER}")]
            sequencer_of(channel).Submit(request, metadata=metadata, timeout=patient(20))


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Browser:
    """Asks a console as a browser does: with the cookie that it was given, and headers of the console's own page."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.cookie = ""

    def ask(self, path: str, body: Any = None, **headers: str) -> Reply:
        """`headers` with _ for -; an empty one is left out."""
        connection = http.client.HTTPConnection(self.address, timeout=patient(30))
        own = {"Cookie": self.cookie, "X-Ordo-Console": "" if body is None else "1"}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        method, encoded = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        try:
            connection.request(method, path, encoded, {name: value for name, value in own.items() if value})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        found = dict(response.getheaders())
        if "Set-Cookie" in found:
            self.cookie = found["Set-Cookie"].partition(";")[0]
        is_json = "json" in found.get("Content-Type", "")
        return Reply(response.status, found, json.loads(text) if is_json else text.decode())

    def log_in(self, token: str = OPERATOR) -> Reply:
        return self.ask("/api/login", {"token": token})


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three members that ask for tokens; one stays the leader unless the module has another HEARTBEAT."""
    heartbeat = getattr(request.module, "HEARTBEAT", PATIENT)
    root = tmp_path_factory.mktemp("console") / "cluster"
    options: dict[str, Any] = {"sync": "none", "tables": {"tokens": TOKENS}, "cluster": {"arrival_time": True}}
    with ready_cluster(BANK, root=root, heartbeat=heartbeat, **options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def gateway(guarded: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    token, log_path = folder / "trader.token", folder / "gateway.log"
    token.write_text(TRADER)
    options = ("--token-file", str(token), "--console", "0", "--console-name", "ordo.example", "--decoder", DECODER)
    started = GatewayProcess(guarded, log_path, *options)
    yield started
    if started.process.poll() is None:
        started.kill()


@pytest.fixture
def browser(gateway: GatewayProcess) -> Browser:
    return Browser(console_of(gateway))


def console_of(gateway: GatewayProcess) -> str:
    """host:port of a gateway's console."""
    return str(gateway.await_event("gateway.console")["address"])
