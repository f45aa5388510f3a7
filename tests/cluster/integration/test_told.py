"""What users of a cluster are told when its service fails: the reason, where they look for it, and no false success."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo import AsyncClusterClient, ClientSettings, ClusterClient
from ordo.cluster.wire.sessions.ingress_notice import UNCHECKED_NOTICE
from ordo.deploy.launcher import ROOT, LocalCluster, ServiceMode
from ordo.dev import _lines_of
from ordo.errors import ClusterError, ClusterTimeoutError, PayloadError
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_that, await_value
from tests.cluster.integration.command import demand_one_line, ordo
from tests.clusters import STEADY, ready_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
FAILING = "tests.cluster.integration.failing"
OPERATOR = new_token()
TOKENS: list[dict[str, str | list[str]]] = [
    {"principal": "root", "hash": hash_token(OPERATOR), "roles": ["operator", "ingress"]}
]
FAILED = re.compile(r"service=failed: the service failed at record \d+: ZeroDivisionError$")
REASON = "could not take its snapshot at log_position=", "ValueError: a set is no state (failing.py:"


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_a_snapshot_that_the_service_could_not_take(mode: ServiceMode, tmp_path: Path) -> None:
    """With and without a copy of the service's process, from the member's machine and from another."""
    token_file = tmp_path / "token"
    token_file.write_text(OPERATOR)
    with ready_cluster(
        f"{FAILING}:BrokenSnapshot", member_count=1, sync="none", tables={"tokens": TOKENS}, service_mode=mode
    ) as cluster:
        member = cluster.await_leader()
        config = "--config", str(cluster.config_path(member))
        remote = "--endpoints", cluster.ingress_endpoints[0], "--token-file", str(token_file)
        with ClusterClient(cluster.ingress_endpoints, settings=ClientSettings(credentials=OPERATOR.encode())) as client:
            assert client.request(b"1").payload == b"1"
            for target in (config, remote):
                done = ordo("cluster", "snapshot", *target)
                demand_one_line(done, 1, "no snapshot was taken: on member 0 the service ", *REASON)
                assert done.stdout == ""
            assert client.request(b"2").payload == b"2", "the service goes on"
        told = cluster.await_value(lambda: list(cluster.log_events(member, "service.failed")) or None, "what it raised")
        assert "on_take_snapshot at position" in str(told[0]["text"])
        assert 'failing.py", line' in str(told[0]["traceback"])
        # Over the network it takes seconds to see that nobody is there any more: once is enough.
        done = ordo("cluster", "shutdown", *(remote if mode == "process" else config))
        assert cluster.wait(member) == 0
        if "its snapshot was not seen" in done.stderr:  # the member ended between two looks over the network
            demand_one_line(done, 1, "the cluster ended, but its snapshot was not seen; nothing is lost")
        else:
            demand_one_line(done, 1, "the cluster ended, but without its snapshot: on member 0 the service ", *REASON)


@pytest.fixture(scope="module")
def open_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One member without tokens, whose service's module lies beside its configuration and nowhere else."""
    folder = tmp_path_factory.mktemp("beside")
    (folder / "echo_beside.py").write_text(
        "from ordo import ClusteredService\n\n\nclass Echo(ClusteredService):\n"
        "    def on_session_message(self, session, timestamp, payload, header):\n"
        "        return bytes(payload)\n\n"
        "    def on_query(self, payload):\n"
        "        return bytes(payload)\n"
    )
    with ready_cluster("echo_beside:Echo", member_count=1, sync="none", root=folder) as cluster:
        yield cluster


def test_a_service_beside_the_configuration_is_found_from_another_folder(open_cluster: LocalCluster) -> None:
    """The node's folder is that of the project, in which there is no such module."""
    assert not (ROOT / "echo_beside.py").exists()
    with ClusterClient(open_cluster.ingress_endpoints) as client:
        assert client.request(b"1").payload == b"1"


