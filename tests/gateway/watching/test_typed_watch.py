"""A watch of a real log whose messages come as JSON, by the schema that the leader wrote into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ordo import ClientSettings, ClusterClient, LogSchemas, schemas_of
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.schema_banks import Deposit
from tests.cluster.integration.test_schemas import archives
from tests.clusters import await_level, ready_cluster
from tests.gateway.conftest import GatewayProcess
from tests.gateway.console.conftest import console_of
from tests.gateway.watching.conftest import Events
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
BANK = "tests.cluster.integration.schema_banks:BankV1"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LocalCluster]:
    with ready_cluster(BANK, root=tmp_path / "cluster", member_count=1, sync="none") as cluster:
        yield cluster


def test_messages_come_as_json(bank: LocalCluster, tmp_path: Path) -> None:
    with ClusterClient(bank.ingress_endpoints, settings=ClientSettings(message_timeout_s=patient(30))) as client:
        client.request(Deposit(1, 100))
        await_level(bank)
        await_that(lambda: len(schemas_of(archives(bank))) == 1, "the schema is in the log")
        client.request(Deposit(2, 1 << 60))
    found = schemas_of(archives(bank))
    behind = LogSchemas()
    behind.searched_to = found.searched_to
    assert len(schemas_of(archives(bank), known=found)) == 1
    assert len(schemas_of(archives(bank), known=behind)) == 0, "it is looked for behind what is known alone"
    gateway = GatewayProcess(bank, tmp_path / "gateway.log", "--console", "0", "--decoder", "log")
    try:
        with closing(Events(console_of(gateway), "/api/log?decode=xml", token="")) as refused:
            assert refused.status == 400
            assert refused.refusal() == "decode=xml: must be log, for the schemas that the log has, or left out"
        with closing(Events(console_of(gateway), "/api/log?from=1&decode=log", token="")) as events:
            front, later = events.take(2)
        assert "is in the log from position" in front["problem"] and "payload" in front
        said: dict[str, Any] = {"account": 2, "cents": str(1 << 60)}
        assert later["message"] == {"name": "Deposit", "version": 0, "values": said}
    finally:
        gateway.kill()
