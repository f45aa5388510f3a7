"""Topics and the log over server-sent events and WebSocket, in front of a real cluster."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import shutil
import socket
import subprocess
import textwrap
from collections.abc import Coroutine
from typing import Any, TypeVar

import aiohttp
import pytest
from playwright.sync_api import expect, sync_playwright

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.gateway.conftest import GatewayProcess
from tests.gateway.console.conftest import PROGRAM, Browser, console_of
from tests.gateway.watching.conftest import OPERATOR, SUBSCRIPTIONS_MAX, TRADER, VIEWER, Events, submit
from tests.patience import patient
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
CHROMIUM = shutil.which("chromium")
TOPIC = "/api/topics/balances"
T = TypeVar("T")


@pytest.fixture
def address(gateway: GatewayProcess) -> str:
    return console_of(gateway)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, patient(60)))


def test_a_topic_comes_as_events_and_goes_on_after_the_last_id(gateway: GatewayProcess, address: str) -> None:
    submit(gateway, 3)
    events = Events(address, f"{TOPIC}?from=1")
    assert events.status == 200
    first = events.take(3)
    assert [one["sequence"] for one in first] == [1, 2, 3]
    assert [json.loads(one["payload"])["balance"] for one in first] == [1, 3, 6]
    assert events.last_id == "3"
    events.close()
    submit(gateway, 2)
    again = Events(address, f"{TOPIC}?from=1", Last_Event_ID="3")
    assert [one["sequence"] for one in again.take(2)] == [4, 5], "nothing is lost, and nothing comes twice"
    submit(gateway, 1)
    assert again.take(1)[0]["sequence"] == 6, "what comes from then on"
    again.close()


def test_the_log_is_numbered_without_gaps(gateway: GatewayProcess, address: str) -> None:
    submit(gateway, 4)
    events = Events(address, "/api/log?from=1", PROGRAM)
    found = events.take(4)
    assert [one["sequence"] for one in found] == [1, 2, 3, 4]
    assert {one["kind"] for one in found} == {"request"} and json.loads(found[0]["payload"]) == {"add": 1}
    events.close()
    on = Events(address, "/api/log", PROGRAM, Last_Event_ID="2")
    assert on.take(2) == found[2:]
    on.close()


def test_one_that_begins_now_gets_what_comes(gateway: GatewayProcess, address: str) -> None:
    for path, token, word in ((TOPIC, VIEWER, "balance"), ("/api/log", PROGRAM, "add")):
        events = Events(address, path, token)
        assert events.next()[0] == "begin"
        submit(gateway, 1)
        assert json.loads(events.take(1)[0]["payload"])[word] == 1
        events.close()


@pytest.mark.parametrize(
    ("path", "token", "headers", "status", "word"),
    [
        (TOPIC, "", {}, 403, ""),
        (TOPIC, "x" * 40, {}, 403, ""),
        (TOPIC, TRADER, {}, 403, ""),
        ("/api/log", VIEWER, {}, 403, ""),
        (f"{TOPIC}?from=0", VIEWER, {}, 400, "from=0"),
        (f"{TOPIC}?from=1e3", VIEWER, {}, 400, "from=1e3"),
        (f"{TOPIC}?from={'9' * 400}", VIEWER, {}, 400, "from=999"),
        ("/api/log?from=oldest", PROGRAM, {}, 400, "from=oldest"),
        ("/api/topics/..%2Fetc", VIEWER, {}, 400, "topic"),
        ("/api/topics/" + "x" * 300, VIEWER, {}, 400, "topic"),
        (TOPIC, VIEWER, {"Last_Event_ID": "-1"}, 400, "Last-Event-ID"),
        (TOPIC, VIEWER, {"Last_Event_ID": "9" * 30}, 400, "Last-Event-ID"),
        (TOPIC, VIEWER, {"Authorization": "Basic eDp5"}, 400, "Bearer"),
        (TOPIC, VIEWER, {"Origin": "https://attacker.example"}, 403, "another origin"),
        (TOPIC, VIEWER, {"Host": "attacker.example"}, 403, "--console-name"),
        (TOPIC, VIEWER, {"Sec_Fetch_Site": "cross-site"}, 403, "another site"),
    ],
)
def test_who_may_not_or_asks_for_what_cannot_be_hears_why(
    gateway: GatewayProcess, address: str, path: str, token: str, headers: dict[str, str], status: int, word: str
) -> None:
    submit(gateway, 1)
    events = Events(address, path, token, **headers)
    assert events.status == status, events.status
    told = events.refusal()
    assert word in told and "\n" not in told
    events.close()


def test_a_number_that_never_was_ends_the_watch_and_is_not_waited_for(gateway: GatewayProcess, address: str) -> None:
    submit(gateway, 1)
    for path, token in ((f"{TOPIC}?from=1000000", VIEWER), (TOPIC, VIEWER)):
        headers = {} if "from" in path else {"Last_Event_ID": "1000000"}
        events = Events(address, path, token, **headers)
        if events.status == 410:  # it was known at once
            assert "never published" in events.refusal()
        else:
            name, told = events.next()
            while name == "begin":
                name, told = events.next()
            assert (name, told["reason"], told["can_resume"]) == ("end", "gone", False)
            assert "never published" in told["text"] and events.next() == ("", None)
        events.close()


def test_a_websocket_has_the_same_events_and_no_other_site_opens_one(gateway: GatewayProcess, address: str) -> None:
    submit(gateway, 2)
    protocol = "bearer." + base64.urlsafe_b64encode(VIEWER.encode()).decode().rstrip("=")

    async def watch(**how: Any) -> list[Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://{address}{TOPIC}?from=1", **how) as ws,
        ):
            return [json.loads((await ws.receive()).data) for _ in range(3)]

    for how in ({"headers": {"Authorization": f"Bearer {VIEWER}"}}, {"protocols": ("ordo.v1", protocol)}):
        begin, *messages = run(watch(**how))
        assert begin == {"event": "begin", "data": {"next": 1}}
        assert [(one["event"], one["data"]["sequence"]) for one in messages] == [("message", 1), ("message", 2)]
    own = Browser(address)
    assert own.log_in().status == 200
    foreign = {"Cookie": own.cookie, "Origin": "https://attacker.example"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        run(watch(headers=foreign))
    assert refused.value.status == 403, "a page of another site uses the browser's login to no avail"
    assert run(watch(headers={"Cookie": own.cookie, "Origin": f"http://{address}"}))[1]["data"]["sequence"] == 1


def test_who_talks_to_it_or_sends_what_is_no_frame_is_cut_off(address: str) -> None:
    async def talk(text: str) -> aiohttp.WSMessage:
        headers = {"Authorization": f"Bearer {VIEWER}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.ws_connect(f"http://{address}{TOPIC}") as ws,
        ):
            await ws.receive()
            await ws.send_str(text)
            while (found := await ws.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
            return found

    assert run(talk("hello")).data == aiohttp.WSCloseCode.POLICY_VIOLATION
    assert run(talk("x" * 100_000)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)


def test_no_host_and_no_principal_takes_all_places(address: str) -> None:
    """Of 127.0.0.9, which is no operator's; a quarter is left to others."""
    share = SUBSCRIPTIONS_MAX - SUBSCRIPTIONS_MAX // 4
    request = f"GET {TOPIC} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {VIEWER}\r\n\r\n".encode()
    host, _, port = address.rpartition(":")
    opened = []
    try:
        for _ in range(share):
            one = socket.create_connection((host, int(port)), source_address=("127.0.0.9", 0), timeout=patient(30))
            opened.append(one)
            one.sendall(request)
            assert b" 200 " in one.recv(64)
        with socket.create_connection((host, int(port)), source_address=("127.0.0.9", 0), timeout=patient(30)) as more:
            more.sendall(request)
            assert b" 429 " in more.recv(64)
        same = Events(address, TOPIC)
        assert same.status == 429 and "this token's principal" in same.refusal()
        same.close()
        other = Events(address, TOPIC, PROGRAM)
        assert other.status == 200
        other.close()
    finally:
        for one in opened:
            one.close()

    def is_free() -> bool:
        again = Events(address, TOPIC)
        again.close()
        return again.status == 200

    await_that(is_free, "places of watchers that have gone are free again")


