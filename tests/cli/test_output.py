"""Where a command prints to is full, closed, or read by nobody: one line or none, its own exit status, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.deploy.launcher import ROOT
from ordo.runtime.reporting.output import EXIT_OUTPUT_LOST, EXIT_PIPE_CLOSED
from tests.cli.test_look import FakeNode
from tests.patience import patient

LONG = "completion bash"


def in_shell(redirection: str, arguments: str) -> subprocess.CompletedProcess[str]:
    command = f'set -o pipefail; "{sys.executable}" -m ordo.cli {arguments} {redirection}'
    return subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=patient(90), check=False
    )  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.mark.parametrize(
    "command", ["--help", "--version", "completion bash", "stat", "errors", "streams", "loss --help"]
)
@pytest.mark.parametrize(
    ("redirection", "status", "words"),
    [
        (">/dev/full", EXIT_OUTPUT_LOST, "cannot write the output: No space left on device"),
        (">&-", EXIT_OUTPUT_LOST, "cannot write the output: Bad file descriptor"),
        ("| head -c 0", EXIT_PIPE_CLOSED, ""),
    ],
)
def test_of_the_output(node: FakeNode, command: str, redirection: str, status: int, words: str) -> None:
    if command in ("stat", "errors", "streams"):
        command += f" --dir {node.aeron_dir}"
    done = in_shell(redirection, command)
    assert done.returncode == status, done
    assert done.stderr.count("\n") == (1 if words else 0) and words in done.stderr, done.stderr
    assert not words or done.stderr.startswith("ordo: ")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "2> >(exec true)"])
def test_an_error_that_cannot_be_told_keeps_its_status(redirection: str) -> None:
    done = in_shell(redirection, "stat --dir /nowhere")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_command_without_any_stream_works() -> None:
    assert in_shell("<&- >&- 2>&-", "--version").returncode == EXIT_OUTPUT_LOST
    assert in_shell("<&- >&- 2>&-", "stat --dir /nowhere").returncode == 1


def test_a_locale_that_lacks_a_character_gets_its_escape() -> None:
    script = (
        "from ordo.runtime.reporting.output import escaped_output\nwith escaped_output(): print('Gr\\u00fc\\u00dfe')"
    )
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "Gr\\xfc\\xdfe\n"


def test_the_end_of_an_input_is_no_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_too_far(*_: object) -> None:
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")

    from typer.core import TyperCommand

    monkeypatch.setattr(TyperCommand, "invoke", read_too_far)
    assert run(["completion", "bash"]) == 1
    assert capsys.readouterr().err.strip() == (
        "ordo: the input ended too early: Compressed file ended before the end-of-stream marker was reached"
    )


def test_an_interrupt_is_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.core import TyperCommand

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperCommand, "invoke", interrupt)
    assert run(["completion", "bash"]) == 130
    assert capsys.readouterr().err.strip() == ""
