"""What README, docs and code refer to exists: make targets, `ordo` commands, `python -m` modules, files, citations."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from tools import citations
from tools.source import ROOT, Problem

_FENCE = re.compile(r"^```(\w*)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
_CHOICE = re.compile(r"(?:SUITE|NAME)=([a-z0-9-]+)")


def commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of every command in a fenced shell block."""
    language: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if match is not None:
            language = match[1] if language is None else None
        elif language in ("", "sh", "bash", "shell", "console"):
            for part in re.split(r"&&|\|\||[|;]", line.split("#")[0]):
                words = part.strip().removeprefix("$ ").split()
                if words:
                    yield number, words


def _subcommand(words: list[str]) -> list[str]:
    found = []
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        found.append(word)
    return found


def _ordo_knows(words: list[str]) -> bool:
    for count in range(len(words), -1, -1):
        call = [sys.executable, "-c", "from ordo.cli import main; main()", *words[:count], "--help"]
        done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            is_group = "COMMAND" in done.stdout.split("\n\n")[0] or "COMMAND [" in done.stdout
            return count == len(words) or not is_group
    return False


def _problem_of_make(words: list[str], targets: set[str]) -> str | None:
    """As `make test SUITE=wheel`, which is the target test-wheel, and `make bench NAME=peers`."""
    named = [word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)]
    for word in named:
        if word not in targets:
            return f"make {word}: no such target"
    for word in words:
        if (choice := _CHOICE.fullmatch(word)) and f"{named[0]}-{choice[1]}" not in targets:
            return f"make {named[0]} {word}: no such target"
    return None


def _problem_of(words: list[str], targets: set[str]) -> str | None:
    if words[0] == "make":
        return _problem_of_make(words[1:], targets)
    if words[0] == "ordo" and not _ordo_knows(_subcommand(words[1:])):
        return f"{' '.join(words)}: no such command"
    if words[:2] == ["python", "-m"] and find_spec(words[2]) is None:
        return f"{words[2]}: no such module"
    return None


def check() -> list[Problem]:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    found = []
    for page in citations.pages():
        text = page.read_text()
        for number, words in commands(text):
            problem = _problem_of(words, targets)
            if problem is not None:
                found.append(Problem(page, number, problem))
        for number, line in enumerate(text.splitlines(), 1):
            for link in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists():
                    found.append(Problem(page, number, f"link to a missing file: {link}"))
    return found + citations.check()
