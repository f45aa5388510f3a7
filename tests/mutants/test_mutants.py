"""Mutants of the product are spread over its folders, change what matters only, and are found by what reaches them."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.changes import NOTE, all_changes, noting
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.mutate import ROOT, Function, mutant_of
from tests.mutants.sample import EACH_MIN, choose, product_files
from tests.mutants.table import page_of

TEXT = '''
def decide(items: list[int], name: str = "a") -> int:
    """Count 1 and 2."""
    log.info("count %d", 3)
    found = 0
    for item in items:
        if item > 4:
            found += 1
        elif item == 4:
            continue
        else:
            raise ValueError(f"{item} is below {5}")
    assert found < 6
    return found * 7
'''


def function_of(text: str) -> Function:
    found = ast.parse(text).body[0]
    assert isinstance(found, Function)
    return found


def test_texts_logs_annotations_and_asserts_are_left_alone() -> None:
    function = function_of(TEXT)
    mutants = [mutant_of("a.py", "decide", function, *place) for place in all_changes(function)]
    afters = {one.after for one in mutants}
    assert {"item >= 4", "found -= 1", "return None", "found + 7", "pass"} <= afters
    for mutant in mutants:
        text = ast.unparse(mutant.changed)
        assert text != ast.unparse(function), mutant.name
        for kept in ('"""Count 1 and 2."""', "log.info('count %d', 3)", "assert found < 6", "name: str='a'"):
            assert kept in text, mutant.name
        assert "is below {5}" in text or "raise" not in text, mutant.name


def test_a_place_is_noted_when_its_statement_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    function = function_of(TEXT.replace('    log.info("count %d", 3)\n', ""))
    places = list(all_changes(function))
    noted = noting(function, {number: steps for number, (steps, _) in enumerate(places)})
    reached: set[int] = set()
    monkeypatch.setattr(builtins, NOTE, reached.add, raising=False)
    names: dict[str, object] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([noted], [])), "noted", "exec"), names)
    assert names["decide"]([5, 4]) == 7  # type: ignore[operator]
    missed = {ast.unparse(function_part) for number, (_, function_part) in enumerate(places) if number not in reached}
    assert missed == {"pass"}, "of all statements only the raise is not reached"


def test_a_sample_is_spread_over_the_product_and_the_same_each_time() -> None:
    mutants = choose(60, seed=3)
    folders = [one.path.partition("/")[0] for one in mutants]
    assert set(folders) == set(product_files())
    assert all(folders.count(folder) >= EACH_MIN for folder in folders)
    assert max(set(folders), key=folders.count) == "cluster", "the folder with most lines"
    assert len({(one.path, one.function) for one in mutants}) == len(mutants)
    assert [one.name for one in choose(60, seed=3)] == [one.name for one in mutants]
    assert [one.name for one in choose(60, seed=4)] != [one.name for one in mutants]


def test_each_equivalent_mutant_has_its_reason() -> None:
    assert all(name.partition(" ")[0].endswith(".py") and why for name, why in EQUIVALENT.items())


def test_the_page_counts_what_was_found_by_whom(tmp_path: Path) -> None:
    sample = [["cluster/a.py:3", "cluster/a.py f: 1 -> 2"], ["cluster/b.py:4", "cluster/b.py g: 3 -> 4"]]
    (tmp_path / "sample.json").write_text(json.dumps([*sample, ["deploy/c.py:5", "deploy/c.py h: 5 -> 6"]]))
    for folder, found in (("cluster", ["one", "", ""]), ("cli", ["two", "three", ""])):
        lines = [
            {"number": number, "reaching": 2 if number < 2 else 0, "found_by": by} for number, by in enumerate(found)
        ]
        (tmp_path / f"{folder}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        (tmp_path / f"{folder}.json").write_text(json.dumps({"tests": 9, "processor_s": 1.5, "broken": []}))
    page = page_of(tmp_path)
    assert "| cli | 9 | 1.5 | 2 | 2 | 1 |\n| cluster | 9 | 1.5 | 2 | 1 | 0 |\n" in page
    assert "| cluster | 2 | 2 | 2 | 0 |\n| deploy | 1 | 0 | 0 | 0 |\n| all | 3 | 2 | 2 | 0 |\n" in page
    assert "- not reached: deploy/c.py:5 h: 5 -> 6\n" in page


def hunt(out: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "tests.mutants", "--sample", "60", "--out", str(out), *arguments, "deploy"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{ended.returncode} {ended.stdout} {ended.stderr}"


@pytest.mark.slow
@pytest.mark.timeout(600)  # on a busy machine
@pytest.mark.thorough
def test_tests_of_a_folder_find_mutants_and_a_hunt_goes_on_where_it_was(tmp_path: Path) -> None:
    said = hunt(tmp_path)
    assert said.startswith("0 ") and " not found" in said, said
    lines = (tmp_path / "deploy.jsonl").read_text().splitlines(keepends=True)
    found = [json.loads(line)["found_by"] for line in lines]
    assert any(one.startswith("tests/deploy/") for one in found), said
    (tmp_path / "deploy.jsonl").write_text("".join(lines[:-5]))
    assert hunt(tmp_path).startswith("0 ")
    again = (tmp_path / "deploy.jsonl").read_text().splitlines(keepends=True)
    assert again[:-5] == lines[:-5] and len(again) == len(lines)
    assert hunt(tmp_path, "--seed", "2").startswith("2 "), "what is of another sample is not mixed with it"