def test_credentials_that_nobody_looks_at_are_told_in_a_line(
    open_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    details: list[str] = []
    settings = ClientSettings(credentials=b"wrong")
    with ClusterClient(
        open_cluster.ingress_endpoints, settings=settings, on_session_event=lambda code, detail: details.append(detail)
    ) as client:
        assert client.request(b"1").payload == b"1"
    (told,) = [record for record in caplog.records if "client.credentials" in record.getMessage()]
    assert told.levelname == "WARNING" and "the cluster has no [[tokens]], and lets everybody in" in told.getMessage()
    assert UNCHECKED_NOTICE in details
    caplog.clear()
    with ClusterClient(open_cluster.ingress_endpoints) as client:
        client.request(b"2")
    assert not [record for record in caplog.records if "client.credentials" in record.getMessage()]


@pytest.mark.parametrize("payload", ["pay 5", {"pay": 5}, 5], ids=["str", "dict", "int"])
def test_payloads_that_are_no_bytes_are_refused_by_every_call(open_cluster: LocalCluster, payload: Any) -> None:
    with ClusterClient(open_cluster.ingress_endpoints, on_acknowledged=lambda acknowledged: None) as tracking:
        calls: list[Callable[[Any], object]] = [tracking.offer, tracking.send, lambda one: tracking.offer_many([one])]
        with ClusterClient(open_cluster.ingress_endpoints) as client:
            calls += [client.offer, client.send, client.request, client.submit, client.query, client.start_query]
            calls += [lambda one: client.offer_many([one]), lambda one: client.request_many([one])]
            for call in calls:
                with pytest.raises(PayloadError, match=r"payload is .* must be bytes: encode it, as .*\.encode\(\)"):
                    call(payload)
            assert client.request(b"3").payload == b"3", "the client goes on"

    async def ask_all() -> None:
        async with AsyncClusterClient(open_cluster.ingress_endpoints) as client:
            asks: list[Callable[[Any], Awaitable[object]]] = [client.send, client.request, client.query]
            for ask in asks:
                with pytest.raises(PayloadError, match="must be bytes: encode it"):
                    await ask(payload)
            with pytest.raises(PayloadError, match="must be bytes: encode it"):
                client.submit(payload)
            assert (await client.request(b"4")).payload == b"4"

    asyncio.run(ask_all())


def test_a_payload_of_20_megabytes_is_told_the_limit_and_one_of_200_kilobytes_the_setting(
    open_cluster: LocalCluster,
) -> None:
    with ClusterClient(open_cluster.ingress_endpoints) as client:
        client.request(b"5")
        sends: list[Callable[[bytes], object]] = [client.send, client.request]
        for call in sends:
            with pytest.raises(ClusterError, match=r"of 20,000,000 bytes: at most .* send it in parts \(no setting"):
                call(bytes(20_000_000))
            with pytest.raises(ClusterError, match=r"200,000 bytes: .* set .*ingress_channel=.*term-length=2m"):
                call(bytes(200_000))
    settings = ClientSettings(ingress_channel="aeron:udp?term-length=2m", egress_term_length_bytes=2 << 20)
    with ClusterClient(open_cluster.ingress_endpoints, settings=settings) as client:
        assert client.request(bytes(200_000)).payload == bytes(200_000), "what was told to be set takes it"


def test_what_the_service_raised_is_told_to_its_author_and_to_its_clients() -> None:
    """Clients heard that the leader was gone; the traceback was in the error log alone."""
    with ready_cluster(f"{FAILING}:Dividing", sync="none", heartbeat=STEADY) as cluster:
        member = cluster.await_leader()
        details: list[str] = []
        with ClusterClient(
            cluster.ingress_endpoints, on_session_event=lambda code, detail: details.append(detail)
        ) as client:
            client.send(b"by:5")
            client.send(b"by:0")
            await_that(lambda: (client.poll(), any(map(FAILED.match, details)))[1], "what the service raised")
        (told,) = await_value(lambda: list(cluster.log_events(member, "service.failed")) or None, "what it raised")
        assert "service Dividing raised in on_session_message at position " in str(told["text"])
        assert told["payload"] == "b'by:0'"
        assert 'failing.py", line' in str(told["traceback"]) and "ZeroDivisionError" in str(told["traceback"])
        shown = _lines_of(json.dumps(told))
        assert shown[0].endswith("payload b'by:0'") and shown[1] == "Traceback (most recent call last):"
        assert shown[-1].startswith("ZeroDivisionError: ")


def test_a_request_at_which_the_service_fails_says_so() -> None:
    with ready_cluster(f"{FAILING}:Dividing", member_count=1, sync="none") as cluster:
        leader = cluster.await_leader()
        details: list[str] = []
        with ClusterClient(
            cluster.ingress_endpoints, on_session_event=lambda code, detail: details.append(detail)
        ) as client:
            assert client.request(b"by:5").payload == b"20"
            pending = client.submit(b"by:0")
            await_that(lambda: (client.poll(), any(map(FAILED.match, details)))[1], "what the service raised")
            with pytest.raises(ClusterTimeoutError, match=r"the service failed at record \d+: ZeroDivisionError"):
                pending.result(0.1)
        (told,) = await_value(lambda: list(cluster.log_events(leader, "service.failed")) or None, "what it raised")
        assert told["payload"] == "b'by:0'", "without the header of the request"
