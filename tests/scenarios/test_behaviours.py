"""docs/BEHAVIOURS.md names tests that are there, and every line of the checklist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "BEHAVIOURS.md"
LINES = range(1, 191)
SCENARIO_LINES = range(1, 126)
GAPS = 6
ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`([\w/]+\.(?:txt|py)(?:::\w+)?)`", row)})


@pytest.mark.parametrize("named", NAMED)
def test_what_is_named_is_there(named: str) -> None:
    file, _, function = named.partition("::")
    assert (TESTS / file).is_file(), f"{file} is not there"
    if function:
        assert re.search(rf"^def {function}\(", (TESTS / file).read_text(), re.MULTILINE), f"no test {named}"


def test_every_line_has_a_test_or_a_reason() -> None:
    rows = {int(found[1]): row for row in ROWS if (found := re.match(r"\| (\d+) \|", row))}
    assert sorted(rows) == list(LINES)
    for row in rows.values():
        assert ".txt`" in row or ".py`" in row or "::" in row or "does not apply" in row or "not built" in row, row


def test_every_gap_of_the_peers_tests_is_gone_through() -> None:
    section = PAGE.read_text().partition("## What Aeron's tests do not cover")[2].partition("\n## ")[0]
    gaps = [line for line in section.splitlines() if line.startswith("| ") and line != "| gap | filled by |"]
    assert len(gaps) == GAPS and all(".py" in row for row in gaps)


def test_scenarios_that_name_lines_are_in_the_table() -> None:
    for path in sorted((TESTS / "scenarios").glob("*.txt")):
        lines = re.findall(r"\(behaviours ([\d, ]+)\)", path.read_text())
        if any(int(number) in SCENARIO_LINES for text in lines for number in text.split(",")[:1]):
            assert f"scenarios/{path.name}" in NAMED, f"{path.name} shows {lines} and is not in the table"
