"""A cluster that knows its clients by their keys: who a client is, what it may do, and which sessions it speaks for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire import codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import INGRESS_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.follow.reader import LogReader
from ordo.runtime.errors import ArchiveError, QueryFailedError, SessionRejectedError
from ordo.transport.secure.keys import public_text, read_secret
from tests.attacks.test_archive import archives, refused
from tests.attacks.test_authentication import SERVICE
from tests.attacks.test_sessions import session_message, stranger
from tests.cluster.integration.agreement import counter_of
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.patience import patient

__all__ = ["start_cluster"]


def trusted_key(cluster: LocalCluster, name: str, *roles: str) -> dict[str, str]:
    """`key_file` and `trusted_file` of a new client that all members trust."""
    key_file, trusted_file = str(cluster.root / f"{name}.key"), str(cluster.root / "trusted.keys")
    assert run(["keys", "new", key_file]) == 0
    options = [word for role in roles for word in ("--role", role)]
    assert (
        run(["keys", "trust", trusted_file, public_text(read_secret(key_file).public), "--name", name, *options]) == 0
    )
    return {"key_file": key_file, "trusted_file": trusted_file}


def connect(cluster: LocalCluster, keys: dict[str, str]) -> ClusterClient:
    settings = ClientSettings(message_timeout_s=15.0, connect_timeout_s=30.0, **keys)  # type: ignore[arg-type]
    return ClusterClient(cluster.ingress_endpoints, settings=settings)


def test_the_key_says_who_a_client_is_and_its_roles_what_it_may_do(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster(SERVICE, tables={"authentication": {"by_key": True}}, encrypted=True)
    desk, auditor = trusted_key(cluster, "desk-7", "ingress"), trusted_key(cluster, "auditor", "log")
    before = refused(cluster)
    with pytest.raises(SessionRejectedError):
        connect(cluster, cluster.client_keys)
    assert refused(cluster) > before, "a key that is trusted and has no roles gets no session"
    with connect(cluster, desk) as client:
        assert client.request(b"who").payload == b"desk-7"
        with pytest.raises(QueryFailedError, match="no right to ask"):
            client.query(b"who")
    for keys, refusal in ((cluster.client_keys, "authentication rejected"), (desk, "do not have the role log")):
        for name, path in keys.items():
            monkeypatch.setenv(f"ORDO_{name.upper()}", path)
        with LogReader(archives(cluster)) as reader, pytest.raises(ArchiveError, match=refusal):
            next(reader.entries(timeout_s=30))
    for name, path in auditor.items():
        monkeypatch.setenv(f"ORDO_{name.upper()}", path)
    with LogReader(archives(cluster)) as reader:
        assert next(reader.entries(timeout_s=30)).position > 0


def test_a_session_is_its_keys_own_also_after_a_change_of_the_leader(start_cluster: StartCluster) -> None:
    cluster = start_cluster(SERVICE, tables={"authentication": {"by_key": True}}, encrypted=True)
    desk, thief = trusted_key(cluster, "desk-7", "ingress"), trusted_key(cluster, "thief", "ingress")
    with connect(cluster, desk) as client:
        assert client.request(b"who").payload == b"desk-7"
        stolen = client.session_id
        leader = cluster.await_leader()
        steal(cluster, leader, stolen, thief)
        assert client.request(b"who").payload == b"desk-7"
        cluster.kill(leader)
        leader = cluster.await_leader()
        steal(cluster, leader, stolen, thief)  # before its client has spoken to the new leader
        assert client.request(b"who", timeout_s=60.0).payload == b"desk-7"
        assert client.session_id == stolen
    cluster.check_running()


def steal(cluster: LocalCluster, leader: int, session_id: int, keys: dict[str, str]) -> None:
    """Writes into the session of another key, keeps it alive, and closes it; all of that is refused."""
    term_id = counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID)
    ids = {"leadership_term_id": term_id, "cluster_session_id": session_id}
    before = counter_of(cluster, leader, CounterType.INVALID_REQUESTS)
    with stranger(cluster.ingress_endpoints[leader], INGRESS_STREAM_ID, **keys) as send:
        deadline_s = time.monotonic() + patient(20)
        while counter_of(cluster, leader, CounterType.INVALID_REQUESTS) < before + 3:
            send(session_message(term_id, session_id))
            send(codecs.SESSION_KEEP_ALIVE.encode(**ids))
            send(codecs.SESSION_CLOSE_REQUEST.encode(**ids))
            assert time.monotonic() < deadline_s, "nothing was refused"
            time.sleep(0.1)


def test_roles_stand_in_the_file_of_trusted_keys(tmp_path: Path) -> None:
    key_file, trusted_file = str(tmp_path / "a.key"), tmp_path / "trusted.keys"
    assert run(["keys", "new", key_file]) == 0
    public = public_text(read_secret(key_file).public)
    assert run(["keys", "trust", str(trusted_file), public, "--name", "a", "--role", "owner"]) != 0
    assert run(["keys", "trust", str(trusted_file), public, "--role", "log"]) != 0
    assert run(["keys", "trust", str(trusted_file), public, "--name", "10.0.0.1:4"]) != 0
    assert not trusted_file.exists()
    options = ["--name", "a", "--at", "10.0.0.1", "--role", "log", "--role", "ingress"]
    assert run(["keys", "trust", str(trusted_file), public, *options]) == 0
    assert trusted_file.read_text() == f"{public} a roles=log,ingress 10.0.0.1\n"
