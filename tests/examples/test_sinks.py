"""Sinks that store messages and position together: killed again and again, and each message is there once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo import EntryKind, LogEntry
from ordo.cluster.client.session import ClusterClient
from ordo.deploy.launcher import LocalCluster
from tests.clusters import ready_cluster
from tests.patience import factor, patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
ROUNDS = 3
MESSAGES = 150


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("sinks") / "cluster"
    options = {"session_timeout": f"{round(2 * min(3.0, factor()))}s"}
    with ready_cluster("ordo:Ordering", root=root, member_count=1, cluster=options) as cluster:
        yield cluster


@pytest.fixture
def postgres() -> Iterator[str]:
    """The connection string of a server of this test alone."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found:
        pytest.skip("PostgreSQL is not there: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="ordo-postgres-"))
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres", "postgres")
    data, control = str(folder / "data"), str(found[-1])

    def run(*words: str) -> None:
        subprocess.run([*user, *words], check=True, stdout=subprocess.DEVNULL, cwd="/")

    try:
        run(str(found[-1].with_name("initdb")), "-D", data, "-U", "ordo", "-A", "trust")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
        run(control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"host={folder} user=ordo dbname=postgres"
        finally:
            run(control, "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def send_and_kill(module: str, sink: str, cluster: LocalCluster, count: Callable[[], int]) -> list[bytes]:
    """Two programs write into one sink while messages come; the one that was started first is killed each time.
    Returns what was sent."""
    endpoints = ",".join(cluster.ingress_endpoints.values())
    command = [sys.executable, "-P", "-m", module, endpoints, sink]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    sent: list[bytes] = []
    programs: list[subprocess.Popen[bytes]] = []
    before = count()

    def await_stored(wanted: int, client: ClusterClient) -> None:
        deadline_s = time.monotonic() + patient(60)
        while count() - before < wanted:
            assert time.monotonic() < deadline_s, f"{count() - before} of {wanted} are stored"
            assert all(program.poll() is None for program in programs)
            client.poll()
            time.sleep(0.02)

    try:
        with ClusterClient(cluster.ingress_endpoints) as client:
            programs = [subprocess.Popen(command, env=environment) for _ in range(2)]
            for _ in range(ROUNDS):
                for _ in range(MESSAGES):
                    sent.append(b"%s %d" % (module.encode(), len(sent)))
                    client.send(sent[-1], until="sequenced" if len(sent) % 10 == 0 else "")
                await_stored(len(sent) - 100, client)
                programs[0].kill()
                programs.pop(0).wait()
                programs.append(subprocess.Popen(command, env=environment))
            await_stored(len(sent), client)
    finally:
        for program in programs:
            program.kill()
            program.wait()
    return sent


def test_a_folder_of_parquet_files(cluster: LocalCluster, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "messages"

    def stored() -> list[bytes]:
        files = sorted(folder.glob("from-*.parquet"))
        found = [row for file in files for row in pq.ParquetFile(file).read().column("payload").to_pylist()]
        return [row for row in found if row.startswith(b"examples.to_parquet")]

    sent = send_and_kill("examples.to_parquet", str(folder), cluster, lambda: len(stored()))
    assert stored() == sent, "each once, in order"
    assert sorted(folder.glob("from-*.parquet"))[-1].exists()


def test_of_two_writers_at_one_position_one_wins(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from examples import to_parquet

    entries = [LogEntry(position, EntryKind.MESSAGE, 1, 0, 7, b"x") for position in (64, 128, 192)]
    to_parquet.store(tmp_path, entries[:2])
    with pytest.raises(FileExistsError):
        to_parquet.write_file(tmp_path, 0, entries)
    to_parquet.store(tmp_path, entries)
    assert to_parquet.find_end(tmp_path) == 192
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"from-{start:020d}.parquet" for start in (0, 128)]


def test_a_table_of_postgresql(cluster: LocalCluster, postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres, autocommit=True) as database:

        def stored() -> list[bytes]:
            try:
                found = database.execute("SELECT payload FROM messages ORDER BY position").fetchall()
            except psycopg.errors.UndefinedTable:
                return []  # not yet
            return [bytes(row[0]) for row in found if bytes(row[0]).startswith(b"examples.to_postgres")]

        sent = send_and_kill("examples.to_postgres", postgres, cluster, lambda: len(stored()))
        assert stored() == sent, "each once, in order"
