"""Pages whose snippets need a running cluster: each block runs as it stands there, with the test's own addresses.

One cluster serves all of them. MEMBERS.md comes last, because it takes a member away.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

import ordo
import ordo.errors
from examples.pricer import Pricer
from examples.to_sqlite import open_database
from ordo import ClusterClient, EntryKind
from ordo.cli import run
from ordo.cluster.container.service_loader import load_service
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.deploy.launcher import LocalCluster, find_ports
from ordo.errors import ClusterTimeoutError, OrdoError
from ordo.runtime.security.tokens import hash_token
from ordo.testing import Input, Message, OpenSession, check_service
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.gateway.conftest import GatewayProcess
from tests.pages.background import in_background
from tests.pages.configuration import load_with
from tests.patience import patient
from tests.sequencer.applications import Settling
from tests.snippets import Page, open_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SERVICE = "tests.pages.orders:Orders"
MEMBERS = '["10.0.0.1:20000", "10.0.0.2:20000", "10.0.0.3:20000"]'
PLACE = re.compile(r"10\.0\.0\.([123]):(20000|20004|9014)")
INGRESS = "tests/cluster/integration/test_ingress.py"
FORKED = "tests/ordo/test_forked_workers.py"
ORDERS_PAGE = "tests/pages/test_operator_pages.py"
SERVICE_VERSIONS = "tests/cluster/integration/test_service_versions.py"
RECOVER = "tests/cluster/integration/test_recover.py"
REPLICAS = "tests/cluster/integration/test_replicas_notice.py"
TRACING = "tests/cluster/integration/test_tracing.py"
APPLICATIONS = "tests/sequencer/test_real_applications.py"
ELECTED = "tests/sequencer/test_real_elected.py"
CANARY = "tests/sequencer/test_real_canary.py"
ORDERS = [b"buy 1", b"buy 2", b"buy 3"]


class EnoughError(Exception):
    """A program that goes on for ever has shown what it does."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Configured as the pages say."""
    pages = {name: settings_of(name) for name in ("RETENTION.md", "OPERATIONS.md")}
    tables = pages["RETENTION.md"] | {"archive": pages["OPERATIONS.md"]["archive"]}
    service = {**pages["OPERATIONS.md"]["service"], "versions": {"1": SERVICE, "2": SERVICE}}
    root = tmp_path_factory.mktemp("pages") / "cluster"
    more: Any = {"tables": {**tables, "service": service}, "cluster": {"ipc_ingress": True}}  # CLIENT.md
    with ready_cluster("", root=root, sync="none", **more) as started:
        yield started


