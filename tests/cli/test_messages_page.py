"""docs/MESSAGES.md, word for word, in an empty folder."""

from __future__ import annotations

import pytest

from ordo import messages
from ordo.deploy.launcher import ROOT
from tests.cli.pages import Folder, Shell, follow
from tests.snippets import blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
PAGE = (ROOT / "docs" / "MESSAGES.md").read_text()


def test_the_page_word_for_word(folder: Folder) -> None:
    shell = Shell(folder=folder.path, environment=folder.environment)
    try:
        follow(blocks_of(PAGE), shell)
    finally:
        shell.close()
    text = (folder.path / "bank2.py").read_text()
    assert "since=1" in text


def test_every_name_for_messages_is_on_the_page() -> None:
    assert [name for name in messages.__all__ if name not in PAGE and name != "MessageView"] == []
