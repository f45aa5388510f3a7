"""Writes sections of docs/PERFORMANCE.md and its design notes, each between two marks that name a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "PERFORMANCE.md"
NOTES = PAGE.parent / "design/PERFORMANCE-NOTES.md"


def marks(name: str) -> tuple[str, str]:
    """Return the lines before and after a section."""
    return f"<!-- written by `make bench NAME={name.removeprefix('bench-')} WRITE=1` -->", f"<!-- end of {name} -->"


def put_section(name: str, lines: Sequence[str], page: Path = PAGE) -> None:
    """Replace the text between the marks of a section. Raises ValueError if the page has no such marks."""
    begin, end = marks(name)
    text = page.read_text()
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{page} has no section between {begin!r} and {end!r}; put both lines where it belongs")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
