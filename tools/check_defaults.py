"""A default stands once: in the class of its settings, and whatever else begins with it takes it from there.

Found is a field or an argument of the same name with the same literal value elsewhere in the same part of the product:
archive, gateway, ... Values that say nothing, such as 0, 1, "" and None, do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.source import PACKAGES, ROOT, Problem, files

SETTINGS = re.compile(r"(Settings|Config|Section|Options)$")
PLAIN = (None, False, True, 0, 1, -1, "", b"", ())
APART = {
    "commit": "of the pipeline: each job says which part of a log it takes",
    "partition_by": "text on the command line, columns in Python",
    "recording": "of the pipeline: each job says which recording it takes",
    "sync": "the launcher and the archive alone have their own, which `ordo doctor` names",
    "timeout_s": "how long different things wait",
}
"""Names whose values are equal by chance, or that stand where the class would be imported too early."""


class Default(NamedTuple):
    """One literal default."""

    path: Path
    line: int
    owner: str
    name: str
    value: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it shares with a default that says the same."""
        return self.path.relative_to(ROOT).parts[0], self.name, self.value


def literal(node: ast.expr) -> str:
    """Return the value of a literal that says something, as text; "" for anything else."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ""
    return "" if any(value is one or (value == one and type(value) is type(one)) for one in PLAIN) else repr(value)


def defaults(path: Path) -> Iterator[Default]:
    """Yield the literal defaults of the fields and arguments of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name) or not field.value:
                    continue
                if value := literal(field.value):
                    yield Default(path, field.lineno, node.name, field.target.id, value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(reversed(positional), reversed(node.args.defaults), strict=False)]
            pairs += [(arg, one) for arg, one in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if one]
            for argument, default in pairs:
                if value := literal(default):
                    yield Default(path, argument.lineno, f"{node.name}()", argument.arg, value)


def check() -> list[Problem]:
    """Return the defaults that stand in a class of settings and once more."""
    found = [one for path in files(".py", packages=PACKAGES) for one in defaults(path) if one.name not in APART]
    homes = {one.key: one for one in reversed(found) if SETTINGS.search(one.owner)}
    problems = []
    for one in found:
        home = homes.get(one.key)
        if home is not None and home is not one:
            place = f"{home.owner} in {home.path.relative_to(ROOT)}"
            problems.append(
                Problem(one.path, one.line, f"{one.name}={one.value} stands in {place}: take it from there")
            )
    return problems
