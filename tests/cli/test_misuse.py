"""What people do wrong: each ends with one line that says what and what to do, and with the right exit status."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.deploy.launcher import ROOT
from tests.cluster.integration.command import demand_one_line, ordo
from tests.patience import patient

GOOD = """
[node]
member_id = 0
data_dir = "{data}"
[[members]]
id = 0
host = "127.0.0.1"
port = 21870
"""
PORTS_PER_MEMBER = 5
SERVICE = ["--service", "ordo.bench.loads.echo:Echo"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(GOOD.format(data=tmp_path / "data"))
    return path


def run_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that is refused before it starts anything, in this process: a new one takes as long as ten.

    Nothing comes in.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO())
        status = run(list(arguments))
    shown = capsys.readouterr()
    return subprocess.CompletedProcess(arguments, status, shown.out, shown.err)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nodes"], 2, ["nodes", "ordo --help"]),
        (["node", "--config", "{missing}", *SERVICE], 2, ["none.toml", "cannot read"]),
        (["node", "--config", "{folder}", *SERVICE], 2, ["cannot read"]),
        (["node", *SERVICE], 2, ["--config"]),
        (["node", "--config", "{config}"], 2, ["service", "--service module:Class"]),
        (["cluster", "status", "--config", "{config}"], 1, ["member 0 is not running on this machine"]),
        (["log", "127.0.0.1:1", "--timeout", "0.2"], 1, ["no member served its log within 0.2 s"]),
        (["cluster", "snapshot", "--config", "{config}"], 1, ["member 0 is not running on this machine"]),
        (["cluster", "snapshot", "--config", "{config}", "--timeout", "-1"], 2, ["--timeout"]),
        (["cluster", "add-learner", "--config", "{config}", "7"], 2, ["ID=HOST:PORT"]),
        (["cluster", "transfer", "--config", "{config}", "--to", "9"], 2, ["--to 9", "another member"]),
        (["cluster", "new-token", "desk", "--from-stdin"], 2, ["token of 0 characters", "must be random"]),
        (["cluster", "trust", "--config", "{config}"], 2, ["--accept-loss"]),
        (["stat"], 2, ["--config", "--dir"]),
        (["stat", "--dir", "{missing}"], 1, ["cnc.dat"]),
        (["archive", "list", "{missing}"], 2, ["none.toml", "is not there"]),
        (["init", "{folder}", "--host", "a", "--host", "a"], 2, ["different hosts"]),
        (["init", "{folder}", "--host", "a:1"], 2, ["--host a:1", "without a port"]),
        (["init", "{folder}", "--members", "8"], 2, ["--members 8", "1 to 7"]),
        (["init", "{config}"], 1, ["cannot write"]),
        (["dev", "--service", "no_such:Counter"], 2, ["no module", "no_such"]),
    ],
)
def test_of_the_command_line(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, words: list[str]
) -> None:
    places = {"missing": config.parent / "none.toml", "folder": config.parent, "config": config}
    done = run_here(capsys, *(argument.format(**places) for argument in arguments))
    demand_one_line(done, status, *words)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("counter", ["counter", "module:Class"]),
        ("no_such:Counter", ["no module", "no_such"]),
        ("ordo.bench.loads.echo:Nobody", ["no class", "Nobody"]),
        ("json:JSONDecoder", ["derived from ClusteredService"]),
    ],
)
def test_of_the_code_of_a_service(config: Path, service: str, words: list[str]) -> None:
    """A child of the node loads it."""
    demand_one_line(ordo("node", "--config", str(config), "--service", service), 2, *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("member_id = 0", "member_id = 3", ["member_id=3", "[0]"]),
        ("member_id = 0", "member_id = 'first'", ["node.member_id", "first", "a whole number"]),
        ("data_dir", "datadir", ["node.datadir", "unknown key"]),
        ("port = 21870", "port = 70000", ["members.0.port", "65531"]),
        ("port = 21870", "", ["host and port"]),
        ("[[members]]", "[members]", ["members", "list"]),
        ("[node]", "[node", ["not TOML", "line"]),
        ("host = ", "[cluster]\nelection_timeout = '1 day'\nhost = ", ["cluster.election_timeout", "1 day", "allowed"]),
        ("host = ", "sync = 'always'\nhost = ", ["members.0.sync", "unknown key"]),
        ("id = 0\nhost", "id = 0\nhost = 'a'\nport = 1\n[[members]]\nid = 0\nhost", ["must be different"]),
    ],
)
def test_of_the_configuration(
    config: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: list[str]
) -> None:
    config.write_text(config.read_text().replace(old, new, 1))
    done = run_here(capsys, "node", "--config", str(config), *SERVICE)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert all(line.startswith(f"ordo: {config}: ") for line in lines), done.stderr
    assert any(all(word in line for word in words) for line in lines), done.stderr


def test_a_service_that_cannot_be_imported_is_one_line_with_its_place(config: Path) -> None:
    folder = config.parent
    for number, (text, words) in enumerate(
        (
            ("class Counter(:\n", ["SyntaxError", ":1"]),
            ("import os\nprint(1 / 0)\n", ["ZeroDivisionError", ":2"]),
            ("import a_package_that_nobody_has\n", ["a_package_that_nobody_has", "not installed"]),
        )
    ):
        (folder / f"broken{number}.py").write_text(text)
        code = (
            f"import os, sys; os.chdir({str(folder)!r}); from ordo.cli import run;"
            f"sys.exit(run(['node', '--config', 'node.toml', '--service', 'broken{number}:Counter']))"
        )
        done = _python(code)
        demand_one_line(done, 2, f"broken{number}", *words)


def _take_ports(taken: ExitStack) -> int:
    """Bind all ports of a member, of which another test's process may have one just now; return the first."""
    for first in range(21_000, 32_000, PORTS_PER_MEMBER):
        with ExitStack() as some, suppress(OSError):
            for port in range(first, first + PORTS_PER_MEMBER):
                some.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("127.0.0.1", port))
            taken.push(some.pop_all())
            return first
    raise AssertionError("no ports are free")


def test_a_port_that_is_taken_and_a_folder_that_cannot_be_made(config: Path) -> None:
    with ExitStack() as taken:
        port = _take_ports(taken)
        config.write_text(re.sub(r"port = \d+", f"port = {port}", config.read_text()))
        done = ordo("node", "--config", str(config), *SERVICE)
        demand_one_line(done, 1, "in use")
        assert any(f":{one};" in done.stderr for one in range(port, port + PORTS_PER_MEMBER)), done.stderr
    config.write_text(GOOD.format(data="/proc/nowhere"))
    demand_one_line(ordo("node", "--config", str(config), *SERVICE), 1, "/proc/nowhere")


def _python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
        env=environment,
    )
