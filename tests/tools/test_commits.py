"""What a commit's message must be, and which commits are looked at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools import check_commits

GOOD = "Refuse data of another member\n\nIt was taken for the member's own.\n"
NAMED = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *words: str) -> str:
    environment = os.environ | NAMED | ALONE
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        "Need a name of every member\n\nWithout one, an error names a number.",
        "Process what came before the end\n\nIt was lost.",
        'Revert "Parentheses, and much more that makes this line longer than others may be, by git"\n\nThis reverts x.',
    ],
)
def test_a_message_that_is_right(message: str) -> None:
    assert list(check_commits.problems_of(message)) == []


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("Added a test", 'begins with "Added"'),
        ("Adds a test", 'begins with "Adds"'),
        ("Adding a test", 'begins with "Adding"'),
        ("A line shorter", 'begins with "A"'),
        ("Parentheses", 'begins with "Parentheses"'),
        ("fixup! Refuse data", 'begins with "fixup!"'),
        ("refuse data", 'begins with "refuse"'),
        ("Cleanup", "is one word"),
        ("Refuse data.", "full stop"),
        ("Refuse " + "x" * 66, "has 73 characters, at most 72"),
    ],
)
def test_a_subject_that_is_wrong(subject: str, said: str) -> None:
    (problem,) = check_commits.problems_of(f"{subject}\n\nWhy it is so.")
    assert said in problem


@pytest.mark.parametrize("rest", ["", "\n\n", "\n\nSigned-off-by: A <a@example.org>"])
def test_a_message_without_a_reason(rest: str) -> None:
    assert list(check_commits.problems_of(f"Refuse data{rest}")) == ["there is no body: say why"]


def test_a_second_line_that_is_not_empty() -> None:
    assert any("not empty" in problem for problem in check_commits.problems_of("Refuse data\nof others\n\nWhy."))


def test_what_the_push_adds_is_checked(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = commit(repository, "Parentheses")
    base = commit(repository, "Adds nothing")
    git(repository, "update-ref", "refs/remotes/origin/main", base)
    commit(repository, GOOD)
    assert check_commits.main([], repository, first) == 0
    assert capsys.readouterr().out == "commits: 1 checked, no findings\n"
    bad = commit(repository, "Added nothing\n\nWhy.")
    assert check_commits.main([], repository, first) == 1
    assert bad[:7] in capsys.readouterr().out
    assert check_commits.main([first], repository, first) == 1
    assert "commits: 3 checked, 3 findings" in capsys.readouterr().out


def test_without_anything_to_push_the_newest_are_checked(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = commit(repository, "Parentheses")
    assert check_commits.main([], repository, first) == 0
    last = commit(repository, "Adds nothing")
    assert check_commits.main([], repository, first) == 1
    git(repository, "update-ref", "refs/remotes/origin/main", last)
    assert check_commits.main([], repository, first) == 1
    assert "commits: 1 checked, 2 findings" in capsys.readouterr().out


def test_where_the_first_commit_is_not_there_only_the_last_is_checked(repository: Path) -> None:
    """As in a shallow clone."""
    commit(repository, "Parentheses")
    commit(repository, GOOD)
    assert check_commits.main([], repository, "0" * 40) == 0


def test_without_git_and_with_a_base_that_is_not_there(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_commits.main([], Path("/")) == 0
    commit(repository, GOOD)
    assert check_commits.main(["nowhere"], repository) == 2
    assert "nowhere: no such commit" in capsys.readouterr().err
