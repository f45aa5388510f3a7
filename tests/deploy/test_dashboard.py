"""The dashboard's panels over what a real Prometheus has of three nodes at load, as a picture in a real Chromium.

With ORDO_PICTURES the picture goes into that folder: `make pictures` writes that of docs/OPERATIONS.md.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from ordo import ClusterClient
from ordo.deploy.launcher import LocalCluster
from tests.background import in_background
from tests.cluster.integration.agreement import await_that, await_value
from tests.cluster.integration.command import order
from tests.clusters import await_ready
from tests.deploy.dashboard import WIDTH_PX, Answer, draw, series_of, show_value
from tests.deploy.scraping import ScrapingPrometheus, has_prometheus, make_cluster
from tests.deploy.test_prometheus import DASHBOARD, empty_panels
from tests.patience import patient

CHROMIUM = shutil.which("chromium")
LOAD_S = float(os.environ.get("ORDO_PICTURES_LOAD_MS", "0")) / 1000
"""For a picture with something on it."""
TOO_WIDE = """[...document.querySelectorAll(".panel")].filter(one => {
    const frame = one.querySelector("rect").getBBox(), all = one.getBBox()
    return all.width > frame.width + 1 || all.height > frame.height + 1
}).map(one => one.querySelector("text").textContent)"""
PANELS = json.loads(DASHBOARD.read_text())["panels"]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "short", "0"),
        (12345, "short", "12.3 K"),
        (3, "ops", "3 /s"),
        (2500, "ops", "2.5 K/s"),
        (1536, "bytes", "1.5 KiB"),
        (5 << 20, "Bps", "5 MiB/s"),
        (0, "s", "0 s"),
        (0.00025, "s", "250 µs"),
        (1.5, "s", "1.5 s"),
        (-0.004, "s", "-4 ms"),
    ],
)
def test_values_are_shown_in_the_units_of_the_panels(value: float, unit: str, shown: str) -> None:
    assert show_value(value, unit) == shown


def test_every_unit_of_the_dashboard_is_known() -> None:
    assert {one["fieldConfig"]["defaults"]["unit"] for one in PANELS} <= {"short", "ops", "bytes", "Bps", "s"}
    assert {one["type"] for one in PANELS} == {"stat", "timeseries"}


def test_a_legend_names_series_by_their_labels() -> None:
    panel = {"targets": [{"expr": "x", "legendFormat": "sent, member {{member}}"}]}
    rows = [{"metric": {"member": one}, "values": [[1, "2"], [2, "NaN"]]} for one in ("1", "0")]
    rows.append({"metric": {"member": "2"}, "values": [[1, "NaN"]]})
    found = series_of(panel, lambda expression: rows if expression == "x" else [])
    assert [one.name for one in found] == ["sent, member 0", "sent, member 1"], "a line needs a number"
    assert found[0].points == [(1.0, 2.0)]


@contextmanager
def load(nodes: LocalCluster) -> Iterator[None]:
    """Requests of 200 bytes, one after the other."""

    def submit(has_ended: threading.Event) -> None:
        with ClusterClient(nodes.ingress_endpoints) as client:
            while not has_ended.wait(0.002):
                client.request(bytes(200), timeout_s=patient(30))

    with in_background(submit):
        yield


def last_minute(prometheus: ScrapingPrometheus, cluster: str) -> Answer | None:
    """What each expression of the dashboard is, second by second, until now; None if a panel would be empty: on a busy
    machine scrapes fail, and their points are missing."""
    end_s = time.time()

    @cache
    def answer(expression: str) -> list[dict[str, Any]]:
        return prometheus.query_range(expression.replace("$cluster", cluster), end_s - 60, end_s)

    return answer if all(series_of(panel, answer) for panel in PANELS) else None


def picture_of(page_text: str, path: Path) -> None:
    """Demands that the page is as wide as it should be, and that Chromium has nothing to say of it."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            page = chromium.new_page(viewport={"width": WIDTH_PX, "height": 800})
            page.on("console", lambda one: complaints.append(one.text))
            page.set_content(page_text)
            assert page.evaluate("document.documentElement.scrollWidth") == WIDTH_PX
            titles = page.locator(".panel > text:first-of-type").all_text_contents()
            assert titles == [one["title"] for one in PANELS]
            lines = page.locator(".panel.timeseries").filter(has=page.locator("polyline")).count()
            assert lines == sum(one["type"] == "timeseries" for one in PANELS)
            wide = page.evaluate(TOO_WIDE)
            assert wide == [], "what is drawn stays inside its panel"
            page.screenshot(path=path, full_page=True)
        finally:
            chromium.close()
    assert complaints == []


@has_prometheus
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the panels are drawn with it")
def test_every_panel_is_drawn_with_what_prometheus_has_of_three_nodes_at_load(tmp_path: Path) -> None:
    folder = Path(os.environ.get("ORDO_PICTURES") or tmp_path)
    nodes, ports = make_cluster("commit")
    with nodes:
        await_ready(nodes)
        prometheus = ScrapingPrometheus(tmp_path, ports)
        try:
            with load(nodes):
                await_that(lambda: len(prometheus.query("ordo_build_info")) == 3, "three members are scraped")
                await_that(lambda: not empty_panels(prometheus), "an answer for every panel")
                time.sleep(LOAD_S)
                assert order(nodes, "snapshot").returncode == 0
                time.sleep(LOAD_S)
                (cluster,) = {row["metric"]["cluster"] for row in prometheus.query("ordo_build_info")}
                answer = await_value(partial(last_minute, prometheus, cluster), "a point for every panel")
                title = "deploy/grafana/ordo.json: three members at load, drawn by a test of Ordo, not by Grafana"
                picture_of(draw(json.loads(DASHBOARD.read_text()), answer, title), folder / "dashboard-1280.png")
        finally:
            prometheus.close()
