"""What a checkout installs (`make build`) is typed for its users: mypy --strict and pyright, in their own folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from ordo.archive.client.settings import ArchiveClientOptions, ArchiveClientSettings
from ordo.cluster.wire import ordo_codecs
from ordo.follow.entries import _KINDS, AppVersionChange
from ordo.follow.entry_values import EntryValues, SchemaValues
from tests.patience import patient

ROOT = Path(__file__).parents[2]
PYRIGHT = "pyright@1.1.414"
FETCH_TIMEOUT_S, CHECK_TIMEOUT_S = 200, 300
GOOD = """
from typing import assert_type

from ordo import (
    Answer, AsyncClusterClient, ArchiveClient, ClientSession, Cluster, ClusterClient, ClusteredService, Consumer,
    EntryKind, Header, LogReader, PendingRequest, Reject, Request, SnapshotReader, SnapshotWriter, TypedService,
    handles, message,
)
from ordo.errors import OrdoError, RejectedError
from ordo.messages import UInt32
from ordo.testing import LocalCluster, check_service


class Counter(ClusteredService):
    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.total = int(snapshot.read()) if snapshot else 0

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if not payload:
            raise Reject("empty")
        assert_type(header.position, int)
        return payload

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"1")


def ask(endpoints: list[str]) -> None:
    with ClusterClient(endpoints) as client:
        try:
            assert_type(client.request(b"1").payload, bytes)
            assert_type(client.query(b"").payload, bytes)
        except RejectedError as refused:
            print(refused.message)


def read(archive: str) -> None:
    with LogReader([archive]) as reader:
        for entry in reader:
            if entry.kind is EntryKind.REQUEST:
                assert_type(entry.values.number, int)
            assert_type(entry.values.encoded_principal, bytes)


def archived(address: str) -> ArchiveClient:
    return ArchiveClient.connect(address, message_timeout_s=1.0)


async def aask(endpoints: list[str]) -> bytes:
    async with AsyncClusterClient(endpoints) as client:
        return (await client.request(b"1")).payload


def local() -> None:
    check_service(Counter, [])
    with LocalCluster("counter:Counter") as cluster:
        assert_type(cluster.await_leader(), int)


def consumer(one: Consumer) -> None:
    for entry in one:
        assert_type(entry.payload, bytes)


@message(id=1)
class Ack:
    order: UInt32


@message(id=2)
class Refusal:
    reason: str


@message(id=3)
class NewOrder(Request[Ack]):
    order: UInt32
    note: str = ""


@message(id=4)
class Cancel(Request[Ack | Refusal]):
    order: UInt32


@message(id=5)
class Amend(Request[Refusal]):
    order: UInt32


class Desk(TypedService):
    @handles
    def place(self, session: ClientSession | None, order: NewOrder) -> Ack:
        return Ack(order.order)

    @handles
    def cancel(self, session: ClientSession | None, order: Cancel) -> Ack | Refusal:
        return Refusal("too late")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"1")


def typed(client: ClusterClient) -> None:
    assert_type(client.request(NewOrder(1, note="soon")), Ack)
    assert_type(client.request(NewOrder(1), id=b"1", timeout_s=1.0).order, int)
    assert_type(client.request(Cancel(1)), Ack | Refusal)
    assert_type(client.submit(NewOrder(1)), PendingRequest[Ack])
    assert_type(client.submit(NewOrder(1)).result(), Ack)
    assert_type(client.submit(b"1").result(), Answer)
    assert_type(client.request_many([NewOrder(1)]), list[Ack])
    assert_type(client.request_many([Cancel(1)], return_exceptions=True), list[Ack | Refusal | OrdoError])
    assert_type(client.request_many([b"1"]), list[Answer])
    for answer in client.request_stream([NewOrder(1)]):
        assert_type(answer, Ack)
    mixed: list[Request[Ack | Refusal]] = [NewOrder(1), Amend(1)]
    assert_type(client.request_many(mixed), list[Ack | Refusal])
    client.submit(NewOrder(1), on_done=lambda pending: print(pending.result().order))


