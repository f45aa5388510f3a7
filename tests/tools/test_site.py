"""The documentation site: it builds without a warning, loads nothing from elsewhere, and a broken link fails it."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright

from tools.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CHROMIUM = shutil.which("chromium")
LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"' >]+)"""
    r"""|<link\b[^>]*\bhref=["']?([^"' >]+)|url\(["']?([^"')]+)"""
)


def build(site: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow", reason="the API reference of ordo.read needs it")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.thorough
def test_pages_examples_and_reference_are_there(site: Path) -> None:
    pages = {str(path.relative_to(ROOT / "docs").with_suffix(".html")) for path in (ROOT / "docs").rglob("*.md")}
    pages = {page.replace("README", "index") for page in pages}
    examples = {f"source/{path.relative_to(ROOT)}.html" for path in (ROOT / "examples").glob("[a-z]*.py")}
    wanted = pages | examples | {"index.html", "source/examples.html", "api/ordo.html", "api/ordo/errors.html"}
    built = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    assert wanted - built == set()
    assert "StorageFullError" in (site / "search" / "search_index.json").read_text()


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    loaded = set()
    for path in (path for path in site.rglob("*") if path.suffix in (".html", ".css")):
        loaded |= {address for found in LOADS.findall(path.read_text()) for address in found if address}
    assert len(loaded) > 20
    assert [one for one in loaded if re.match(r"(https?:)?//", one)] == []


def test_a_broken_link_and_a_broken_anchor_fail_the_build(tmp_path: Path) -> None:
    """In a site of one page, with the settings of ours that say what is wrong."""
    (tmp_path / "docs").mkdir()
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    config = {key: config[key] for key in ("site_name", "strict", "validation")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    page = tmp_path / "docs" / "index.md"
    for link, is_good in (("#here", True), ("#there", False), ("gone.md", False)):
        page.write_text(f"# Here\n\n[text]({link})\n")
        done = build(tmp_path / "site", config=tmp_path / "mkdocs.yml")
        assert (done.returncode == 0) is is_good, done.stderr


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the site is looked at with it")
@pytest.mark.thorough
def test_a_browser_asks_no_other_host(address: str) -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for name in ("index.html", "CONCEPTS.html", "ERRORS.html", "api/ordo.html"):
            page.goto(f"{address}/{name}")
        page.goto(f"{address}/CONCEPTS.html")
        for picture in page.locator("article img").all():
            assert picture.evaluate("one => one.naturalWidth") > 0
        browser.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
