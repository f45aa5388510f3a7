"""docs/CONSUMERS.md: its programs run as they stand there, and its tests are there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from tests.clusters import ready_cluster
from tests.snippets import texts_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "CONSUMERS.md").read_text()
PROGRAMS = [program for program in texts_of(PAGE, "python") if "from ordo import" in program]
MEMBERS = '["10.0.0.1:20000", "10.0.0.2:20000", "10.0.0.3:20000"]'


class EnoughError(Exception):
    """The program has shown what it does."""


class Shop:
    """What the programs of the page hand messages to; every second one fails once."""

    def __init__(self, count: int) -> None:
        self.handled: list[bytes] = []
        self._count = count
        self._failed: set[bytes] = set()

    def handle(self, payload: bytes) -> None:
        if payload.endswith(b"odd") and payload not in self._failed:
            self._failed.add(payload)
            raise OSError("not now")
        self.handled.append(payload)
        if len(self.handled) == self._count:
            raise EnoughError

    async def store(self, payload: bytes) -> None:
        await asyncio.sleep(0)
        self.handled.append(payload)
        if len(self.handled) == self._count:
            raise EnoughError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("page") / "cluster"
    with ready_cluster("ordo:Ordering", root=root, member_count=1) as cluster:
        yield cluster


def run(program: str, cluster: LocalCluster, shop: Shop) -> None:
    endpoints = list(cluster.ingress_endpoints.values())
    assert MEMBERS in program
    text = program.replace(MEMBERS, repr(endpoints)).replace("delay_s=5", "delay_s=0.2")
    names: dict[str, Any] = {"handle": shop.handle, "store": shop.store}
    with pytest.raises(EnoughError):
        exec(text, names)


@pytest.mark.slow
def test_the_programs_of_the_page_run(cluster: LocalCluster) -> None:
    exclusive, shared, in_asyncio = PROGRAMS
    with ClusterClient(cluster.ingress_endpoints) as client:
        for number in range(4):
            client.send(b"%d" % number, until="sequenced")
    shop = Shop(4)
    run(exclusive, cluster, shop)
    assert shop.handled == [b"0", b"1", b"2", b"3"]
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.send(b"odd", until="sequenced")
    shop = Shop(5)
    run(shared, cluster, shop)
    assert sorted(shop.handled) == [b"0", b"1", b"2", b"3", b"odd"]
    for program in (in_asyncio, in_asyncio.replace("asyncio.run(follow())", "asyncio.run(work())")):
        shop = Shop(1)
        run(program, cluster, shop)


def test_the_tests_that_the_page_names_are_there() -> None:
    names = re.findall(r"`(?:([\w/]+)/)?(test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(names) >= 16
    for folder, file, name in names:
        path = ROOT / "tests" / (folder or "sequencer") / file
        assert re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE), f"{path}: no {name}"
