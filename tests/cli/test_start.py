"""docs/START.md, command for command, in an empty folder; and `ordo dev` with a change of the code."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.launcher import ROOT
from tests.cluster.integration.agreement import await_that

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "START.md").read_text()
TIMEOUT_S = 60.0


def shell_blocks() -> list[list[str]]:
    return [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]


def expected_outputs() -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for language, text in blocks if not language]


def on_ports_of_its_own(*paths: Path) -> int:
    """Puts ports that nobody uses into the files, instead of 20000, 20010 and 20020. Returns the first of them."""
    for base in range(32_000, 32_700, 30):
        with ExitStack() as stack:
            try:
                for port in (base + 10 * member_id + offset for member_id in range(3) for offset in range(5)):
                    stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("127.0.0.1", port))
            except OSError:
                continue
        for path in paths:
            changed = re.sub(r"\b200([012])0\b", lambda match: str(base + 10 * int(match[1])), path.read_text())  # noqa: B023
            path.write_text(changed)
        return base
    raise AssertionError("no free ports")


class Folder:
    """Where the commands run, with `ordo` and `python` on the path; its processes are ended with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started: list[subprocess.Popen[str]] = []
        commands = path / "bin"
        commands.mkdir()
        for name, arguments in (("ordo", "-P -m ordo.cli"), ("python", "")):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
            script.chmod(0o755)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.path, env=self.environment, text=True)
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            process.wait(TIMEOUT_S)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    one = Folder(tmp_path)
    yield one
    one.close()


def leads(folder: Folder, member_id: int) -> bool:
    command = f"ordo cluster status --config node{member_id}.toml"
    done = subprocess.run(command.split(), cwd=folder.path, env=folder.environment, capture_output=True, text=True)
    return done.returncode == 0 and "LEADER" in done.stdout


def test_the_page_word_for_word(folder: Folder) -> None:
    """The leader is killed; whichever leads afterwards ends the cluster, where the page has one of three."""
    made, nodes, first, status, second, shutdown, _dev, _hosts = shell_blocks()
    folder.run(" && ".join([*made, "ls"]))
    folder.path /= "try"
    on_ports_of_its_own(*folder.path.glob("node*.toml"), folder.path / "add.py")
    for command in nodes:
        folder.start(command.removesuffix("&"))
    answers = expected_outputs()
    assert folder.run(first[0]) == answers[0]
    assert "commit position" in folder.run(status[0])
    await_that(lambda: any(leads(folder, member_id) for member_id in range(3)), "a leader")
    leader = next(member_id for member_id in range(3) if leads(folder, member_id))
    folder.started[leader].send_signal(signal.SIGKILL)
    folder.started[leader].wait(TIMEOUT_S)
    assert folder.run(second[0]) == answers[1]
    folder.start(nodes[leader].removesuffix("&"))
    others = [member_id for member_id in range(3) if member_id != leader]
    await_that(lambda: any(leads(folder, member_id) for member_id in others), "a new leader")
    successor = next(member_id for member_id in others if leads(folder, member_id))
    folder.run(shutdown[0].replace("node1", f"node{successor}"))
    assert [process.wait(TIMEOUT_S) for process in folder.started[-1:]] == [0]


def test_dev_starts_again_with_the_changed_code_and_survives_a_broken_one(folder: Folder) -> None:
    folder.run("ordo init .")
    port = on_ports_of_its_own(folder.path / "add.py")
    log = folder.path / "dev.log"
    log.touch()
    process = folder.start(f"ordo dev --service counter:Counter --port {port} > dev.log 2>&1")
    await_that(lambda: "^C ends it" in log.read_text(), "the cluster")
    assert folder.run("python add.py 1 2") == "1\n3\n"
    service = folder.path / "counter.py"
    good = service.read_text()
    service.write_text(good.replace("+= int(payload)", "+= 10 * int(payload)"))
    await_that(lambda: log.read_text().count("^C ends it") == 2, "the cluster with the changed code")
    assert folder.run("python add.py 1") == "40\n", "the log was executed anew"
    service.write_text("class Counter(:\n")
    await_that(lambda: "waiting for a change" in log.read_text(), "the failure of the broken code")
    assert "SyntaxError" in log.read_text()
    service.write_text(good)
    await_that(lambda: log.read_text().count("^C ends it") == 3, "the cluster with the mended code")
    assert folder.run("python add.py 0") == "4\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0
    assert "Traceback" not in log.read_text()
