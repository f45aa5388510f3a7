"""docs/PAYMENTS.md, word for word, in an empty folder: with its wrong turns, and a killed leader."""

from __future__ import annotations

import pytest

from ordo.deploy.launcher import ROOT
from tests.cli.pages import Folder, Shell, await_end, follow, on_ports_of_its_own, programs_in, replacing
from tests.cluster.integration.agreement import await_that
from tests.snippets import blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.thorough
def test_the_page_word_for_word(folder: Folder) -> None:
    follow_page(folder)


@pytest.mark.soak  # what takes all cores for minutes would slow down whatever runs beside it
def test_the_page_word_for_word_on_a_busy_machine(folder: Folder, load: None) -> None:
    follow_page(folder)


def follow_page(folder: Folder) -> None:
    (_, made), *blocks = blocks_of((ROOT / "docs" / "PAYMENTS.md").read_text())
    shell = Shell(folder=folder.path, environment=folder.environment)
    try:
        shell.run(made)
        base = on_ports_of_its_own(*(folder.path / "pay").glob("node*.toml"))
        follow(blocks, shell, replacing(base))
    finally:
        shell.close()
    await_end(folder.path / "pay")
    await_that(lambda: not programs_in(folder.path), "the end of all that the page has started")
