"""The console in a real Chromium, wide and narrow, light and dark: idle, at load, with a dead member.

With ORDO_PICTURES the screenshots go into that folder: `make pictures` writes those of docs/CONSOLE.md.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from ordo.deploy.launcher import LocalCluster
from ordo.service_api import ordo_pb2 as pb
from tests.background import in_background
from tests.cluster.integration.agreement import await_that
from tests.clusters import STEADY, await_level
from tests.gateway.conftest import GatewayProcess, sequencer_of
from tests.gateway.console.conftest import OPERATOR, TRADER, console_of
from tests.patience import patient

CHROMIUM = shutil.which("chromium")
HEARTBEAT = STEADY
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the console is looked at with it"),
]
SIZES = {1280: 860, 390: 844}
PATIENCE_MS = patient(20_000)
ARRIVED = re.compile(r"arrived 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9}")
VIEWS = ("overview", "log", "sessions", "apps", "consumers", "messages", "live", "errors", "orders")
DRAW = """() => new Promise((done) => {
    if (document.getElementById("login").hidden) dispatchEvent(new HashChangeEvent("hashchange"));
    requestAnimationFrame(() => requestAnimationFrame(done));
})"""
"""Has the page draw its view anew, as its next event would within a second, and waits until that is on the screen."""
REFUSED = "status of 403"
"""What Chromium writes to its console when a browser without a token is told so."""


class Looker:
    """One page, and what Chromium complained of."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._folder = folder
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda one: self.complaints.append(str(one)))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, view: str) -> None:
        self.page.click(f'a[href="#{view}"]')
        expect(self.page.locator(f"#{view}")).to_be_visible(timeout=PATIENCE_MS)

    def at_both_sizes(self, name: str, scheme: str = "light") -> None:
        """Demands that nothing is wider than the screen, and keeps screenshots."""
        for width, height in SIZES.items():
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.page.evaluate(DRAW)
            self.page.evaluate("window.scrollTo(0, 0)")
            scrolled = self.page.evaluate("document.documentElement.scrollWidth")
            assert scrolled <= width, f"{name} is {scrolled} pixels wide on a screen of {width}"
            self.page.screenshot(path=self._folder / f"console-{name}-{width}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": SIZES[1280]})


@pytest.fixture
def looker(gateway: GatewayProcess, tmp_path: Path) -> Iterator[Looker]:
    folder = Path(os.environ.get("ORDO_PICTURES") or tmp_path)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            found = Looker(chromium.new_page(viewport={"width": 1280, "height": SIZES[1280]}), folder)
            found.page.goto(f"http://{console_of(gateway)}/")
            yield found
            assert [one for one in found.complaints if REFUSED not in one] == []
        finally:
            chromium.close()


def log_in(looker: Looker) -> None:
    looker.page.fill("#token", OPERATOR)
    looker.page.click("#login-form button")
    expect(looker.page.locator(".card.leader")).to_have_count(1, timeout=PATIENCE_MS)


@contextmanager
def load(gateway: GatewayProcess) -> Iterator[None]:
    """Requests, one after the other, while the test looks."""

    def submit(has_ended: threading.Event) -> None:
        identity, number = os.urandom(16), 1
        with grpc.insecure_channel(gateway.address) as channel:
            calls = sequencer_of(channel)
            while not has_ended.wait(0.005):
                request = pb.SubmitRequest(
                    identity=identity, number=number, confirmed=number - 1, payload=b'{"add": %d}' % (number % 90 + 10)
                )
                try:
                    calls.Submit(request, metadata=[("authorization", f"Bearer {TRADER}")], timeout=patient(5))
                    number += 1
                except grpc.RpcError:
                    has_ended.wait(0.1)

    with in_background(submit):
        yield


