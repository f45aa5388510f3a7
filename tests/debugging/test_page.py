"""docs/DEBUGGING.md on the folders of a running cluster: its commands, its programs, and what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ordo import ClientSettings, ClusterClient
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.deploy.launcher import ROOT, LocalCluster, find_ports
from tests.cluster.integration.agreement import await_that
from tests.clusters import ready_cluster
from tests.pages.background import in_background
from tests.patience import patient
from tests.snippets import blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PAGE = ROOT / "docs" / "DEBUGGING.md"
NUMBERS = re.compile(r"\d{3,}|term[ =]\d+|number=\d+|session=\d+|\d+ (?=records|of)")
"""Positions, times, terms, ids and counts, which are other ones in each log; what is sent and answered stays."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("debug") / "cluster"
    with ready_cluster("ordo.starter.counter:Counter", root=root, member_count=2, sync="none") as started:
        for numbers in (["40", "2"], ["100"]):
            with ClusterClient(list(started.ingress_endpoints.values())) as client:
                for number in numbers:
                    client.request(number.encode())
        yield started


@pytest.fixture
def folder(cluster: LocalCluster, tmp_path: Path) -> Path:
    """The folder `try` of START.md, as far as the page needs it."""
    (tmp_path / "counter.py").write_text((ROOT / "ordo" / "starter" / "counter.py").read_text())
    (tmp_path / "data").mkdir()
    for member_id in cluster.member_ids:
        (tmp_path / "data" / f"node{member_id}").symlink_to(cluster.data_dir(member_id))
    return tmp_path


def shell(folder: Path, text: str) -> str:
    """What a block of the page prints."""
    ordo = f'ordo() {{ {shlex.quote(sys.executable)} -m ordo.cli "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-ec", ordo + text],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def same(text: str) -> str:
    """The text without what is different in each log."""
    return NUMBERS.sub("N", re.sub(r"(?<=answer session=)\d+", "N", text.replace("b'142'", "b'total'"))).replace(
        "total = 142", "total = all"
    )


def has_closed(folder: Path, command: str) -> bool:
    """Whether a member has executed everything, and no client is there any more."""
    said = shell(folder, command)
    return "0 sessions" in said and "142" in said


def test_the_page(folder: Path) -> None:
    state = "ordo debug replay data/node{} --service counter:Counter"
    for member_id in (0, 1):
        await_that(partial(has_closed, folder, state.format(member_id)), "the end of the clients' sessions")
    printed = position = ""
    for language, text in blocks_of(PAGE.read_text()):
        if language == "python":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "sh":
            printed = shell(folder, re.sub(r"(--leave-out|--to) \d+", rf"\1 {position}", text))
            position = next(iter(re.findall(r"first after (\d+)", printed)), position)
        else:
            assert same(printed) == same(text)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_total.py"]
    done = subprocess.run(tests, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_running_cluster_over_the_network(folder: Path, cluster: LocalCluster) -> None:
    addresses = ",".join(archive_endpoint(one) for one in cluster.ingress_endpoints.values())
    words = "--service counter:Counter --break \"payload == b'100'\""
    found = shell(folder, f"ordo debug replay ordo://{addresses} {words}")
    assert found == shell(folder, f"ordo debug replay data/node0 {words}")
    assert found.endswith("total = 142\n")


def test_a_fork_goes_on_by_itself(folder: Path) -> None:
    words = "data/node0 --service counter:Counter"
    found = shell(folder, f"ordo debug replay {words} --break \"payload == b'100'\" --commands - <<< back")
    (position,) = re.findall(r"^(\d+) of", found, re.MULTILINE)
    (port,) = find_ports(1)
    shell(folder, f"ordo debug fork {words} --to {position} --output sandbox --port {port}")
    with (
        in_background(["node", "--config", "sandbox/node0.toml"], folder / "sandbox.log"),
        ClusterClient([f"127.0.0.1:{port}"], settings=ClientSettings(connect_timeout_s=patient(60))) as client,
    ):
        assert client.request(b"1").payload == b"43"
