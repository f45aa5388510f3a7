"""Mutants of a module: one comparison off by one, one condition negated, or one of the other changes of `changes.py`.

A mutant is put in by giving the function that exists another code object, so that whoever imported it has the mutant.
"""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
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
Function = ast.FunctionDef | ast.AsyncFunctionDef
Step = tuple[str, int | None]
"""A field of a node, and the place in it if it is a list."""
Change = tuple[list[Step], ast.AST]
"""Where, and what stands there in the mutant."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression of one function."""

    path: str
    function: str
    line: int
    before: str
    after: str
    changed: Function
    unchanged: Function
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """What it is called in the list of those that nothing can find; without a line, which moves."""
        return f"{self.path} {self.function}: {self.before} -> {self.after}"

    def put_in(self) -> None:
        """Gives the function of this process the mutant's code."""
        find_function(self.path, self.function).__code__ = self.compiled(self.changed)

    def compiled(self, changed: Function) -> CodeType:
        """The code of a changed function, which is compiled where it stands: in its class, if it has one."""
        owner, _, name = self.function.rpartition(".")
        body: ast.stmt = changed
        if owner:
            body = ast.ClassDef(owner, [], [], [changed], [])
        future = ast.parse("from __future__ import annotations").body
        module = ast.fix_missing_locations(ast.Module([*future, body], []))
        found = compile(module, str(ROOT / self.path), "exec")
        for part in [owner, name] if owner else [name]:
            found = next(one for one in found.co_consts if isinstance(one, CodeType) and one.co_name == part)
        return found


def modules() -> list[str]:
    """The files of the core, as paths from the root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "consensus").rglob("*.py"))


def mutants_of(path: str, changes: Callable[[Function], Iterator[Change]] | None = None) -> Iterator[Mutant]:
    """Yields every mutant of a file's functions, in their order; without `changes`, those of its conditions."""
    for name, function in functions_of(path):
        seen = {ast.unparse(function)}
        for steps, mutated in (changes or conditions_of)(function):
            mutant = mutant_of(path, name, function, steps, mutated)
            text = ast.unparse(mutant.changed)
            if text not in seen:
                seen.add(text)
                yield mutant


def mutant_of(path: str, name: str, function: Function, steps: Sequence[Step], mutated: ast.AST) -> Mutant:
    """Return the mutant that has something else at one place of a function."""
    changed = copy.deepcopy(function)
    before = ast.unparse(at(changed, steps))
    put(changed, steps, mutated)
    line = getattr(mutated, "lineno", function.lineno)
    return Mutant(path, name, line, before, ast.unparse(mutated), changed, function, tuple(steps))


def functions_of(path: str) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a file and those of its classes, each with its name."""
    for owner, function in _functions(ast.parse((ROOT / path).read_text())):
        yield f"{owner}.{function.name}" if owner else function.name, function


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        if isinstance(node, Function):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.name, one) for one in node.body if isinstance(one, Function))


def conditions_of(function: Function) -> Iterator[Change]:
    """Yields (where, what stands there in the mutant). What an `assert` says is checked by nobody but itself."""
    for steps, node in walk(function, []):
        if isinstance(node, ast.Compare):
            for index, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = NEAR[type(operator)]()
                yield steps, changed
        for step, condition in _conditions(node):
            yield [*steps, step], _negated(condition)


def walk(node: ast.AST, steps: list[Step]) -> Iterator[Change]:
    """Yield a node and all in it, each with its place; nothing of an `assert`."""
    if isinstance(node, ast.Assert):
        return
    yield steps, node
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from walk(value, [*steps, (field, None)])
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from walk(one, [*steps, (field, index)])


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


def at(node: Any, steps: Sequence[Step]) -> Any:
    """Return what stands at a place."""
    for field, index in steps:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    return node


def put(node: Any, steps: Sequence[Step], value: ast.AST) -> None:
    """Put something at a place."""
    owner, (field, index) = at(node, steps[:-1]), steps[-1]
    if index is None:
        setattr(owner, field, value)
    else:
        getattr(owner, field)[index] = value


def find_function(path: str, name: str) -> FunctionType:
    """Return the function of this process; what its decorators made of it is looked through."""
    module = path.removesuffix(".py").removesuffix("/__init__").removeprefix("ordo/").replace("/", ".")
    found: Any = importlib.import_module("ordo" if path == "ordo/__init__.py" else f"ordo.{module}")
    for part in name.split("."):
        found = vars(found)[part]
    for wrapper in ("fget", "__func__", "func", "__wrapped__"):
        found = getattr(found, wrapper, found)
    assert isinstance(found, FunctionType), f"{path} {name} is no function"
    return found