def test_who_has_no_token_sees_how_to_log_in_and_who_has_a_wrong_one_why_not(looker: Looker) -> None:
    expect(looker.page.locator("#login")).to_be_visible(timeout=PATIENCE_MS)
    looker.page.fill("#token", "x" * 40)
    looker.page.click("#login-form button")
    expect(looker.page.locator("#login-problem")).to_contain_text("rejected", timeout=PATIENCE_MS)
    looker.at_both_sizes("login")
    log_in(looker)
    looker.page.click("#logout")
    expect(looker.page.locator("#login")).to_be_visible(timeout=PATIENCE_MS)
    looker.page.reload()
    expect(looker.page.locator("#login")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.thorough
def test_every_view_of_an_idle_cluster_fits_the_screen(looker: Looker) -> None:
    log_in(looker)
    expect(looker.page.locator("#members .card")).to_have_count(3)
    for view in VIEWS:
        looker.open(view)
        looker.at_both_sizes("idle" if view == "overview" else f"idle-{view}")
    expect(looker.page.locator("#consumers-table")).to_contain_text("no durable consumers", timeout=PATIENCE_MS)


@pytest.mark.thorough
def test_under_load_charts_move_messages_are_read_and_orders_are_confirmed_first(
    looker: Looker, gateway: GatewayProcess, guarded: LocalCluster
) -> None:
    page = looker.page
    await_level(guarded)
    log_in(looker)
    with load(gateway):
        expect(page.locator("#chart-latency polyline").first).to_be_visible(timeout=PATIENCE_MS)
        page.wait_for_timeout(float(os.environ.get("ORDO_PICTURES_LOAD_MS", "1000")))
        looker.at_both_sizes("load")
        looker.open("sessions")
        expect(page.locator("#session-table td", has_text="trader")).to_have_count(1)
        looker.open("messages")
        page.click("#messages-form button")
        expect(page.locator("#message-list .entry .decoded").first).to_contain_text("amount", timeout=PATIENCE_MS)
        shown = page.locator("#message-list .entry").count()
        page.click("#more")
        expect(page.locator("#message-list .entry")).not_to_have_count(shown, timeout=PATIENCE_MS)
        expect(page.locator("#message-list .entry", has_text=ARRIVED).first).to_be_visible(timeout=PATIENCE_MS)
        looker.at_both_sizes("load-messages")
        looker.open("live")
        page.click("#live-form button")
        expect(page.locator("#live-list .entry", has_text=ARRIVED).first).to_be_visible(timeout=PATIENCE_MS)
        order_snapshot(looker)
        looker.open("log")
        expect(page.locator("#line .snapshot")).not_to_have_count(0, timeout=PATIENCE_MS)
        looker.at_both_sizes("load-log")


def order_snapshot(looker: Looker) -> None:
    page = looker.page
    looker.open("orders")
    page.click("[data-order=snapshot]")
    looker.page.screenshot(path=looker._folder / "console-confirm-1280.png")
    page.click("#confirm button[value=cancel]")
    expect(page.locator("#order-log")).to_contain_text("none yet")
    page.click("[data-order=snapshot]")
    page.click("#confirm-ok")
    expect(page.locator("#order-log")).to_contain_text("a snapshot was taken", timeout=PATIENCE_MS)


def shows_leader(looker: Looker, cluster: LocalCluster) -> bool:
    return f"member {cluster.leader()} leads" in (looker.page.text_content("#leader") or "")


@pytest.mark.thorough
def test_the_death_of_the_leader_is_seen_as_it_happens(
    looker: Looker, gateway: GatewayProcess, guarded: LocalCluster
) -> None:
    log_in(looker)
    leader = guarded.await_leader()
    with load(gateway):
        guarded.kill(leader)
        try:
            dead = looker.page.locator(".card.trouble").filter(has_text=f"member {leader}")
            expect(dead).to_be_visible(timeout=PATIENCE_MS)
            guarded.await_leader(other_than=leader)
            await_that(lambda: shows_leader(looker, guarded), "the page names the member that leads")
            expect(looker.page.locator("#notes")).to_contain_text(f"member {leader} led term")
            looker.at_both_sizes("dead", "dark")
            looker.open("log")
            looker.at_both_sizes("dead-log", "dark")
        finally:
            guarded.restart(leader)
        looker.open("overview")
        expect(looker.page.locator(".card.trouble")).to_have_count(0, timeout=PATIENCE_MS)


@pytest.mark.thorough
def test_the_page_goes_on_when_the_gateway_comes_back(
    looker: Looker, gateway: GatewayProcess, guarded: LocalCluster, tmp_path: Path
) -> None:
    log_in(looker)
    port = console_of(gateway).rpartition(":")[2]
    gateway.kill()
    expect(looker.page.locator("#link")).to_be_visible(timeout=PATIENCE_MS)
    again = GatewayProcess(guarded, tmp_path / "again.log", "--console", port)
    try:
        expect(looker.page.locator("#login")).to_be_visible(timeout=PATIENCE_MS)
        log_in(looker)
        expect(looker.page.locator("#link")).to_be_hidden(timeout=PATIENCE_MS)
        assert again.stop() == 0, "an open page does not keep the gateway from ending"
    finally:
        if again.process.poll() is None:
            again.kill()
    looker.complaints.clear()
