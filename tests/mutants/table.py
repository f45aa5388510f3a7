"""The page of a hunt: what each folder of tests found, what was found of each folder of the product, what survived."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutants.equivalent import EQUIVALENT


def page_of(out: Path) -> str:
    """Return the page, as far as the hunt has come."""
    sample = json.loads((out / "sample.json").read_text())
    said: dict[str, dict[int, dict[str, Any]]] = {}
    for place in sorted(out.glob("*.jsonl")):
        outcomes = [json.loads(line) for line in place.read_text().splitlines()]
        said[place.stem] = {one["number"]: one for one in outcomes}
    finders = Counter(number for those in said.values() for number, one in those.items() if one["found_by"])
    return "\n".join([*_tests(out, said, finders), "", *_product(sample, said, finders)]) + "\n"


def _tests(out: Path, said: dict[str, dict[int, dict[str, Any]]], finders: Counter[int]) -> list[str]:
    lines = [
        "| tests | number | seconds of processor | mutants reached | found | found by no other |",
        "|---|---|---|---|---|---|",
    ]
    for folder, those in said.items():
        place = out / f"{folder}.json"
        facts = json.loads(place.read_text()) if place.exists() else {"tests": "?", "processor_s": "?"}
        found = [number for number, one in those.items() if one["found_by"]]
        reached = sum(one["reaching"] > 0 for one in those.values())
        alone = sum(finders[number] == 1 for number in found)
        if facts["tests"]:
            row = (folder, facts["tests"], facts["processor_s"], reached, len(found), alone)
            lines.append(f"| {' | '.join(map(str, row))} |")
    return lines


def _product(sample: list[list[str]], said: dict[str, dict[int, dict[str, Any]]], finders: Counter[int]) -> list[str]:
    reached = {number for those in said.values() for number, one in those.items() if one["reaching"]}
    rows: dict[str, Counter[str]] = {}
    survivors = []
    for number, (place, name) in enumerate(sample):
        row = rows.setdefault(place.partition("/")[0], Counter())
        row["planted"] += 1
        row["reached"] += number in reached
        row["found"] += finders[number] > 0
        row["equivalent"] += name in EQUIVALENT
        if not finders[number] and name not in EQUIVALENT:
            survivors.append(f"- {'' if number in reached else 'not reached: '}{place} {name.partition(' ')[2]}")
    rows["all"] = sum(rows.values(), Counter())
    columns = ("planted", "reached", "found", "equivalent")
    lines = [f"| product | {' | '.join(columns)} |", "|---|---|---|---|---|"]
    lines += [f"| {folder} | {' | '.join(str(row[name]) for name in columns)} |" for folder, row in rows.items()]
    return [*lines, "", "Not found:", "", *survivors]


def sum_of(out: Path, seed: int) -> str:
    """Return in one line how many were found."""
    row = page_of(out).partition("| all | ")[2].partition(" |\n")[0].split(" | ")
    planted, reached, found, equivalent = map(int, row)
    left = planted - found - equivalent
    return (
        f"seed {seed}: {planted} mutants, {reached} reached, {found} found, {equivalent} equivalent, {left} not found"
    )
