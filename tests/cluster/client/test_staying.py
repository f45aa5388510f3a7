"""Clients that stay: a lost session is followed by a new one, and members are found where they are (docs/CLIENT.md)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.client.connection.endpoints import NamedEndpoints, endpoints_from_dns, endpoints_from_file
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.session_states import ClientEvent
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.codecs import EventCode
from ordo.runtime.errors import ConfigurationError, SessionClosedError
from tests.cluster.client.session_members import SessionWorld

CHANNEL = "aeron:udp"
MS = 1_000_000


@pytest.fixture
def world() -> Iterator[SessionWorld]:
    world = SessionWorld()
    yield world
    world.close()


def close_session(world: SessionWorld, session_id: int, why: str) -> None:
    request = world.sessions[session_id]
    world.leader.send_event(request.response_channel, session_id, request.correlation_id, EventCode.CLOSED, why)


def test_a_lost_session_is_followed_by_another(world: SessionWorld) -> None:
    events: list[ClientEvent] = []
    received: list[bytes] = []
    client = world.client(
        reconnect=True, on_event=events.append, on_message=lambda session_id, at, payload: received.append(payload)
    )
    first = client.session_id
    close_session(world, first, "TIMEOUT")
    world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
    client.send(b"still here")
    world.run(client, lambda: bool(received))
    assert received == [b"still here"]
    assert events == [
        ClientEvent("opened", first, "leader 0"),
        ClientEvent("lost", first, "TIMEOUT"),
        ClientEvent("opened", client.session_id, "leader 0"),
    ]
    client.close()
    assert len(events) == 3


def test_sessions_that_are_closed_at_once_are_not_asked_for_without_pause(world: SessionWorld) -> None:
    client = world.client(reconnect=True)
    begin_ns, opened = world.clock.now(), client.session_id
    for _ in range(3):
        close_session(world, opened, "SERVICE_ACTION")
        world.run(client, lambda: client.is_connected and client.session_id > opened)  # noqa: B023
        opened = client.session_id
    assert world.clock.now() - begin_ns >= 1500 * MS


def test_who_does_not_want_to_stay_is_told(world: SessionWorld) -> None:
    events: list[ClientEvent] = []
    client = world.client(reconnect=False, on_event=events.append, on_unsequenced=lambda message: None)
    close_session(world, client.session_id, "TIMEOUT")
    with pytest.raises(SessionClosedError, match="TIMEOUT"):
        world.run(client, lambda: False)
    assert [event.kind for event in events] == ["opened", "lost"]


def test_members_are_found_where_the_file_says_now(world: SessionWorld, tmp_path: Path) -> None:
    file = tmp_path / "members"
    file.write_text("10.0.0.77:9000  # nobody is there\n")

    def move() -> None:
        file.write_text(f"\n0={world.members[0].endpoint}\n")

    world.at(world.clock.now() + 3000 * MS, move)
    events: list[ClientEvent] = []
    client = world.client(ingress_endpoints=endpoints_from_file(file), on_event=events.append)
    assert client.is_connected and client.leader_member_id == 0
    assert [event.kind for event in events] == ["waiting", "endpoints", "opened"]
    assert events[1].detail == world.members[0].endpoint


@pytest.mark.parametrize("line", ["host", "x=host:1", "1=host", "host:0", "host:70000"])
def test_a_file_that_names_no_endpoints_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "members"
    file.write_text(line)
    with pytest.raises(ConfigurationError, match="must be host:port"):
        endpoints_from_file(file)()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        endpoints_from_file(tmp_path / "missing")()
    file.write_text("0=one:1\n1=two:2\n")
    named = NamedEndpoints(endpoints_from_file(file), CHANNEL)
    assert named.table == named.by_id == {0: "one:1", 1: "two:2"}
    file.write_text(line)
    assert named.renew() is None and named.table == {0: "one:1", 1: "two:2"}


def test_a_name_stands_for_all_its_addresses_and_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [["10.0.0.2", "10.0.0.1", "10.0.0.1"], OSError(), ["10.0.0.3", "fd00::1"]]
    looked_up = threading.Semaphore(0)

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        assert (host, port) == ("ordo.example", 20000)
        answer = answers.pop(0) if answers else OSError()
        looked_up.release()
        if isinstance(answer, OSError):
            raise answer
        return [(0, 0, 0, "", (address, port)) for address in answer]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    named = NamedEndpoints(endpoints_from_dns("ordo.example:20000"), CHANNEL)
    assert named.table == {0: "10.0.0.1:20000", 1: "10.0.0.2:20000"}
    looked_up.acquire()
    renewed = None
    for _ in range(10_000):
        renewed = renewed or named.renew()
        if renewed:
            break
        threading.Event().wait(0.001)
    assert renewed == {0: "10.0.0.3:20000", 1: "[fd00::1]:20000"}
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(ConfigurationError, match=r"name ordo\.example has no address now"):
        endpoints_from_dns("ordo.example:1")()
    with pytest.raises(ConfigurationError, match="must be host:port"):
        endpoints_from_dns("ordo.example")


def test_clients_that_share_a_transport_keep_each_others_sessions(world: SessionWorld) -> None:
    """Of 1,200 clients those that were not polled lost their sessions, while the rest opened theirs."""
    _, transport = world.client_process()
    settings = [ClientSettings(egress_stream_id=102 + number, keep_alive_interval_s=0.2) for number in range(2)]
    clients = [
        ClusterClient(world.endpoints, "aeron:udp?endpoint=10.0.1.1:0", transport=transport, settings=one)
        for one in settings
    ]
    world.leader.received.clear()
    end_ns = world.clock.now() + 1000 * MS
    while world.clock.now() < end_ns:
        clients[1].poll()
    kept = [values.cluster_session_id for name, values in world.leader.received if name == "SessionKeepAlive"]
    assert min(kept.count(client.session_id) for client in clients) >= 3


@pytest.mark.parametrize("on_event", [True, False])
def test_a_client_of_aerons_members_is_told_once_how_long_an_answer_may_be(
    world: SessionWorld, on_event: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A member of Aeron drops a longer one without a word, to its client and to its own log."""
    world.opened_detail = ""
    events: list[ClientEvent] = []
    client = world.client(reconnect=True, on_event=events.append if on_event else None)
    first = client.session_id
    close_session(world, first, "TIMEOUT")
    world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
    said = (
        [event.detail for event in events if event.kind == "limited"]
        if on_event
        else [one.getMessage() for one in caplog.records]
    )
    assert len(said) == 1
    assert said[0].count("above 32,736 bytes") == 1
    assert "egress_term_length_bytes=262144" in said[0]
