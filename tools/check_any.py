"""How often `Any` stands in each room of the product: a number that may only fall.

`any_allowances.txt` has a line for each room that has some: its number, and why they are there. After a change that
removed some, `python -m tools.check_any` lowers the numbers; it never raises one.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tools.rooms import ROOMS
from tools.source import PACKAGES, ROOT, Problem, files

ALLOWANCES_PATH = ROOT / "tools" / "any_allowances.txt"


def count_any(text: str) -> int:
    """Return how often a module says `Any`, imports left out."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(ast.parse(text)))


def room_of(path: Path) -> str:
    """Return the room that a module is in."""
    folder = path.relative_to(ROOT).parent.as_posix()
    return folder if folder in ROOMS else folder.partition("/")[0]


def count_by_room() -> Counter[str]:
    """Return how often each room of the product says `Any`."""
    counts: Counter[str] = Counter()
    for path in files(".py", ".pyi", packages=PACKAGES):
        counts[room_of(path)] += count_any(path.read_text())
    return +counts


def read_allowances(path: Path) -> dict[str, int]:
    """Return how often `Any` may stand in each room."""
    rows = (line.partition("#")[0].split() for line in path.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if row}


def lower() -> None:
    """Write the numbers of the rooms that have fewer than they may, and leave out those that have none."""
    found, lines = count_by_room(), []
    for line in ALLOWANCES_PATH.read_text().splitlines():
        room, _, rest = line.partition(" ")
        most, _, why = rest.partition(" ")
        if room == "#":
            lines.append(line)
        elif found[room]:
            lines.append(f"{room} {min(found[room], int(most))} {why}")
    ALLOWANCES_PATH.write_text("\n".join(lines) + "\n")


def check() -> list[Problem]:
    """Return the rooms that have more than they may."""
    allowed, found = read_allowances(ALLOWANCES_PATH), count_by_room()
    problems = []
    for room in sorted(found):
        most = allowed.get(room, 0)
        if found[room] > most:
            text = f"`Any` stands {found[room]} times, allowed {most}: name the type, or a Protocol"
            problems.append(Problem(ROOT / room, 1, text))
    return problems


if __name__ == "__main__":
    lower()
