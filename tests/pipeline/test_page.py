"""Every command that docs/PIPELINE.md shows is one that a shell and the command line take as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from ordo.pipeline.lake.lake_commands import lake_app
from ordo.pipeline.pipeline_commands import app
from tests.snippets import texts_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "PIPELINE.md").read_text()
GROUPS = {"ordo pipeline ": app, "ordo lake ": lake_app}


def shown() -> list[str]:
    """The commands of shell blocks and of the tables; continued lines are one command."""
    blocks = "\n".join(texts_of(PAGE, "sh")).replace("\\\n", " ").splitlines()
    tables = re.findall(r"^\| `(ordo pipeline [^`]*)`", PAGE, re.MULTILINE)
    return [line for line in (*blocks, *tables) if line.startswith(tuple(GROUPS))]


@pytest.mark.parametrize("start", list(GROUPS))
def test_the_page_shows_every_command(start: str) -> None:
    commands = set(typer.main.get_command(GROUPS[start]).commands)  # type: ignore[attr-defined]
    assert {command.split()[2] for command in shown() if command.startswith(start)} == commands


@pytest.mark.parametrize("command", [one for one in shown() if " -" in one or "/" in one])
def test_a_command_can_be_typed_as_it_stands(command: str) -> None:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    assert not {"<", ">", "|", "&", ";"} & set(words), "a shell takes this for something else: quote it"
    group = typer.main.get_command(next(one for start, one in GROUPS.items() if command.startswith(start)))
    name, rest = words[2], words[3:]
    group.commands[name].make_context(name, rest).close()  # type: ignore[attr-defined]
