"""A cluster with [[tokens]]: who has none gets no session, and a session does no more than its roles allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, QueryFailedError, SessionRejectedError
from ordo.runtime.security.credentials import credentials_from_environment, credentials_from_file
from ordo.runtime.security.tokens import hash_token, new_token
from tests.attacks.gate import ANSWER, CHALLENGE, PASSWORD
from tests.cluster.integration.agreement import await_that, counter_of
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.patience import patient

__all__ = ["start_cluster"]
SERVICE = "tests.attacks.gate:Whoami"


def token_table(principal: str, token: str, *roles: str) -> dict[str, object]:
    return {"principal": principal, "hash": hash_token(token), "roles": list(roles)}


def connect(cluster: LocalCluster, credentials: bytes | Callable[[], bytes], **more: object) -> ClusterClient:
    settings = ClientSettings(credentials=credentials, message_timeout_s=15.0, **cluster.client_keys)
    return ClusterClient(cluster.ingress_endpoints, settings=settings, **more)  # type: ignore[arg-type]


def refused(cluster: LocalCluster) -> int:
    """What all members refused."""
    return sum(counter_of(cluster, one, CounterType.INVALID_REQUESTS) for one in cluster.member_ids)


@pytest.mark.parametrize(("mode", "is_encrypted"), [("process", False), ("inline", False), ("inline", True)])
def test_tokens_and_roles(
    mode: str, is_encrypted: bool, start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trader, viewer, feeder = new_token(), new_token(), new_token()
    tables = [
        token_table("trader", trader, "ingress", "queries"),
        token_table("viewer", viewer, "queries"),
        token_table("feeder", feeder, "ingress"),
    ]
    cluster = start_cluster(SERVICE, service_mode=mode, tables={"tokens": tables}, encrypted=is_encrypted)
    for wrong in (b"", b"trader", tables[0]["hash"].encode()):  # type: ignore[attr-defined]
        before = refused(cluster)
        with pytest.raises(SessionRejectedError, match="rejected the credentials"):
            connect(cluster, wrong)
        assert refused(cluster) > before
    file = tmp_path / "token"
    file.write_text(trader + "\n")
    monkeypatch.setenv("VIEWER", viewer)
    with (
        connect(cluster, credentials_from_file(file)) as one,
        connect(cluster, credentials_from_environment("VIEWER")) as two,
        connect(cluster, feeder.encode()) as three,
    ):
        assert one.request(b"who").payload == b"trader"
        assert one.query(b"who").payload == b"1"
        assert two.query(b"who").payload == b"1", "who may only ask, asks"
        before = refused(cluster)
        for _ in range(3):
            two.send(b"not allowed")
        with pytest.raises(ClusterTimeoutError):
            two.request(b"not allowed", timeout_s=1.0)
        await_that(lambda: refused(cluster) >= before + 4, "each of them counts")
        assert three.request(b"who").payload == b"feeder"
        with pytest.raises(QueryFailedError, match="no right to ask"):
            three.query(b"who")
        follower = next(one_id for one_id in cluster.member_ids if one_id != cluster.await_leader())
        with pytest.raises(QueryFailedError, match="no right to ask"):
            three.query(b"who", member_id=follower, consistency="stale")
        assert one.query(b"who").payload == b"2", "the two requests, and nothing of the viewer"
        leader = cluster.await_leader()
        cluster.kill(leader)
        assert one.request(b"who", timeout_s=60.0).payload == b"trader", "the next leader knows who it is"
        deadline_s = time.monotonic() + patient(15.0)
        while time.monotonic() < deadline_s and not two.is_connected:
            two.poll()
        before = refused(cluster)
        two.send(b"not allowed by the new one either")
        assert two.query(b"who", timeout_s=30.0).payload == b"3"
        cluster.start_member(leader)


def test_a_session_keeps_its_rights_when_its_leader_starts_from_a_snapshot(start_cluster: StartCluster) -> None:
    """It was nobody's then: its messages were refused, and its client heard nothing of that."""
    trader, viewer = new_token(), new_token()
    tables = [token_table("trader", trader, "ingress", "queries"), token_table("viewer", viewer, "queries")]
    cluster = start_cluster(SERVICE, member_count=1, tables={"tokens": tables})
    with connect(cluster, trader.encode()) as one, connect(cluster, viewer.encode()) as two:
        assert one.request(b"who").payload == b"trader"
        assert run(["cluster", "snapshot", "--config", str(cluster.config_path(0))]) == 0
        session_ids = one.session_id, two.session_id
        cluster.kill(0)
        cluster.start_member(0)
        assert one.request(b"who", timeout_s=60.0).payload == b"trader"
        assert two.query(b"who", timeout_s=60.0).payload == b"2"
        before = refused(cluster)
        with pytest.raises(ClusterTimeoutError):
            two.request(b"not allowed", timeout_s=1.0)
        await_that(lambda: refused(cluster) > before, "it counts")
        assert (one.session_id, two.session_id) == session_ids


def test_a_class_of_ones_own_challenges(start_cluster: StartCluster) -> None:
    cluster = start_cluster(SERVICE, tables={"authentication": {"class": "tests.attacks.gate:Gate"}})
    with pytest.raises(SessionRejectedError):
        connect(cluster, b"anything")
    with pytest.raises(SessionRejectedError):
        connect(cluster, PASSWORD, on_challenge=lambda challenge: b"wrong")
    asked: list[bytes] = []

    def answer(challenge: bytes) -> bytes:
        asked.append(challenge)
        return ANSWER

    with connect(cluster, PASSWORD, on_challenge=answer) as client:
        assert client.request(b"who").payload == b"guest"
    assert asked == [CHALLENGE]


def test_credentials_that_are_not_there_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    with pytest.raises(ConfigurationError, match="the environment has no NO_SUCH_NAME"):
        credentials_from_environment("NO_SUCH_NAME")()
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        credentials_from_file(tmp_path / "missing")()
    with pytest.raises(
        ConfigurationError, match=r"credentials of type str: must be bytes or a function; text\.encode\(\) gives bytes"
    ):
        ClientSettings(credentials="text")  # type: ignore[arg-type]
