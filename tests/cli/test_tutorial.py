"""docs/TUTORIAL.md, word for word, in an empty folder."""

from __future__ import annotations

import pytest

from ordo.deploy.launcher import ROOT
from tests.cli.pages import Folder, Shell, await_end, follow, on_ports_of_its_own, replacing
from tests.snippets import blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.thorough  # docs/START.md is followed in each run
def test_the_page_word_for_word(folder: Folder) -> None:
    follow_page(folder)


@pytest.mark.soak  # it takes all cores from whatever runs beside it
def test_the_page_word_for_word_on_a_busy_machine(folder: Folder, load: None) -> None:
    follow_page(folder)


def follow_page(folder: Folder) -> None:
    (_, made), *blocks = blocks_of((ROOT / "docs" / "TUTORIAL.md").read_text())
    shell = Shell(folder=folder.path, environment=folder.environment)
    try:
        shell.run(made)
        base = on_ports_of_its_own(*(folder.path / "bank").glob("node*.toml"))
        follow(blocks, shell, replacing(base))
    finally:
        shell.close()
    await_end(folder.path / "bank")
