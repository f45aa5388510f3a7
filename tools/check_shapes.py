"""Classes that a reader can hold in his head: few constructor arguments, few attributes, narrow Protocols.

    arguments    of a constructor: at most 8, in Python and Cython
    attributes   that a class sets on itself: at most 20; frozen dataclasses and settings are values, and do not count
    members      of a Protocol, those that it inherits from others included: at most 6

What goes together is given as a frozen dataclass with a name of its own. The allow-list may only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.source import PACKAGES, ROOT, Problem, cython_functions, files

LIMITS = {"arguments": 8, "attributes": 20, "members": 6}
ALLOWANCES_PATH = ROOT / "tools" / "shape_allowances.txt"
CONSTRUCTORS = ("__init__", "__cinit__")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Shape:
    """How much of one kind a class has, and where that is written."""

    path: Path
    line: int
    name: str
    kind: str
    count: int

    @property
    def key(self) -> str:
        return f"{self.path.relative_to(ROOT)}::{self.name} {self.kind}"


class Protocols:
    """The members of every Protocol of the product, by name and file."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Path, tuple[set[str], list[str]]]] = {}

    def add(self, path: Path, found: ast.ClassDef) -> None:
        members = {one.name for one in found.body if isinstance(one, FUNCTIONS)}
        members |= {ast.unparse(one.target) for one in found.body if isinstance(one, ast.AnnAssign)}
        self._known.setdefault(found.name, {})[path] = members, base_names(found)

    def members(self, path: Path, name: str) -> set[str]:
        """Return the members of a Protocol, with those of its bases; of namesakes the one of the same file counts."""
        by_path = self._known.get(name, {})
        if path not in by_path and len(by_path) != 1:
            return set()
        where = path if path in by_path else next(iter(by_path))
        own, bases = by_path[where]
        return own.union(*(self.members(where, base) for base in bases))


def base_names(found: ast.ClassDef) -> list[str]:
    return [ast.unparse(one).split("[")[0].rpartition(".")[2] for one in found.bases]


def _is_frozen(found: ast.ClassDef) -> bool:
    return any("frozen=True" in ast.unparse(one) for one in found.decorator_list)


def _attributes(found: ast.ClassDef) -> set[str]:
    """What the methods of a class assign on their first argument, and the fields of a dataclass that is not frozen."""
    named = set()
    if any("dataclass" in ast.unparse(one) for one in found.decorator_list):
        named |= {ast.unparse(one.target) for one in found.body if isinstance(one, ast.AnnAssign)}
    for method in found.body:
        if isinstance(method, FUNCTIONS) and method.args.args:
            own = method.args.args[0].arg
            named |= {
                one.attr
                for one in ast.walk(method)
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and ast.unparse(one.value) == own
            }
    return named


def _arguments(found: ast.ClassDef) -> Iterator[tuple[int, int]]:
    for method in found.body:
        if isinstance(method, FUNCTIONS) and method.name in CONSTRUCTORS:
            given = method.args
            yield method.lineno, len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1


def classes(path: Path) -> list[ast.ClassDef]:
    return [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.ClassDef)]


def _cython_shapes(path: Path) -> Iterator[Shape]:
    lines = path.read_text().splitlines()
    for function in cython_functions(lines):
        if function.name in CONSTRUCTORS:
            above = [line for line in lines[: function.first] if line.startswith(("cdef class ", "class "))]
            name = above[-1].removeprefix("cdef ").split()[1].split("(")[0].rstrip(":") if above else ""
            inside = function.header.partition("(")[2].rpartition(")")[0]
            count = len([one for one in split_arguments(inside) if one not in ("", "*", "/")]) - 1
            yield Shape(path, function.first, name, "arguments", count)


def split_arguments(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [one.strip() for one in parts]


def measure() -> Iterator[Shape]:
    """Every class of the product, once for each kind."""
    protocols = Protocols()
    found = [(path, one) for path in files(".py", packages=PACKAGES) for one in classes(path)]
    for path, one in found:
        if "Protocol" in base_names(one):
            protocols.add(path, one)
    for path, one in found:
        if "Protocol" in base_names(one):
            yield Shape(path, one.lineno, one.name, "members", len(protocols.members(path, one.name)))
            continue
        for line, count in _arguments(one):
            yield Shape(path, line, one.name, "arguments", count)
        if not _is_frozen(one):
            yield Shape(path, one.lineno, one.name, "attributes", len(_attributes(one)))
    for path in files(".pyx", packages=PACKAGES):
        yield from _cython_shapes(path)


def allowances() -> dict[str, int]:
    """Return the allow-list: how much each `path::class kind` may have."""
    rows = (line.split("#")[0].split() for line in ALLOWANCES_PATH.read_text().splitlines())
    return {f"{row[0]} {row[1]}": int(row[2]) for row in rows if row}


def find(shapes: Iterable[Shape], allowed: dict[str, int]) -> Iterator[Problem]:
    for shape in shapes:
        limit = LIMITS[shape.kind]
        if shape.count <= limit:
            continue
        allowance = allowed.pop(shape.key, limit)
        if shape.count > allowance:
            text = f"{shape.name} has {shape.count} {shape.kind}, at most {allowance}: group what belongs together"
            yield Problem(shape.path, shape.line, text)
        elif shape.count < allowance:
            text = f"{shape.key} has {shape.count} now: lower its allowance of {allowance}"
            yield Problem(ALLOWANCES_PATH, 1, text)
    for key in sorted(allowed):
        yield Problem(ALLOWANCES_PATH, 1, f"{key} needs no allowance any more: remove its line")


def check() -> list[Problem]:
    return list(find(measure(), allowances()))
