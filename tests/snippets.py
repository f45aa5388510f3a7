"""The fenced blocks of a page: what every test that runs or checks a page's snippets reads them with."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block; one without a language is what a command prints."""

    language: str
    text: str


def blocks_of(text: str) -> list[Block]:
    """All blocks of a page, or of a part of one."""
    return [Block(match[2], textwrap.dedent(match[1] + match[3])) for match in FENCE.finditer(text)]


def texts_of(text: str, language: str) -> list[str]:
    """The blocks in one language."""
    return [block.text for block in blocks_of(text) if block.language == language]


class Page:
    """A page of docs/ whose every block is run by a test. Made by `open_page`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left = [block for block in blocks_of((ROOT / "docs" / name).read_text()) if block.language]

    def take(self, language: str, words: str = "") -> str:
        """The first block in a language, of those that nobody has taken, that has the words; the test runs it."""
        return self._take(lambda block: block.language == language and words in block.text, f"{language}: {words}").text

    def take_all(self, language: str) -> list[str]:
        """All blocks in a language that nobody has taken."""
        found = [block.text for block in self.left if block.language == language]
        self.left = [block for block in self.left if block.language != language]
        return found

    def run_by(self, place: str, *words: str) -> None:
        """The blocks with these words, one for each, are run by another test: `tests/file.py::test_name`."""
        file, _, test = place.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"no {place}"
        for one in words:
            self._take(lambda block, one=one: one in block.text, one)  # type: ignore[misc]

    def _take(self, is_meant: Callable[[Block], bool], what: str) -> Block:
        for block in self.left:
            if is_meant(block):
                self.left.remove(block)
                return block
        raise AssertionError(f"docs/{self.name} has no such block, or none that is left: {what}")


@contextmanager
def open_page(name: str) -> Iterator[Page]:
    """A page, of which nothing may be left in the end: a new snippet that no test runs fails here."""
    page = Page(name)
    yield page
    left = "\n".join(f"```{block.language}\n{block.text}" for block in page.left)
    assert not left, f"docs/{name}: no test runs:\n{left}"
