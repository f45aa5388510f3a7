"""No text from outside reaches a terminal as it came: one function escapes it, and all commands pass through that."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.core import TyperCommand

from ordo import cli
from ordo.archive.inspection.recording_sources import FolderCommand
from ordo.cli import run
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CountersManager
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.reporting.output import LINES, printable
from ordo.runtime.reporting.terminal import output_console
from ordo.transport.driver.flow.loss_report import FILE_NAME as LOSS_FILE_NAME
from ordo.transport.driver.flow.loss_report import LossReport
from tests.cli.test_every_command import commands
from tests.cli.test_look import FakeNode
from tools.source import PACKAGES

ROOT = Path(__file__).parent.parent.parent
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \x7f \u202eright to left \r[red]x[/] [/nothing] :smile: \ud800"
OBEYED = [*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2066", "\u2028", "\ud800"]
ALIAS = "aeron:udp?alias=\x1b[2J\nforged row|endpoint=[::1]:1"


@pytest.mark.parametrize("char", OBEYED)
def test_what_a_terminal_obeys_is_escaped(char: str) -> None:
    shown = printable(f"a{char}b")
    assert shown.isprintable() and shown[0] + shown[-1] == "ab"
    assert shown[1:-1].encode().decode("unicode_escape") == char, "and can be read"


def test_what_is_text_stays() -> None:
    text = "Grüße, 世界 🙂 [red] \\x1b :smile:"
    assert printable(text) is text or printable(text) == text
    assert printable("a\n\tb\x1b", LINES) == "a\n\tb\\x1b"


def demand_harmless(shown: str) -> None:
    """Nothing but text and the ends of lines."""
    assert all(char.isprintable() for char in shown.replace("\n", "")), ascii(shown)


def every_command() -> Iterator[str]:
    """Each command that can be given, with its groups, those of the pipeline too."""
    root: Any = typer.main.get_command(cli.app)
    for name in root.list_commands(None):
        yield from (found for found, _ in commands(root.get_command(None, name), (name,)))
    from ordo.pipeline.pipeline_commands import app as pipeline_app

    yield from (f"pipeline {found}" for found, _ in commands(typer.main.get_command(pipeline_app), ()))


def show_hostile_text(*_: object) -> NoReturn:
    """What any command may do with a text."""
    print(HOSTILE)
    typer.echo(HOSTILE)
    output_console().print(HOSTILE)
    raise ClusterError(f"the service said: {HOSTILE}")


@pytest.mark.parametrize("name", sorted(set(every_command()) - {"pipeline"}))
def test_no_command_hands_on_what_a_terminal_obeys(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in (TyperCommand, FolderCommand):
        monkeypatch.setattr(kind, "parse_args", lambda *_: [])
        monkeypatch.setattr(kind, "invoke", show_hostile_text)
    parts = name.split()
    if parts[0] == "pipeline":
        monkeypatch.setattr(cli, "_support", lambda *_: pipeline_stand_in)
        parts = ["completion"] if parts == ["pipeline"] else parts
    assert run(parts) == 1
    captured = capsys.readouterr()
    demand_harmless(captured.out)
    demand_harmless(captured.err)
    assert captured.out.count(printable("\x1b[2J")) >= 2, "and it is shown"  # typer's echo drops it off a terminal
    assert "[red]x[/] [/nothing] :smile:" in captured.out
    assert captured.err.startswith("ordo: the service said: \\x1b[2J")


def pipeline_stand_in(arguments: list[str], **_: object) -> int:
    """The pipeline's own command line, where the commands are found by name as usual."""
    from ordo.pipeline.pipeline_commands import app

    found: Any = app(arguments, prog_name="ordo pipeline", standalone_mode=False)
    return int(found or 0)


class HostileImage:
    """An image whose stream a stranger named."""

    correlation_id, session_id, stream_id = 9, 7, 10
    channel, source_identity = ALIAS, "10.0.0.1:1\x1b[31m"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    """A node whose counters, errors and losses are full of what a stranger chose."""
    node = FakeNode(tmp_path)
    manager = CountersManager(node.cnc.counters_metadata, node.cnc.counters_values, SystemClock())
    channel = ALIAS.encode()
    for type_id, name in ((2, "snd-pos"), (12, "pub-pos (exclusive)"), (4, "sub-pos"), (5, "rcv-pos")):
        key = struct.pack("<qiii", 9, 7, 10, len(channel)) + channel
        manager.allocate(type_id, f"{name}: 9 7 10 {ALIAS}", key[:112], value=5)
    node.error_log.record(f"channel {ALIAS} {HOSTILE}".encode("utf-8", "replace").decode())
    memory = FileMemoryProvider().create(str(node.aeron_dir / LOSS_FILE_NAME), 4096)
    LossReport(memory, SystemClock()).record(HostileImage, 100)
    memory.close()
    return node


@pytest.mark.parametrize("command", ["stat", "errors", "streams", "backlog", "loss"])
def test_a_stranger_s_alias_is_shown_and_does_nothing(
    command: str, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--dir", str(node.aeron_dir)]) == 0
    shown = capsys.readouterr().out
    demand_harmless(shown)
    whole = "".join(shown.split())  # columns are narrow
    assert "\\x1b[2J" in whole and "forged" in whole
    if command != "errors":  # whose texts have lines of their own, all of them set in
        assert "\\nforged" in whole
    assert not any(line.startswith("forged") for line in shown.splitlines())


def test_nothing_writes_past_the_one_function() -> None:
    """Consoles and tables are made in runtime/reporting/terminal.py; nothing else of rich gets text as it came."""
    for folder in PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path == ROOT / "runtime" / "reporting" / "terminal.py" or path.name.endswith("_pb2_grpc.py"):
                continue
            tree = ast.parse(path.read_text())
            imported = {f"{one.module}" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
            for found in ast.walk(tree):
                if isinstance(found, ast.Call):
                    called = ast.unparse(found.func)
                    assert called != "Console" or "rich.console" not in imported, path
                    assert called not in ("sys.__stdout__.write", "sys.__stderr__.write"), path
                    if called == "print" and any(one.arg == "file" for one in found.keywords):
                        target = next(ast.unparse(one.value) for one in found.keywords if one.arg == "file")
                        assert target in ("sys.stderr", "sys.stdout"), f"{path}: print(file={target})"
