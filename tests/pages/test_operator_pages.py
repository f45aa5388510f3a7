"""Pages whose commands end, damage or change members: a cluster of one, with tokens, for what operators do."""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import tomlkit

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.pages.background import in_background
from tests.patience import patient
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TOKEN = "t" * 40
ROLES = ["operator", "ingress", "queries", "log", "consumers", "administration"]
TABLES: Any = {"tokens": [{"principal": "root", "hash": hash_token(TOKEN), "roles": ROLES}]}
MEMBERS = ("10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000", "10.0.0.1:20000,10.0.0.2:20000", "10.0.0.1:20000")
OPERATIONS = "OPERATIONS.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    service = "tests.cluster.integration.poison:Totals"
    root = tmp_path_factory.mktemp("operator") / "cluster"
    with ready_cluster(service, root=root, tables=TABLES, member_count=1, sync="none") as started:
        yield started


@pytest.fixture
def folder(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run: with the member's node.toml and an operator's token."""
    (tmp_path / "node.toml").symlink_to(cluster.config_path(0))
    (tmp_path / "root.token").write_text(TOKEN)
    (tmp_path / "root.token").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_of(page: str, *words: str, without: str = "\n") -> list[str]:
    """The words of the one line of a page with these, not `without`; less `ordo`, comments and redirection."""
    (found,) = (
        line
        for text in Page(page).take_all("sh")
        for line in text.replace("\\\n", " ").splitlines()
        if all(word in line for word in words) and without not in line
    )
    name, *given = shlex.split(found.partition(" >")[0], comments=True)
    assert name == "ordo", found
    return given


def own(cluster: LocalCluster, words: list[str], **replaced: str) -> list[str]:
    """The words of a page with the addresses of the cluster."""
    given = {**dict.fromkeys(MEMBERS, cluster.ingress_endpoints[0]), **replaced}
    return [given.get(word, word) for word in words]


def client_of(cluster: LocalCluster) -> ClusterClient:
    return ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(credentials=TOKEN.encode()))


def count(cluster: LocalCluster) -> int:
    """How many messages the service has executed, which is asked once the member leads."""
    with client_of(cluster) as client:
        return int(client.request(b"1", timeout_s=patient(60)).payload.split()[0])


def test_orders_from_elsewhere(cluster: LocalCluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page in (OPERATIONS, "SECURITY.md"):
        words = own(cluster, line_of(page, "cluster snapshot", "--token-file"))
        assert run(words) == 0, words
    assert '"done": "snapshot taken"' in capsys.readouterr().out


def test_a_gateway_with_a_console(cluster: LocalCluster, folder: Path) -> None:
    listen, console = (str(port) for port in find_ports(2))
    addresses = {"10.0.0.9:0": "127.0.0.1:0", "10.0.0.9:50051": f"127.0.0.1:{listen}", "8080": console}
    plain = own(cluster, line_of("GATEWAY.md", "ordo gateway", "--listen", without="--workers"), **addresses)
    with in_background(plain, folder / "gateway.log"), grpc.insecure_channel(f"127.0.0.1:{listen}") as channel:
        stub = ordo_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
        metadata = [("authorization", f"Bearer {TOKEN}")]
        request = pb.LookAtMembersRequest()
        found = stub.LookAtMembers(request, metadata=metadata, timeout=patient(60), wait_for_ready=True)
        assert found.leader_member_id == 0
    watched = own(cluster, line_of("CONSOLE.md", "--console 8080"), **addresses)
    with in_background([*watched, "--listen", f"127.0.0.1:{listen}"], folder / "console.log"):

        def is_shown() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{console}/", timeout=5) as answer:
                    return b"<title>" in answer.read()
            except OSError:
                return False

        await_that(is_shown, "the page", 60)


def test_a_record_at_which_the_service_fails(
    cluster: LocalCluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = count(cluster)
    with client_of(cluster) as client:
        client.offer(b"two")
        assert cluster.wait(0, 60) == EXIT_STATUS_SERVICE
    capsys.readouterr()
    assert run(["errors", "--config", "node.toml"]) == 0
    (position,) = re.findall(r"raised in on_session_message at position (\d+)", capsys.readouterr().out)[:1]
    assert run(own(cluster, line_of(OPERATIONS, "cluster skip POSITION"), POSITION=position)) == 0
    cluster.start_member(0)
    assert count(cluster) == before + 1, "the record changed nothing"
    capsys.readouterr()
    assert run(line_of(OPERATIONS, "cluster skipped")) == 0
    assert f"{int(position):,}" in capsys.readouterr().out


def test_a_log_that_begins_anew_and_a_snapshot_that_is_not_wanted(
    cluster: LocalCluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = count(cluster)
    assert run(line_of(OPERATIONS, "cluster is-leader")) == 0
    assert run(line_of(OPERATIONS, "cluster shutdown")) == 0
    assert cluster.wait(0, 60) == 0
    changed = tomlkit.parse(cluster.config_path(0).read_text())
    changed["cluster"].update(log_term_length="128k", segment_length="4m")
    cluster.config_path(0).write_text(tomlkit.dumps(changed))
    assert run(line_of(OPERATIONS, "cluster renew-log")) == 0
    cluster.start_member(0)
    assert count(cluster) == before + 1

    assert run(own(cluster, line_of(OPERATIONS, "cluster snapshot", "--token-file"))) == 0
    cluster.stop(0)
    assert run(line_of(OPERATIONS, "cluster is-leader")) == 1
    held = line_of(OPERATIONS, "cluster snapshots --config")
    capsys.readouterr()
    assert run([*held, "--json"]) == 0
    *_, newest = json.loads(capsys.readouterr().out)
    assert run(line_of(OPERATIONS, "cluster invalidate-snapshot")) == 0
    capsys.readouterr()
    assert run([*line_of(OPERATIONS, "cluster recovery-plan"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["snapshot_position"] < newest["log_position"]
    cluster.start_member(0)
    assert count(cluster) == before + 2