async def atyped(client: AsyncClusterClient) -> None:
    assert_type(await client.request(NewOrder(1)), Ack)
    assert_type(await client.request(Cancel(1)), Ack | Refusal)
    assert_type(await client.submit(NewOrder(1)), Ack)
    assert_type(await client.request_many([NewOrder(1)]), list[Ack])
    async for answer in client.request_stream([NewOrder(1)]):
        assert_type(answer, Ack)


def kept(pending: PendingRequest) -> Answer:
    return pending.result()
"""
MIXED = """
from typing import assert_type

from ordo import ClusterClient
from good import Amend, NewOrder


def mixed(client: ClusterClient) -> None:
    assert_type(client.request_many([NewOrder(1), Amend(1)]), list[object])
"""
BAD = """
from ordo import ArchiveClient, ClusterClient, LogEntry
from ordo import ClusterClinet
from good import Ack, Cancel, NewOrder


def wrong(client: ClusterClient, entry: LogEntry) -> None:
    client.request("1")
    print(entry.values.numbr)
    ArchiveClient.connect("127.0.0.1:8010", mesage_timeout_s=1.0)
    client.request(NewOrder(1)).payload
    client.request(Cancel(1)).order
    client.request(Ack(1))
    client.request(NewOrder(1, 2))
    client.request_many([Ack(1)])
    answer: str = client.request(NewOrder(1))
"""
WRONG_LINES = [3, 8, 9, 10, 11, 12, 13, 14, 15, 16]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "mixed.py").write_text(MIXED)
    (tmp_path / "bad.py").write_text(BAD)
    return tmp_path


def check(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a checker as the user does: in their folder, with nothing said of where Ordo is."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(CHECK_TIMEOUT_S),
    )


def pyright(python: Path) -> list[str]:
    """Returns the command that checks with what this interpreter has installed; fetches pyright the first time."""
    place = ROOT / "build" / "pyright"
    command = place / "node_modules" / ".bin" / "pyright"
    if not command.exists():
        place.mkdir(parents=True, exist_ok=True)
        command_line = ["npm", "install", "--silent", "--prefix", str(place), PYRIGHT]
        subprocess.run(command_line, check=True, timeout=patient(FETCH_TIMEOUT_S))
    return [str(command), "--pythonpath", str(python), "--outputjson"]


@pytest.mark.thorough
@pytest.mark.timeout(FETCH_TIMEOUT_S + 2 * CHECK_TIMEOUT_S)
def test_mypy_knows_every_name_and_refuses_wrong_ones(folder: Path) -> None:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "users")]
    done = check([*mypy, "good.py", "mixed.py"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done = check([*mypy, "--no-pretty", "bad.py"], folder)
    found = sorted({int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line})
    assert found == WRONG_LINES, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(FETCH_TIMEOUT_S + 2 * CHECK_TIMEOUT_S)
@pytest.mark.skipif(shutil.which("npm") is None, reason="pyright comes from npm")
def test_pyright_knows_every_name_and_refuses_wrong_ones(folder: Path) -> None:
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = pyright(Path(sys.executable))
    done = json.loads(check([*command, "good.py"], folder).stdout)
    assert done["generalDiagnostics"] == []
    done = json.loads(check([*command, "bad.py"], folder).stdout)
    rows = [one["range"]["start"]["line"] + 1 for one in done["generalDiagnostics"] if one["severity"] == "error"]
    assert sorted(set(rows)) == WRONG_LINES, done


def test_the_values_of_entries_are_those_of_the_messages() -> None:
    """With the types that their encodings give."""
    known: dict[str, type] = dict(get_type_hints(AppVersionChange))
    for message in (*_KINDS, ordo_codecs.OUTPUT):
        body = message.encode_body()
        known |= {name: type(value) for name, value in message.decode_body(body)._asdict().items()}
    declared = {
        name: get_type_hints(value.fget)["return"]
        for part in (EntryValues, SchemaValues)
        for name, value in vars(part).items()
        if isinstance(value, property) and value.fget is not None
    }
    assert declared == known


def test_the_options_of_archive_clients_are_their_settings() -> None:
    assert set(get_type_hints(ArchiveClientOptions)) == {
        field.name for field in fields(ArchiveClientSettings) if field.name != "control_channel"
    }
