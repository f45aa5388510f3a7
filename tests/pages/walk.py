"""The walk of one message, as docs/ARCHITECTURE.md has it: a table of steps with their files and functions."""

from __future__ import annotations

import re
from typing import NamedTuple

from tools.source import ROOT

PAGE = ROOT / "docs" / "ARCHITECTURE.md"
_FILE = re.compile(r"`([\w/]+\.pyx)`: ((?:`\w+`(?:, )?)+)")


class Step(NamedTuple):
    """A row of the table."""

    text: str
    process: str
    functions: list[tuple[str, str]]
    """File and function, in the order of their calls."""
    moment: str
    """How a trace calls it, or empty."""


def read_walk() -> list[Step]:
    """Return the steps of the table, the first one first."""
    table = PAGE.read_text().partition("| step | process | files and functions | in a trace |\n|---|---|---|---|\n")[2]
    steps = []
    for row in table.partition("\n\n")[0].splitlines():
        text, process, calls, moment = (cell.strip() for cell in row.strip("|").split("|"))
        functions = [(file, name) for file, names in _FILE.findall(calls) for name in re.findall(r"\w+", names)]
        steps.append(Step(text, process, functions, moment))
    return steps
