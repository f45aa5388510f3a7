"""Every mutant of a module: one comparison off by one, or one condition negated.

A mutant is put in by giving the function that exists another code object, so that whoever imported it has the mutant.
"""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
NEAR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
INEQUALITIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
Step = tuple[str, int | None]
"""A field of a node, and the place in it if it is a list."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression of one function."""

    path: str
    function: str
    line: int
    before: str
    after: str
    changed: ast.FunctionDef

    @property
    def name(self) -> str:
        """What it is called in the list of those that nothing can find; without a line, which moves."""
        return f"{self.path} {self.function}: {self.before} -> {self.after}"

    @property
    def original(self) -> CodeType:
        """The code that the function has without it."""
        return _find_function(self.path, self.function).__code__

    def put_in(self) -> None:
        """Gives the function of this process the mutant's code."""
        _find_function(self.path, self.function).__code__ = self._compile()

    def _compile(self) -> CodeType:
        """The code of the changed function, which is compiled where it stands: in its class, if it has one."""
        owner, _, name = self.function.rpartition(".")
        body: ast.stmt = self.changed
        if owner:
            body = ast.ClassDef(owner, [], [], [self.changed], [])
        future = ast.parse("from __future__ import annotations").body
        module = ast.fix_missing_locations(ast.Module([*future, body], []))
        found = compile(module, str(ROOT / self.path), "exec")
        for part in [owner, name] if owner else [name]:
            found = next(one for one in found.co_consts if isinstance(one, CodeType) and one.co_name == part)
        return found


def modules() -> list[str]:
    """The files of the core, as paths from the root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "consensus").rglob("*.py"))


def mutants_of(path: str) -> Iterator[Mutant]:
    """Yields every mutant of a file's functions, in their order."""
    tree = ast.parse((ROOT / path).read_text())
    for owner, function in _functions(tree):
        name = f"{owner}.{function.name}" if owner else function.name
        seen = {ast.unparse(function)}
        for steps, mutated in _changes(function):
            changed = copy.deepcopy(function)
            before = ast.unparse(_at(changed, steps))
            _put(changed, steps, mutated)
            text = ast.unparse(changed)
            if text not in seen:
                seen.add(text)
                line = getattr(mutated, "lineno", function.lineno)
                yield Mutant(path, name, line, before, ast.unparse(mutated), changed)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.name, one) for one in node.body if isinstance(one, ast.FunctionDef))


def _changes(function: ast.FunctionDef) -> Iterator[tuple[list[Step], ast.expr]]:
    """Yields (where, what stands there in the mutant). What an `assert` says is checked by nobody but itself."""
    for steps, node in _walk(function, []):
        if isinstance(node, ast.Compare):
            for index, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = NEAR[type(operator)]()
                yield steps, changed
        for step, condition in _conditions(node):
            yield [*steps, step], _negated(condition)


def _walk(node: ast.AST, steps: list[Step]) -> Iterator[tuple[list[Step], ast.AST]]:
    if isinstance(node, ast.Assert):
        return
    yield steps, node
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from _walk(value, [*steps, (field, None)])
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _walk(one, [*steps, (field, index)])


def _conditions(node: ast.AST) -> Iterator[tuple[Step, ast.expr]]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield ("test", None), node.test
    elif isinstance(node, ast.BoolOp):
        yield from ((("values", index), one) for index, one in enumerate(node.values))
    elif isinstance(node, ast.comprehension):
        yield from ((("ifs", index), one) for index, one in enumerate(node.ifs))


def _negated(condition: ast.expr) -> ast.expr:
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return copy.deepcopy(condition.operand)
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and type(condition.ops[0]) not in INEQUALITIES:
        changed = copy.deepcopy(condition)
        changed.ops[0] = NEAR[type(condition.ops[0])]()
        return changed
    return ast.copy_location(ast.UnaryOp(ast.Not(), copy.deepcopy(condition)), condition)


def _at(node: Any, steps: list[Step]) -> Any:
    for field, index in steps:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    return node


def _put(node: Any, steps: list[Step], value: ast.expr) -> None:
    owner, (field, index) = _at(node, steps[:-1]), steps[-1]
    if index is None:
        setattr(owner, field, value)
    else:
        getattr(owner, field)[index] = value


def _find_function(path: str, name: str) -> FunctionType:
    found: Any = importlib.import_module("ordo." + path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = vars(found)[part]
    for wrapper in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, wrapper, found)
    assert isinstance(found, FunctionType), f"{path} {name} is no function"
    return found
