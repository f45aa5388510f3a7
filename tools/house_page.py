"""The table of rooms in docs/ARCHITECTURE.md, out of tools/rooms.py. `python -m tools.house_page` writes it."""

from __future__ import annotations

from tools.rooms import ROOMS
from tools.source import ROOT, Problem

PAGE = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN = "<!-- Written by `make fix` out of tools/rooms.py; do not edit. -->\n"
END = "<!-- End of what `make fix` writes. -->\n"


def table() -> str:
    """Return the rooms with their roles, from the ground up."""
    rows = "".join(f"| `{room}/` | {role} |\n" for room, role in ROOMS.items())
    return f"| room | role |\n|---|---|\n{rows}"


def render(page: str) -> str:
    """Return the page with its table as the rooms are now. Raises ValueError where the page has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks the lines between which the rooms stand")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def check() -> list[Problem]:
    page = PAGE.read_text()
    return [] if page == render(page) else [Problem(PAGE, 1, "not what tools/rooms.py says; write it with `make fix`")]


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
