"""The messages of the commits that a push adds: `python -m tools.check_commits [BASE]`.

A subject has at most 72 characters and begins with a verb in the imperative; a body says why. Checked is what HEAD has
and BASE (by default `origin/main`) has not; if that is nothing, as in a clone that continuous integration made after
the push, the newest commits are. Commits from before the rule was made are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.source import ROOT

FIRST = "2658b00e37aa0ff00b10166c25a7b09c0f30451f"
"""The newest commit from before the rule: it and its ancestors are not checked."""
NEWEST = 20
SUBJECT_CHARS_MAX = 72
USAGE_STATUS = 2
IMPERATIVES = {"Alias", "Bias", "Canvas", "Focus"} | {"Bring", "Ping", "Ring", "String", "Swing"}
IMPERATIVES |= {"Embed", "Exceed", "Feed", "Need", "Proceed", "Seed", "Shed", "Speed", "Succeed"}
"""Verbs in the imperative that end as other forms do."""
NO_VERBS = {"A", "All", "An", "And", "Both", "Each", "Every", "It", "Its", "More", "Most", "New", "No", "None", "Not"}
NO_VERBS |= {
    "Nothing",
    "Only",
    "Or",
    "Other",
    "Some",
    "That",
    "The",
    "Their",
    "There",
    "They",
    "Those",
    "To",
    "We",
    "You",
}
NO_VERBS |= {
    "At",
    "By",
    "For",
    "From",
    "How",
    "If",
    "In",
    "On",
    "What",
    "When",
    "Where",
    "Which",
    "While",
    "Why",
    "With",
}
"""What subjects that tell of something begin with."""


@dataclass(frozen=True)
class Commit:
    """One commit: its abbreviated id, and its whole message."""

    id: str
    message: str


def git(*words: str, repository: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of git there, whatever becomes of it."""
    return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)


def is_imperative(word: str) -> bool:
    """Tell whether a subject may begin with this word: not an article, nor "Added", "Adding" or "Adds"."""
    if word in IMPERATIVES:
        return True
    if word in NO_VERBS or not re.fullmatch(r"[A-Z][a-z]+(-[a-z]+)*", word):
        return False
    return not word.endswith(("ed", "ing")) and (not word.endswith("s") or word.endswith("ss"))


def problems_of(message: str) -> Iterator[str]:
    """Yield what is wrong with a commit's message, one line each."""
    subject, *rest = message.strip().splitlines() or [""]
    if subject.startswith('Revert "'):  # git wrote it
        return
    if len(subject) > SUBJECT_CHARS_MAX:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT_CHARS_MAX} are allowed: use the body"
    first = subject.split(" ")[0]
    if not is_imperative(first.rstrip(":,")):
        yield f'the subject begins with "{first}": begin with a verb in the imperative, such as "Add" or "Refuse"'
    elif " " not in subject:
        yield "the subject is one word: say what the change does"
    if subject.endswith("."):
        yield "the subject ends with a full stop: leave it out"
    if rest and rest[0].strip():
        yield "the line below the subject is not empty: git takes it for the subject's"
    if not any(re.search(r"\w", line) and not re.match(r"[A-Z][a-z-]+-[Bb]y: ", line) for line in rest[1:]):
        yield "there is no body: say why"


def commits(repository: Path, base: str, first: str) -> list[Commit]:
    """Return what HEAD has and `base` has not, or the newest commits if that is nothing; newest first, no merges."""
    excluded = (
        [f"^{first}"] if git("cat-file", "-e", f"{first}^{{commit}}", repository=repository).returncode == 0 else []
    )
    words = ["log", "--no-merges", "--format=%h%n%B%x00", "HEAD", *excluded]
    has_base = git("rev-parse", "-q", "--verify", f"{base}^{{commit}}", repository=repository).returncode == 0
    found = git(*words, f"^{base}", repository=repository).stdout if has_base else ""
    if not found.strip():
        found = git(*words, f"--max-count={NEWEST if excluded else 1}", repository=repository).stdout
    return [Commit(*one.lstrip("\n").split("\n", 1)) for one in found.split("\0") if one.strip()]


def main(arguments: list[str], repository: Path = ROOT, first: str = FIRST) -> int:
    """Shows what is wrong with the messages; 1 when something is, 2 for an unknown base."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print("usage: python -m tools.check_commits [BASE]", file=sys.stderr)
        return USAGE_STATUS
    if git("rev-parse", "HEAD", repository=repository).returncode:
        print("commits: not in a repository of git, nothing to check")
        return 0
    if arguments and git("rev-parse", "-q", "--verify", f"{arguments[0]}^{{commit}}", repository=repository).returncode:
        print(f"{arguments[0]}: no such commit: name one that the push adds to, such as origin/main", file=sys.stderr)
        return USAGE_STATUS
    checked = commits(repository, arguments[0] if arguments else "origin/main", first)
    count = 0
    for commit in checked:
        for problem in problems_of(commit.message):
            print(f"{commit.id} {commit.message.splitlines()[0][:40]}: {problem}")
            count += 1
    print(f"commits: {len(checked)} checked, {count or 'no'} finding{'s' if count != 1 else ''}")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
