"""A run of one tier leaves out the files that have no test of it, and only as long as nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tier_files import TierFiles, are_named, are_whole


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("tests/test_both.py", "tests/test_quick.py", "tests/test_new.py", "tools/used.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = TierFiles(tmp_path / "kept.json", tmp_path)
    both, quick = tmp_path / "tests" / "test_both.py", tmp_path / "tests" / "test_quick.py"
    found.note([(both, "processes"), (quick, "deterministic"), (both, "deterministic")])
    return tmp_path


def left_out(root: Path, expression: str) -> list[str]:
    files = TierFiles(root / "kept.json", root)
    return [path.name for path in sorted(root.rglob("*.py")) if files.lacks(path, expression)]


def test_files_without_a_test_of_the_tier_are_left_out(root: Path) -> None:
    assert left_out(root, "processes") == ["test_quick.py"]
    assert left_out(root, "nightly") == ["test_both.py", "test_quick.py"]
    assert left_out(root, "deterministic") == []


@pytest.mark.parametrize("expression", ["", "not slow", "processes or nightly", "not processes"])
def test_another_expression_leaves_out_nothing(root: Path, expression: str) -> None:
    assert left_out(root, expression) == []


@pytest.mark.parametrize("name", ["tests/test_quick.py", "tools/used.py", "tests/added.py"])
def test_after_a_change_all_are_read_again(root: Path, name: str) -> None:
    (root / name).write_text("import subprocess")
    assert left_out(root, "processes") == []


def test_a_later_run_of_other_files_adds_what_it_finds(root: Path) -> None:
    TierFiles(root / "kept.json", root).note([(root / "tests" / "test_new.py", "nightly")])
    assert left_out(root, "processes") == ["test_new.py", "test_quick.py"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": 1}'])
def test_a_file_that_is_not_whole_counts_for_nothing(root: Path, text: str) -> None:
    (root / "kept.json").write_text(text)
    assert left_out(root, "processes") == []


def test_a_file_that_is_named_is_collected_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tests" / "test_quick.py"
    assert are_named(path, ["tests/test_quick.py::test_one"], tmp_path) and are_named(path, [str(path)], tmp_path)
    assert not are_named(path, ["tests"], tmp_path)


def test_parts_of_files_say_nothing_of_the_rest() -> None:
    assert are_whole(["tests", "tests/test_quick.py"], {"lf": False, "deselect": None})
    assert not are_whole(["tests/test_quick.py::test_one"], {})
    assert not are_whole(["tests"], {"lf": True})