def test_a_watch_ends_with_the_login(gateway: GatewayProcess, address: str) -> None:
    own = Browser(address)
    assert own.log_in().status == 200
    events = Events(address, TOPIC, "", Cookie=own.cookie)
    assert events.next()[0] == "begin"
    assert own.ask("/api/logout", {}).status == 200
    assert events.next() == (
        "end",
        {"reason": "logged_out", "text": "the login has ended: log in again", "can_resume": False},
    )
    events.close()


def test_a_gateway_that_stops_says_so(publishing: LocalCluster, tmp_path: Any) -> None:
    gateway = GatewayProcess(publishing, tmp_path / "gateway.log", "--console", "0")
    events = Events(console_of(gateway), TOPIC)
    assert events.next()[0] == "begin"
    assert gateway.stop() == 0
    name, told = events.next()
    assert (name, told["reason"], told["can_resume"]) == ("end", "stopping", True)
    assert events.next() == ("", None)
    events.close()


# As the page says


def test_the_page_s_curl_and_its_client_in_python(gateway: GatewayProcess, address: str) -> None:
    submit(gateway, 2)
    page = Page("CONSOLE.md")
    given = {"10.0.0.9:8080": address, "TOKEN": VIEWER, "trades": "balances"}
    words = shlex.split(_own(page.take("sh", "curl"), given))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        lines = [curl.stdout.readline() for _ in range(7)]
        curl.kill()
    assert "event: message\n" in lines and "id: 1\n" in lines
    found: list[Any] = []

    class Enough(Exception):
        pass

    def handle(one: Any) -> None:
        found.append(one)
        if len(found) == 2:
            raise Enough

    program = _own(page.take("python", "ws_connect"), given)
    with pytest.raises(Enough):
        exec(compile(textwrap.dedent(program), "CONSOLE.md", "exec"), {"handle": handle})
    assert [one["sequence"] for one in found] == [1, 2]


