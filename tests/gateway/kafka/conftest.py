"""Doors for Kafka's clients as processes of their own, in front of one cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ordo.deploy.launcher import LocalCluster
from ordo.runtime.security.tokens import hash_token
from tests.clusters import STEADY, ready_cluster
from tests.gateway.conftest import GatewayProcess

TOKEN = "t" * 40
BOUNDED_TOKEN = "b" * 40
BOUNDED_RATE = 100
ROLES = ["ingress", "queries", "topics"]
TABLES: Any = {
    "tokens": [
        {"principal": "billing", "hash": hash_token(TOKEN), "roles": ROLES},
        {"principal": "bounded", "hash": hash_token(BOUNDED_TOKEN), "roles": ROLES},
    ],
    "principals": [{"name": "bounded", "messages": BOUNDED_RATE}],
    "authentication": {"anonymous_roles": ["ingress", "queries"]},
}
NUMBERS = count(1)


class KafkaProcess(GatewayProcess):
    """`ordo kafka`."""

    command = "kafka"


StartDoor = Callable[..., KafkaProcess]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("kafka") / "cluster"
    with ready_cluster("ordo:Topics", root=root, tables=TABLES, heartbeat=STEADY) as started:
        yield started


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "billing.token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def start_door(cluster: LocalCluster, tmp_path: Path, token_file: str) -> Iterator[StartDoor]:
    """Starts doors whose clients need no token; they are ended after the test."""
    started: list[KafkaProcess] = []

    def start(*options: str, listen: str = "127.0.0.1:0") -> KafkaProcess:
        words = ("--token-file", token_file, *options)
        started.append(KafkaProcess(cluster, tmp_path / f"door-{len(started)}.log", *words, listen=listen))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop()  # and gives its lease up: clients of the next test are not sent to it


@pytest.fixture
def topic() -> str:
    return f"topic-{next(NUMBERS)}"
