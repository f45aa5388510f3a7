"""No test waits for a moment: a sleep is the step of a `while` that waits for a state; the allow-list may only shrink.

How long something takes depends on what else the machine does, so a test that sleeps is red on a busy machine and slow
on an idle one. `await_that` and `await_value` wait for what a probe says.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.source import ROOT, Problem, files

ALLOWANCES_PATH = ROOT / "tools" / "sleep_allowances.txt"
INSTEAD = "wait for a state, with await_that or await_value"
SLEEPS = ("time.sleep", "asyncio.sleep")


def allowances() -> dict[str, str]:
    """Return `path::function` -> why it may sleep."""
    rows = (line.partition("#") for line in ALLOWANCES_PATH.read_text().splitlines() if line and line[0] != "#")
    return {place.strip(): reason.strip() for place, _, reason in rows}


def _is_sleep(call: ast.Call) -> bool:
    return ast.unparse(call.func) in SLEEPS and ast.unparse(call.args[0]) != "0"  # which gives others their turn


def pauses(text: str) -> Iterator[tuple[str, int]]:
    """Give the qualified function and the line of each sleep that is no step of a `while` in the same function."""

    def visit(node: ast.AST, name: str, is_polling: bool) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inner, polls = name, is_polling
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner, polls = f"{name}.{child.name}".lstrip("."), False
            elif isinstance(child, ast.While):
                polls = True
            elif isinstance(child, ast.For | ast.AsyncFor | ast.Lambda):
                polls = False
            elif isinstance(child, ast.Call) and not polls and _is_sleep(child):
                yield name, child.lineno
            yield from visit(child, inner, polls)

    yield from visit(ast.parse(text), "", False)


def check() -> list[Problem]:
    found, allowed = [], allowances()
    used = set()
    for path in files(".py", packages=("tests",)):
        for name, line in pauses(path.read_text()):
            place = f"{path.relative_to(ROOT)}::{name}"
            used.add(place)
            if place not in allowed:
                found.append(Problem(path, line, f"waits for a moment; {INSTEAD}"))
    for place in sorted(allowed.keys() - used):
        found.append(Problem(ALLOWANCES_PATH, 1, f"{place} does not sleep any more: take it off the list"))
    found += [
        Problem(ALLOWANCES_PATH, 1, f"{place}: say why no state can be waited for")
        for place, reason in allowed.items()
        if not reason
    ]
    return found
