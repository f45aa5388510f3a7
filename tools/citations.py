"""Citations such as `cluster-consensus.md §19`, in code as in docs: the page exists, and so does the section.

Sections are those with a number, as docs/spec/ has them. Several in a row are one citation: `archive.md A7, B3`,
`log-buffer.md §3-§5`, `cluster-consensus.md §3 (members), §11`. On a page of docs/spec/ `§5` alone is that page's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.source import ROOT, Problem, files

_PAGE = re.compile(r"(?<![\w./<>*-])(?<!\]\()(?P<page>[A-Za-z][\w./-]*\.md)\b")
_BETWEEN = r"(?:[\s,:`#*]|//|\([^()]*\)|\b(?:and|to|or)\b|-)*"
_SECTION = re.compile(_BETWEEN + r"(?:§ ?(?P<number>\d+(?:\.\d+)*)|(?P<lettered>[A-Z]\d+(?:\.\d+)*))")
_ALONE = re.compile(r"(?:§ ?|\b[Ss]ection )(?P<number>\d+(?:\.\d+)*)")
_HEADING = re.compile(r"^#+ (?P<number>[A-Z]?\d+(?:\.\d+)*)\b", re.MULTILINE)


def pages() -> list[Path]:
    return [path for path in sorted(ROOT.glob("*.md")) if path.is_file()] + sorted((ROOT / "docs").rglob("*.md"))


def _citing() -> Iterator[Path]:
    """Everything that may cite: pages and sources. Tests of the tools plant citations that are wrong."""
    yield from pages()
    for path in files(".py", ".pyi", ".pyx", ".pxd", ".h", ".proto"):
        if path.parent != ROOT / "tests" / "tools":
            yield path


def _cited_page(name: str, citing: Path) -> Path | None:
    for folder in (citing.parent, ROOT / "docs" / "spec", ROOT / "docs", ROOT):
        if (folder / name).is_file():
            return folder / name
    return None


@cache
def _sections(page: Path) -> frozenset[str]:
    return frozenset(match["number"] for match in _HEADING.finditer(page.read_text()))


def _cited_sections(text: str, start: int) -> Iterator[tuple[int, str]]:
    """(offset, section) of the sections named right after a page's name that ends at `start`."""
    while match := _SECTION.match(text, start):
        yield match.end(), match["number"] or match["lettered"]
        start = match.end()


def _citations(path: Path, text: str) -> Iterator[tuple[int, str, str | None]]:
    """(offset, page, section) of everything that the text cites."""
    within_others = set()
    for match in _PAGE.finditer(text):
        yield match.start(), match["page"], None
        for end, section in _cited_sections(text, match.end()):
            within_others.add(end)
            yield end - 1, match["page"], section
    if path.parent == ROOT / "docs" / "spec" and path.name != "README.md":
        for match in _ALONE.finditer(text):
            if match.end() not in within_others:
                yield match.start(), path.name, match["number"]


def check() -> list[Problem]:
    _sections.cache_clear()
    found = []
    for path in _citing():
        text = path.read_text()
        for offset, name, section in _citations(path, text):
            line = text.count("\n", 0, offset) + 1
            page = _cited_page(name, path)
            if page is None and section is None:
                found.append(Problem(path, line, f"cites a page that does not exist: {name}"))
            elif page is not None and section is not None and section not in _sections(page):
                found.append(Problem(path, line, f"{name} has no section {section}"))
    return found
