"""Functions of at most 50 lines (docstring not counted), files of at most 800; the allow-list may only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.source import ROOT, Problem, cython_functions, docstring_lines, files

FUNCTION_LINES_MAX = 50
FILE_LINES_MAX = 800
ALLOWANCES_PATH = ROOT / "tools" / "size_allowances.txt"


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(qualified name, first line, lines without the docstring) of every function."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (child.end_lineno or child.lineno) - child.lineno + 1
                first = child.body[0]
                if ast.get_docstring(child) is not None:
                    length -= (first.end_lineno or first.lineno) - first.lineno + 1
                yield f"{prefix}{child.name}", child.lineno, length
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from visit(child, f"{prefix}{child.name}." if named else prefix)  # type: ignore[attr-defined]

    yield from visit(ast.parse(text), "")


def functions(path: Path) -> Iterator[tuple[str, int, int]]:
    text = path.read_text()
    if path.suffix == ".py":
        yield from python_functions(text)
        return
    lines = text.splitlines()
    for function in cython_functions(lines):
        yield function.name, function.first, function.last - function.first + 1 - docstring_lines(lines, function)


def allowances() -> dict[str, int]:
    """Returns the allow-list: how many lines each `path[::function]` may have."""
    rows = (line.split("#")[0].split() for line in ALLOWANCES_PATH.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if row}


def measure() -> Iterator[tuple[str, Path, int, int, int]]:
    """(key, path, line, lines, cap) of everything over its cap."""
    for path in files(".py", ".pyx", ".pxd"):
        name = str(path.relative_to(ROOT))
        count = len(path.read_text().splitlines())
        if count > FILE_LINES_MAX:
            yield name, path, 1, count, FILE_LINES_MAX
        for function, line, length in functions(path):
            if length > FUNCTION_LINES_MAX:
                yield f"{name}::{function}", path, line, length, FUNCTION_LINES_MAX


def check() -> list[Problem]:
    allowed = allowances()
    found = []
    for key, path, line, length, cap in measure():
        limit = allowed.pop(key, cap)
        if length > limit:
            found.append(Problem(path, line, f"{key.split('::')[-1]} has {length} lines, at most {limit}"))
        elif length < limit:
            found.append(Problem(ALLOWANCES_PATH, 1, f"{key} has {length} lines now: lower its allowance of {limit}"))
    for key in sorted(allowed):
        found.append(Problem(ALLOWANCES_PATH, 1, f"{key} needs no allowance any more: remove its line"))
    return found
