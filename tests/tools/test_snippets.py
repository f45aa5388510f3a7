"""What the pages of docs/ and the README show can be typed: commands with their options, programs, configurations."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import typer
from typer.core import TyperGroup

from ordo.cli import app
from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.settings.settings_text import tables_of
from ordo.transport.driver.channels.settings import MediaDriverSettings
from tests.snippets import Page, blocks_of, open_page, texts_of
from tools.source import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DRIVER_KEYS = {re.sub("_(ns|bytes)$", "", field.name) for field in fields(MediaDriverSettings)}


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if texts_of(page.read_text(), language)]


def commands_of(page: Path) -> list[list[str]]:
    """The words of each `ordo` command, without what a shell makes of the line's end."""
    found = []
    for text in texts_of(page.read_text(), "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\||[|;{]|>>?|\s&(?:\s|$)", line.split(" #")[0]):
                words = part.split()
                while words and re.fullmatch(r"[A-Z_]+=\S*|\$|until|if|do|\w+=\$\(ordo", words[0]):
                    words = words[1:]
                if words[:1] == ["ordo"]:
                    found.append(shlex.split(" ".join(words[1:])))
    return found


def refusal(words: list[str]) -> str:
    """Returns why the command line would refuse the words: "" if it takes them."""
    command: Any = typer.main.get_command(app)
    context: Any = None
    try:
        while True:
            context = command.context_class(command, parent=context, **command.context_settings)
            _, words, _ = command.make_parser(context).parse_args(list(words))
            if not isinstance(command, TyperGroup) or (command.invoke_without_command and not words):
                return ""
            _, command, words = command.resolve_command(context, words)
    except Exception as error:  # typer brings in errors of its own, under no public name
        return str(error) or type(error).__name__


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.stem)
def test_every_command_knows_its_options(page: Path) -> None:
    refused = {" ".join(words): refusal(words) for words in commands_of(page)}
    assert {words: why for words, why in refused.items() if why} == {}


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.stem)
def test_every_program_compiles(page: Path) -> None:
    for text in texts_of(page.read_text(), "python"):
        compile(text, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", pages_with("toml"), ids=lambda page: page.stem)
def test_every_setting_is_one(page: Path) -> None:
    known = {table.header.strip("[]"): {key.name for key in table.keys} for table in tables_of(NodeSettings)}
    for text in texts_of(page.read_text(), "toml"):
        for name, table in tomlkit.parse(text).unwrap().items():
            if name in DRIVER_KEYS and page.stem == "DRIVER":
                continue
            for row in table if isinstance(table, list) else [table]:
                assert name in known, f"{page.name}: [{name}]"
                assert set(row) - known[name] == set(), f"{page.name}: [{name}]"


WORD_FOR_WORD = {
    "START.md": "tests/cli/test_start.py",
    "PAYMENTS.md": "tests/cli/test_payments.py",
    "TUTORIAL.md": "tests/cli/test_tutorial.py",
    "DEBUGGING.md": "tests/debugging/test_page.py",
    "BACKUP.md": "tests/cluster/integration/test_backup_page.py",
    "STANDBY.md": "tests/cluster/integration/test_standby.py",
    "SIZING.md": "tests/cluster/node/test_sizing.py",
    "SERVICES.md": "tests/examples/test_services_page.py",
    "MESSAGES.md": "tests/cli/test_messages_page.py",
    "PIPELINE.md": "tests/pipeline/test_page.py",
    "README.md": "tests/ordo/test_readme.py",
}
"""Pages of which a test of their own takes every block; those of other pages are taken with `open_page`."""


def test_no_page_has_a_snippet_that_nobody_runs() -> None:
    """`open_page` fails for a block that its test leaves over, so it is enough that every page is opened by a test."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    opened = {name for text in texts for name in re.findall(r'open_page\("([\w.]+)"\)', text)}
    for page, file in WORD_FOR_WORD.items():
        assert page in (ROOT / file).read_text(), file
    shown = {page.name for page in PAGES if any(block.language for block in blocks_of(page.read_text()))}
    assert shown - opened - set(WORD_FOR_WORD) == set()


def test_a_block_that_a_test_leaves_over_is_found() -> None:
    with (
        pytest.raises(AssertionError, match=r"docs/UPGRADES\.md: no test runs:\n```sh\nordo cluster versions"),
        open_page("UPGRADES.md") as page,
    ):
        page.take("toml")
    with pytest.raises(AssertionError, match="has no such block, or none that is left: sh: ordo nothing"):
        Page("UPGRADES.md").take("sh", "ordo nothing")
    with pytest.raises(AssertionError, match=r"no tests/cli/test_start\.py::test_nothing"):
        Page("UPGRADES.md").run_by("tests/cli/test_start.py::test_nothing", "versions")


def test_a_command_that_is_wrong_is_found() -> None:
    assert "--confg" in refusal(["cluster", "status", "--confg", "node.toml"])
    assert "--config" in refusal(["node", "--config"])
    assert "stauts" in refusal(["cluster", "stauts"])
    assert refusal(["cluster", "status", "--config", "node.toml"]) == ""
