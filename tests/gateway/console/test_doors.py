"""The console's doors, over HTTP in front of a real cluster: who is let in, what is refused, what orders do."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from examples.pricer import Pricer
from ordo.applications.application import Application, ApplicationSettings
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.consumers.consumer import Consumer
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.open_files import raise_open_files
from ordo.transport.client.client_transport import ClientTransport
from tests.cluster.integration.agreement import await_that, await_value, counter_of
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import StartCluster
from tests.gateway.conftest import GatewayProcess, StartGateway
from tests.gateway.console.conftest import PROGRAM, TRADER, Browser, console_of, submit
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ENDPOINTS = ("--endpoints", "127.0.0.1:20000")


def test_pages_load_nothing_from_outside_and_say_so_to_the_browser(browser: Browser) -> None:
    for path in ("/", "/console.css", "/main.js", "/draw.js", "/live.js", "/parts.js", "/icon.svg"):
        found = browser.ask(path)
        assert found.status == 200
        assert "default-src 'none'" in found.headers["Content-Security-Policy"]
        outside = found.body.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in outside and "https://" not in outside, path
    assert browser.ask("/etc/passwd").status == 404


def test_silent_connections_to_the_console_take_nothing_from_grpc_callers(
    gateway: GatewayProcess, browser: Browser
) -> None:
    """1,004 connections with 34 bytes each of a header that never ends."""
    raise_open_files()
    host, _, port = console_of(gateway).rpartition(":")
    hogs = [socket.create_connection((host, int(port)), source_address=("127.0.0.9", 0)) for _ in range(1_004)]
    try:
        for hog in hogs:
            with suppress(ConnectionError):
                hog.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX")
        assert browser.ask("/").status == 200
        with grpc.insecure_channel(gateway.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=patient(10))
        assert gateway.await_event("gateway.console-refused")["address"] == "127.0.0.9"
    finally:
        for hog in hogs:
            hog.close()


def test_without_a_token_nothing_is_told(browser: Browser) -> None:
    assert browser.ask("/api/session").body == {"is_in": False}
    for path in ("/api/events", "/api/messages", "/api/consumers", "/api/apps"):
        assert browser.ask(path).status == 401
    assert browser.ask("/api/orders", {"order": "snapshot", "confirmed": True}).status == 401


@pytest.mark.parametrize("token", ["", "x" * 40, TRADER])
def test_tokens_that_are_none_or_lack_the_role_are_refused(browser: Browser, token: str) -> None:
    found = browser.log_in(token)
    assert found.status == 403 and found.body["error"]
    assert browser.ask("/api/session").body == {"is_in": False}


def test_a_login_is_a_cookie_that_scripts_and_other_sites_do_not_get(browser: Browser) -> None:
    found = browser.log_in()
    assert found.status == 200
    words = found.headers["Set-Cookie"].lower()
    assert "httponly" in words and "samesite=strict" in words
    assert browser.ask("/api/session").body == {"is_in": True}
    cookie = browser.cookie
    assert browser.ask("/api/logout", {}).status == 200
    browser.cookie = cookie
    assert browser.ask("/api/session").body == {"is_in": False}, "the cookie is worth nothing any more"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"X_Ordo_Console": ""},
    ],
)
def test_what_another_site_makes_a_browser_ask_is_refused(
    browser: Browser, guarded: LocalCluster, headers: dict[str, str]
) -> None:
    browser.log_in()
    before = counter_of(guarded, guarded.await_leader(), CounterType.SNAPSHOT_COUNT)
    found = browser.ask("/api/orders", {"order": "snapshot", "confirmed": True}, **headers)
    assert found.status == 403 and found.body["error"]
    assert counter_of(guarded, guarded.await_leader(), CounterType.SNAPSHOT_COUNT) == before
    if "X_Ordo_Console" not in headers:
        assert browser.ask("/api/session", **headers).status == 403


def test_names_that_the_console_was_given_are_taken(browser: Browser) -> None:
    for host in ("ordo.example", "ordo.example:443", "localhost:8080", "[::1]:8080", "10.0.0.9"):
        assert browser.ask("/api/session", Host=host).status == 200, host


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"order": "snapshot"}, 400, "confirmed"),
        ({"order": "snapshot", "confirmed": "yes"}, 400, "confirmed"),
        ({"order": "explode", "confirmed": True}, 400, "must be one of"),
        ({"order": "transfer", "confirmed": True, "member": 77}, 400, "another member"),
        ({"order": "transfer", "confirmed": True, "member": -1}, 400, "id of a member"),
        ({"order": "resume", "confirmed": True}, 409, "not suspended"),
        ({"order": "pause-consumer", "confirmed": True, "consumer": "nobody"}, 409, "nobody"),
        ([1], 400, "JSON object"),
    ],
)
def test_orders_that_cannot_be_are_refused_in_a_line(browser: Browser, body: Any, status: int, word: str) -> None:
    browser.log_in()
    found = browser.ask("/api/orders", body)
    assert (found.status, word in found.body["error"]) == (status, True), found


def test_orders_are_carried_out(browser: Browser, guarded: LocalCluster) -> None:
    browser.log_in()
    leader = guarded.await_leader()
    before = counter_of(guarded, leader, CounterType.SNAPSHOT_COUNT)
    assert browser.ask("/api/orders", {"order": "snapshot", "confirmed": True}).body == {"done": "a snapshot was taken"}
    assert counter_of(guarded, leader, CounterType.SNAPSHOT_COUNT) == before + 1
    target = next(one for one in guarded.member_ids if one != leader)
    order = {"order": "transfer", "confirmed": True, "member": target}
    assert browser.ask("/api/orders", order).status == 200
    assert guarded.await_leader(other_than=leader) == target
    for name in ("suspend", "resume"):
        assert browser.ask("/api/orders", {"order": name, "confirmed": True}).status == 200
    lines = [str(one["text"]) for one in guarded.log_events(target, "cluster.order")]
    assert lines == ["operator 'root' at 127.0.0.1: SUSPEND", "operator 'root' at 127.0.0.1: RESUME"]


def test_messages_are_shown_page_by_page_and_decoded(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in()
    submit(gateway, 7)
    awaited = [["{", '"amount":', str(one), "}"] for one in (5, 6, 7)]

    def newest_three() -> Any:
        found = browser.ask("/api/messages?kinds=request&count=3").body
        return found if [one["decoded"].split() for one in found["entries"]] == awaited else None

    newest = await_value(newest_three, "the newest three: a follower has them later than the leader")
    assert newest["entries"][0]["text"] == '{"add": 5}'
    first = browser.ask("/api/messages?from=0&kinds=request&count=4").body

    def all_seven() -> list[int] | None:
        rest = browser.ask(f"/api/messages?from={first['next']}&kinds=request&count=4").body
        found = [one["position"] for page in (first, rest) for one in page["entries"]]
        return found if len(found) == 7 else None

    positions = await_value(all_seven, "all seven on two pages")
    assert positions == sorted(set(positions))
    middle = positions[2] + 1
    after = browser.ask(f"/api/messages?from={middle}&kinds=request").body["entries"]
    assert [one["position"] for one in after] == positions[3:], "a position within an entry begins with the next one"
    session = newest["entries"][0]["session"]
    assert len(browser.ask(f"/api/messages?from=0&kinds=request&session={session}").body["entries"]) == 7
    assert browser.ask("/api/messages?from=0&kinds=request&session=1").body["entries"] == []
    for query in ("from=-1", "from=1e3", "kinds=gossip", "session=x", f"from={1 << 63}"):
        assert browser.ask(f"/api/messages?{query}").status == 400


def test_consumers_are_listed_with_their_lag_paused_and_resumed(
    browser: Browser, guarded: LocalCluster, gateway: GatewayProcess
) -> None:
    browser.log_in()
    assert browser.ask("/api/consumers").body == {"consumers": []}
    submit(gateway, 1)
    endpoints = list(guarded.ingress_endpoints.values())
    with Consumer(endpoints, "risk", settings=ClientSettings(credentials=PROGRAM.encode())) as consumer:
        await_that(lambda: consumer.poll(lambda _: None) > 0, "an entry")
        submit(gateway, 1)
        (shown,) = browser.ask("/api/consumers").body["consumers"]
        assert (shown["name"], shown["paused"]) == ("risk", False) and int(shown["lag"]) > 0
        for order, paused in (("pause-consumer", True), ("resume-consumer", False)):
            given = browser.ask("/api/orders", {"order": order, "confirmed": True, "consumer": "risk"})
            assert given.status == 200, given
            assert browser.ask("/api/consumers").body["consumers"][0]["paused"] is paused


def test_instances_of_applications_are_listed_with_their_lag(
    browser: Browser, guarded: LocalCluster, tmp_path: Path
) -> None:
    browser.log_in()
    settings = ApplicationSettings(
        group="pricing",
        endpoints=list(guarded.ingress_endpoints.values()),
        folder=str(tmp_path / "pricing"),
        client=ClientSettings(credentials=PROGRAM.encode()),
        instance="first",
    )
    with closing(ClientTransport.embedded("app")) as transport:
        one = Application(Pricer, settings, transport=transport, storage=FileStorage(open_lmdb))

        def look() -> dict[str, Any] | None:
            """What is shown once the instance has executed something and said so."""
            while one.work():
                pass
            rows: list[dict[str, Any]] = browser.ask("/api/apps").body["instances"]
            return rows[0] if rows and int(rows[0]["position"]) > 0 else None

        try:
            shown = await_value(look, "its report")
        finally:
            one.close()
    assert (shown["group"], shown["instance"], shown["active"], shown["version"]) == ("pricing", "first", True, "1")
    assert int(shown["lag"]) > 0


def test_events_tell_the_members_and_go_on(browser: Browser) -> None:
    browser.log_in()
    connection = http.client.HTTPConnection(browser.address, timeout=patient(30))
    connection.request("GET", "/api/events", headers={"Cookie": browser.cookie})
    response = connection.getresponse()
    assert response.getheader("Content-Type", "").startswith("text/event-stream")
    names: list[str] = []
    while names.count("state") < 3:
        line = response.readline().decode()
        assert line, "the stream goes on"
        if line.startswith("event: "):
            names.append(line[7:].strip())
    connection.close()
    assert names[0] == "history" and "details" in names


def test_a_cluster_that_authenticates_nobody_is_shown_and_takes_no_orders(
    start_cluster: StartCluster, start_gateway: StartGateway
) -> None:
    cluster = start_cluster(member_count=1)
    gateway = start_gateway(cluster, "--console", "0")
    browser = Browser(console_of(gateway))
    assert browser.log_in("").body == {"may_order": False}
    refused = browser.ask("/api/orders", {"order": "snapshot", "confirmed": True})
    assert refused.status == 403 and "authenticates nobody" in refused.body["error"]
    assert gateway.stop() == 0


def test_there_is_no_console_unless_it_is_asked_for(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    gateway = start_gateway(start_cluster(member_count=1))
    gateway.await_event("gateway.session")
    assert gateway.events("gateway.console") == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--console", "somewhere"), "--console"),
        (("--console", "99999"), "--console"),
        (("--console", "192.0.2.1:0"), "--console"),
        (("--decoder", "json:loads"), "give --console"),
        (("--console", "0", "--decoder", "json"), "--decoder json"),
        (("--console", "0", "--decoder", "json:missing"), "--decoder json:missing"),
        (("--console", "0", "--decoder", "json:__doc__"), "is no function"),
    ],
)
def test_mistakes_are_one_line(options: tuple[str, ...], word: str) -> None:
    demand_one_line(ordo("gateway", *ENDPOINTS, "--listen", "127.0.0.1:0", *options, timeout_s=60), 2, word)
