"""A cluster that publishes and asks for tokens, and a gateway with a console in front of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ordo.deploy.launcher import LocalCluster
from ordo.runtime.security.tokens import hash_token
from tests.clusters import ready_cluster
from tests.gateway.conftest import GatewayProcess
from tests.gateway.console.conftest import OPERATOR, TOKENS, TRADER, submit
from tests.patience import patient

__all__ = ["OPERATOR", "TRADER", "VIEWER", "submit"]
PUBLISHER = "tests.gateway.publishing_bank:PublishingBank"
VIEWER = "v" * 40
VIEWS: dict[str, Any] = {"principal": "viewer", "hash": hash_token(VIEWER), "roles": ["topic:balances"]}
SUBSCRIPTIONS_MAX = 8


@pytest.fixture(scope="module")
def publishing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("watching") / "cluster"
    tokens = [*TOKENS, VIEWS]
    with ready_cluster(PUBLISHER, root=root, member_count=1, sync="none", tables={"tokens": tokens}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def gateway(publishing: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    token = folder / "trader.token"
    token.write_text(TRADER)
    options = ("--token-file", str(token), "--console", "0", "--subscriptions-max", str(SUBSCRIPTIONS_MAX))
    started = GatewayProcess(publishing, folder / "gateway.log", *options)
    yield started
    if started.process.poll() is None:
        started.kill()


class Events:
    """A stream of server-sent events, read as it comes."""

    def __init__(self, address: str, path: str, token: str = VIEWER, **headers: str) -> None:
        """`headers` with _ for -."""
        self._connection = http.client.HTTPConnection(address, timeout=patient(30))
        own = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request(
            "GET", path, headers=own | {name.replace("_", "-"): value for name, value in headers.items()}
        )
        self.response = self._connection.getresponse()
        self.status = self.response.status
        self.last_id = ""

    def refusal(self) -> str:
        return str(json.loads(self.response.read())["error"])

    def next(self) -> tuple[str, Any]:
        """The next event, of whatever name, and its data; ("", None) at the end of the stream."""
        name, data = "", None
        while line := self.response.readline().decode().rstrip("\n"):
            key, _, value = line.partition(": ")
            if key == "id":
                self.last_id = value
            elif key == "event":
                name = value
            elif key == "data":
                data = json.loads(value)
        return name, data

    def take(self, count: int) -> list[Any]:
        """The data of so many messages."""
        found: list[Any] = []
        while len(found) < count:
            name, data = self.next()
            assert name in ("begin", "message"), (name, data)
            if name == "message":
                found.append(data)
        return found

    def close(self) -> None:
        self.response.close()
        self._connection.close()