def _own(text: str, given: dict[str, str]) -> str:
    for word, own in given.items():
        assert word in text, word
        text = text.replace(word, own)
    return text


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the console is looked at with it")
def test_a_browser_watches(gateway: GatewayProcess, address: str) -> None:
    """The page's snippet, and the console's own view: what is there, what comes, and a stop."""
    submit(gateway, 1)
    snippet = Page("CONSOLE.md").take("js", "EventSource").replace("trades", "balances")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda one: problems.append(str(one)))
        page.set_default_timeout(patient(20_000))
        expect.set_options(timeout=patient(20_000))
        page.goto(f"http://{address}/")
        page.fill("#token", OPERATOR)
        page.click("#login-form button")
        page.click('a[href="#live"]')
        page.fill("#live-topic", "balances")
        page.fill("#live-from", "1")
        page.click("#live-button")
        expect(page.locator("#live-list .entry").last).to_contain_text('"balance": 1')
        before = page.locator("#live-list .entry").count()
        submit(gateway, 1)
        expect(page.locator("#live-list .entry")).to_have_count(before + 1)
        page.click("#live-button")
        expect(page.locator("#live-text")).to_contain_text("stopped after")
        page.fill("#live-topic", "balances")
        page.fill("#live-from", "1000000")
        page.click("#live-button")
        expect(page.locator("#live-text")).to_contain_text("never published")
        first = page.evaluate(f"new Promise((resolve) => {{ const handle = resolve; {snippet} }})")
        assert first["sequence"] == 1
        assert problems == []
        chromium.close()