@pytest.fixture
def folder(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with the leader's node.toml."""
    leader = cluster.await_leader(60)
    (tmp_path / "node.toml").write_bytes(cluster.config_path(leader).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings_of(name: str) -> dict[str, Any]:
    """The tables that a page shows."""
    tables: dict[str, Any] = {}
    for text in Page(name).take_all("toml"):
        tables |= tomlkit.parse(text).unwrap()
    return tables


def own(cluster: LocalCluster, text: str) -> str:
    """A snippet with the addresses of the cluster; 10.0.0.9 is the reader's own machine."""

    def place(match: re.Match[str]) -> str:
        host, _, port = cluster.ingress_endpoints[int(match[1]) - 1].rpartition(":")
        return f"{host}:{int(port) + (0 if match[2] == '20000' else 4)}"

    return PLACE.sub(place, text).replace("10.0.0.9", "127.0.0.1")


def words_of(text: str) -> Iterator[list[str]]:
    """The commands of a block, without `ordo`, comments and where the output goes."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, *words = shlex.split(line.partition(" >")[0], comments=True)
            assert name == "ordo", line
            yield words


def type_in(cluster: LocalCluster, text: str, *more: str, **replaced: str) -> None:
    """Runs every command of a block; each must succeed."""
    for words in words_of(own(cluster, text)):
        typed = [*(replaced.get(word, word) for word in words), *more]
        assert run(typed) == 0, typed


def endpoints_of(cluster: LocalCluster) -> str:
    return ",".join(cluster.ingress_endpoints.values())


@contextmanager
def running(cluster: LocalCluster, folder: Path, line: str) -> Iterator[None]:
    """An instance of an application, which the cluster knows of; its checkpoint is begun anew."""
    (words,) = words_of(own(cluster, line))
    place = words.index("--folder") + 1
    words[place] = tempfile.mkdtemp(dir=folder)
    words = [endpoints_of(cluster) if word == "$MEMBERS" else word for word in words]
    with in_background([*words, "--instance", Path(words[place]).name], Path(words[place]) / "app.log") as process:

        def is_known() -> bool:
            assert process.poll() is None, (Path(words[place]) / "app.log").read_text()
            with ConsumerOrders(list(cluster.ingress_endpoints.values())) as orders:
                return any(one["instance"] == Path(words[place]).name for one in orders.list_instances())

        await_that(is_known, "the instance", 60)
        yield


def names_of(cluster: LocalCluster, **more: Any) -> dict[str, Any]:
    """What the snippets of CLIENT.md take for granted."""
    public = {name: getattr(ordo, name) for name in ordo.__all__}
    return {**public, "endpoints": cluster.ingress_endpoints, "orders": ORDERS, **more}


def execute(program: str, names: dict[str, Any]) -> None:
    """Runs a program, which may await at its top level."""
    if "async with" in program:
        lines = "\n".join(f"    {line}" for line in program.splitlines())
        exec(f"async def main():\n{lines}", names)
        asyncio.run(names["main"]())
    else:
        exec(program, names)


def test_the_client_page(cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_page("CLIENT.md") as page:
        names = names_of(cluster)
        execute(own(cluster, page.take("python", "client.request(b")), names)
        assert names["answer"].payload == b"buy 40"
        assert [one.payload for one in names["answers"]] == ORDERS
        assert capsys.readouterr().out.startswith("there are not so many")
        execute(page.take("python", "client.request_stream"), names)
        check_the_services(page)
        check_the_repeats(page, cluster, names)
        execute(page.take("python", "def give_back"), names)
        assert names["client"].sequenced_position > 0
        names["client"].close()
        (tmp_path / "members").write_text("\n".join(cluster.ingress_endpoints.values()))
        check_the_sources(page, names, tmp_path, cluster)
        taken: list[bytes] = []
        execute(page.take("python", "offer_many"), {**names, "take": lambda payload, _: taken.append(payload)})
        check_the_feeds(page, cluster, names)
        gateway = GatewayProcess(cluster, tmp_path / "gateway.log")
        try:
            exec(page.take("python", "grpc.insecure_channel").replace("10.0.0.9:50051", gateway.address), names)
            assert names["answer"].payload == b"buy 40"
        finally:
            gateway.kill()
        execute(
            page.take("python", "aeron:ipc").replace(
                "/dev/shm/ordo-node0", str(cluster.aeron_dir(cluster.await_leader()))
            ),
            names,
        )
        with names["client"] as client:
            assert client.request(b"buy 40", timeout_s=patient(60)).payload == b"buy 40"
        page.run_by(f"{FORKED}::test_workers_that_open_their_own_as_the_page_has_it_are_served", "multiprocessing.Pool")
        page.run_by(f"{INGRESS}::test_clients_of_a_group_stay_when_leaders_die", "224.20.30.39")


def check_the_repeats(page: Page, cluster: LocalCluster, names: dict[str, Any]) -> None:
    """What is waited for again, sent again with an id, and made many at a time."""
    with ordo.ClusterClient(cluster.ingress_endpoints) as client:
        names = {**names, "client": client, "ClusterTimeoutError": ClusterTimeoutError, "OrdoError": OrdoError}
        execute(page.take("python", "late.pending.result"), names)
        execute(page.take("python", "as second"), names)
        assert names["again"].payload == b"buy 40"
        execute(page.take("python", "error.answers"), names)
        assert [one.payload for one in names["answers"]] == ORDERS


def check_the_services(page: Page) -> None:
    """The three classes, completed with what they take for granted."""
    inputs: list[Input] = [OpenSession(1, 1), Message(1, 2, b"buy 40"), Message(1, 3, b"sell 40")]
    given: Any = {"ClusteredService": ordo.ClusteredService, "Reject": ordo.Reject}
    exec(page.take("python", "raise Reject"), given)

    shop: Any = given["Orders"]

    class Shop(shop):  # type: ignore[misc]
        def has(self, payload: bytes) -> bool:
            return payload.startswith(b"buy")

        def buy(self, payload: bytes) -> bytes:
            return payload

    check_service(Shop, inputs)
    exec(page.take("python", "on_session_messages"), given)

    batches: Any = given["Orders"]

    class Batches(batches):  # type: ignore[misc]
        def execute(self, payload: bytes, timestamp: int) -> bytes:
            return payload

    check_service(Batches, inputs)
    exec(page.take("python", 'self.cluster.publish("trades"'), given)
    check_service(given["Engine"], inputs)


def check_the_sources(page: Page, names: dict[str, Any], folder: Path, cluster: LocalCluster) -> None:
    """Each line makes a client; the name stands for this machine, on which one member has the port."""

    class Registry:
        def find_members(self) -> dict[int, str]:
            return cluster.ingress_endpoints

    port = cluster.ingress_endpoints[0].rpartition(":")[2]
    program = page.take("python", "endpoints_from_dns").replace("orders.example.com:20000", f"localhost:{port}")
    for line in program.replace("/etc/ordo/members", str(folder / "members")).splitlines():
        with eval(line.partition("  #")[0], {**names, "my_registry": Registry()}) as client:
            assert client.request(b"buy 1", timeout_s=patient(60)).payload == b"buy 1"


def check_the_feeds(page: Page, cluster: LocalCluster, names: dict[str, Any]) -> None:
    shown: list[str] = []

    def show(*values: object) -> None:
        shown.append(" ".join(map(str, values)))
        raise EnoughError

    live = page.take("python", 'client.subscribe("trades")').replace('"trades"', '"trades", from_position=0')
    with pytest.raises(EnoughError):
        execute(live, {**names, "print": show})
    assert shown and shown[0].startswith("1 ")
    reading = page.take("python", "from_position=0").replace("...", "show(message)")
    with pytest.raises(EnoughError):
        execute(reading, {**names, "show": show})


def test_the_log_page(cluster: LocalCluster, folder: Path) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        end = client.request(b"buy 7").log_position
    with open_page("LOG.md") as page:
        page.run_by("tests/debugging/test_log_index.py::test_the_commands_of_the_log_page", "ordo debug index")
        type_in(cluster, page.take("sh"), "--until", str(end))
        handled: list[bytes] = []

        def remember(position: int) -> None:
            raise EnoughError

        program = own(cluster, page.take("python", "EntryKind"))
        names = {"handle": lambda session, timestamp, payload: handled.append(payload), "remember": remember}
        with pytest.raises(EnoughError):
            exec(program.replace("EntryKind.MESSAGE", "EntryKind.REQUEST"), names)
        assert handled and EntryKind.REQUEST.value in ("request",)

        def handle(sequence: int, position: int, payload: bytes) -> None:
            numbers.append(sequence)
            if position >= end:
                raise EnoughError

        numbers: list[int] = []
        numbered = own(cluster, page.take("python", "AtSequence")).replace("1_234_567", "1")
        with pytest.raises(EnoughError):
            exec(numbered, {"handle": handle})
        found = [one for one in numbers if one]
        assert found == sorted(set(found)) and found


def test_the_operations_page(cluster: LocalCluster, folder: Path) -> None:
    (folder / "root.token").write_text("t" * 40)
    (folder / "root.token").chmod(0o600)
    with open_page("OPERATIONS.md") as page:
        spare = folder / "spare"
        (port,) = find_ports(1)
        assert run(["init", str(spare), "--port", str(port), "--no-encryption"]) == 0
        for text in (page.take("sh", "--json for a program"), page.take("sh", "--reach 60")):
            for words in words_of(text.replace("--reach 60", "--reach 0.1")):
                done = run([word.replace("node.toml", str(spare / "node0.toml")) for word in words])
                assert done in ((0, 1) if "--reach" in words else (0,)), words  # nobody else is there to answer
        type_in(cluster, page.take("sh", "ordo cluster status --config"))
        type_in(cluster, page.take("sh", "ordo cluster wait"))
        page.run_by(
            f"{ORDERS_PAGE}::test_a_log_that_begins_anew_and_a_snapshot_that_is_not_wanted",
            "ordo cluster snapshots",
            "renew-log",
        )
        status, _ = page.take("sh", "ordo cluster snapshot").splitlines()
        type_in(cluster, status)
        page.run_by(f"{ORDERS_PAGE}::test_orders_from_elsewhere")  # the other line
        type_in(cluster, page.take("sh", "ordo top"), "--once", "--interval", "0.1")
        assert cluster.await_leader() >= 0
        page.run_by(f"{RECOVER}::test_one_member_goes_on_and_whoever_knows_more_is_told", "recover --config")
        page.run_by(f"{ORDERS_PAGE}::test_a_record_at_which_the_service_fails", "ordo cluster skip POSITION")
        page.run_by(
            "tests/cli/test_log_settings.py::test_the_log_follows_its_settings_while_the_node_runs", "kill -USR1 PID"
        )
        tokens = "".join(
            f'[[tokens]]\nprincipal = "{one}"\nhash = "{hash_token(one * 8)}"\nroles = ["ingress"]\n'
            for one in ("risk", "market-maker")
        )
        texts = page.take_all("toml")
        loaded = [load_with(folder, text + tokens if "[[principals]]" in text else text) for text in texts]
        assert [one.metrics.port for one in loaded if one.metrics.port] == [20009]
        page.run_by("tests/deploy/test_prometheus.py::test_health_and_metrics_of_real_nodes")
        page.run_by(f"{TRACING}::test_every_span_of_every_request_comes_with_the_clients_as_its_parent")


def test_the_pages_on_retention_and_upgrades(cluster: LocalCluster, folder: Path) -> None:
    with open_page("UPGRADES.md") as page:
        (service,) = tomlkit.parse(page.take("toml")).unwrap().values()
        assert all(load_service(name) for name in service["versions"].values())
        type_in(cluster, page.take("sh"))
        page.run_by(f"{SERVICE_VERSIONS}::test_one_service_goes_over_and_the_other_has_no_code_for_it", "--service 1")
    with open_page("RETENTION.md") as page:
        assert set(tomlkit.parse(page.take("toml")).unwrap()) == {"snapshot", "retention"}  # the cluster has them
        type_in(cluster, page.take("sh", "evidence"))
        page.run_by(f"{REPLICAS}::test_hashes_show_a_difference_between_snapshots", "diff")
        names: dict[str, Any] = {"ClusteredService": ordo.ClusteredService}
        exec(page.take("python"), names)
        check_service(whole_ledger(names["Ledger"]), [OpenSession(1, 1), Message(1, 2, b"x")])


def whole_ledger(shown: Any) -> Any:
    """The page's class with what it leaves out."""

    class Ledger(shown):  # type: ignore[misc]
        digest = b""

        def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
            self.digest = hashlib.sha256(self.digest + payload).digest()

        def on_start(self, cluster: Any, snapshot: Any) -> None:
            self.digest = b"" if snapshot is None else snapshot.read()

        def on_take_snapshot(self, writer: Any) -> None:
            writer.write(self.digest)

    return Ledger


def test_commands_of_the_consumers_page(cluster: LocalCluster, folder: Path) -> None:
    with ClusterClient(cluster.ingress_endpoints) as client:
        client.request(b"buy 7")
    with ordo.Consumer(list(cluster.ingress_endpoints.values()), "risk") as consumer:
        database = open_database(str(folder / "messages.db"), "risk")
        storing = Page("CONSUMERS.md").take("python", "BEGIN IMMEDIATE")
        names: dict[str, Any] = {"database": database, "name": "risk", "consumer": consumer}
        exec(storing, names)
        entry = names["entries"][0]
        exec(storing, {**names, "next": lambda _: entry})  # handed out again, and stored once
        positions = [row[0] for row in database.execute("SELECT position FROM messages")]
        assert positions.count(entry.position) == 1
        database.close()
    with open_page("CONSUMERS.md") as page:
        type_in(cluster, page.take("sh"), **{"123456": "0"})
        test = "tests/sequencer/test_consumers_page.py::test_the_programs_of_the_page_run"
        page.run_by(test, "with Consumer", "with SharedConsumer", "async with AsyncConsumer")
        page.take("python", "BEGIN IMMEDIATE")  # above


def test_the_applications_page(cluster: LocalCluster, folder: Path) -> None:
    with open_page("APPLICATIONS.md") as page:
        first = page.take("sh", "ordo node --config")
        started, *_ = (line for line in first.splitlines() if line.startswith("ordo app "))
        with running(cluster, folder, started):
            with ClusterClient(cluster.ingress_endpoints) as client:
                end = client.request(b"gold 100").log_position
            asking, names = page.take("python", 'group="pricing"'), names_of(cluster, json=json)

            def is_answered() -> bool:
                try:
                    exec(asking, names)
                except ordo.errors.OrdoError:
                    return False
                return bool(names["prices"].get("gold") == 100)

            await_that(is_answered, "the price", 60)
            log, apps = (line for line in first.splitlines() if line.startswith(("ordo log", "ordo apps")))
            type_in(cluster, log, "--until", str(end))
            type_in(cluster, apps, **{"$MEMBERS": endpoints_of(cluster)})
            with running(cluster, folder, page.take("sh", "--mode canary")):
                page.run_by(
                    f"{CANARY}::test_a_canary_that_is_killed_goes_on_and_tells_every_difference", "app.difference"
                )
                type_in(cluster, page.take("sh", "ordo app diff"))
                type_in(cluster, page.take("sh", "ordo apps --endpoints"))
        with running(cluster, folder, page.take("sh", "--mode active-passive")):
            page.run_by(f"{ELECTED}::test_others_take_over_when_the_active_one_ends_or_is_killed")
        upgraded, order = page.take("sh", "ordo app upgrade").splitlines()
        for version in ("v1", "v2"):
            upgraded = upgraded.replace(f"pricing.{version}:", "examples.pricer:")
        with running(cluster, folder, upgraded):
            type_in(cluster, order, **{"$MEMBERS": endpoints_of(cluster)})
        (port,) = find_ports(1)
        archive, leaves = page.take("sh", "archive serve").replace("10.0.0.9:8010", f"127.0.0.1:{port}").splitlines()
        (words,) = words_of(archive)
        served = in_background([*words, "--aeron-dir", str(folder / "aeron")], folder / "archive.log")
        with served, running(cluster, folder, leaves):
            page.run_by(f"{APPLICATIONS}::test_three_instances_one_killed_one_stopped")
        exec(page.take("python", "class Pricer"), names)
        whole = type("Whole", (names["Pricer"], Pricer), {})  # with what the page leaves out
        check_service(whole, [OpenSession(1, 1), Message(1, 2, b"gold 100"), Message(1, 3, b"gold 150")])
        check_settlements(page.take("python", "class Settlement"), names)


def check_settlements(program: str, names: dict[str, Any]) -> None:
    """Each order is settled; what a cluster makes of the ids, tests of its own show."""
    exec(program, names)
    whole = type("Whole", (names["Settlement"], Settling), {})
    asked = [Message(1, 2, b"4711 40"), Message(1, 3, b"4711 40"), Message(1, 4, b"4712 5")]
    found = check_service(whole, [OpenSession(1, 1), *asked])
    written = [bytes(one.value) for one in found.effects if one.kind == "offer"]
    assert written == [b"settle 4711", b"settle 4711", b"settle 4712"]


def test_a_client_in_the_network_of_containers(cluster: LocalCluster) -> None:
    names: dict[str, Any] = {}
    members = ", ".join(f'"{one}"' for one in cluster.ingress_endpoints.values())
    program = Page("DEPLOYMENT.md").take("python", "import socket")
    execute(program.replace('"node0:20000", "node1:20000", "node2:20000"', members), names)
    with names["client"] as client:
        assert client.request(b"buy 40", timeout_s=patient(60)).payload == b"buy 40"


def test_the_members_page(cluster: LocalCluster, folder: Path) -> None:
    with open_page("MEMBERS.md") as page:
        type_in(cluster, page.take("sh", "ordo cluster list"))
        learner = cluster.add_member()
        type_in(cluster, page.take("sh", "add-learner"), **{"3=127.0.0.1:20000": cluster.new_member(learner)})
        cluster.start_member(learner)
        remove, promote = page.take("sh", "promote").splitlines()
        leader = cluster.await_leader(60)
        goes = next(one for one in (2, 1) if one != leader)
        type_in(cluster, remove, **{"2": str(goes)})
        await_that(lambda: run(shlex.split(promote, comments=True)[1:]) == 0, "the learner's vote", 60)
