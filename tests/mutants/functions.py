"""Mutants of functions, made mechanically: each argument of each call in them is dropped in turn.

A state that is written and read back passes through such arguments, so what forgets one of them must be found.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

Mutant = tuple[str, Callable[..., Any]]


def dropped(value: Any) -> Any:
    """Something of the same type that says nothing; what is nothing already becomes something else."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return -1 if value != -1 else 0
    if isinstance(value, bytes | str | list | tuple | dict):
        return type(value)()
    return None


def argument_mutants(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Yields (place, mutated function) for each argument of each call, other than literals."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for number, place in enumerate(_places(tree)):
        changed = copy.deepcopy(tree)
        _, owner, index = list(_places(changed).values())[number]
        argument = owner[index]
        if isinstance(argument, ast.keyword):
            argument.value = _drop(argument.value)
        else:
            owner[index] = _drop(argument)
        yield place, _compiled(changed, function)


def _places(tree: ast.AST) -> dict[str, tuple[ast.Call, list[Any], int]]:
    found: dict[str, tuple[ast.Call, list[Any], int]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for owner in (call.args, call.keywords):
                for index, argument in enumerate(owner):
                    value = argument.value if isinstance(argument, ast.keyword) else argument
                    if isinstance(value, ast.expr) and not isinstance(
                        value, ast.Constant | ast.Starred | ast.GeneratorExp
                    ):
                        text = f"{ast.unparse(argument)} of {ast.unparse(call.func)}, line {value.lineno}"
                        found[f"{text}:{value.col_offset}"] = call, owner, index
    return found


def _drop(value: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name("_dropped", ast.Load()), [value], []), value)


def _compiled(tree: ast.Module, function: Callable[..., Any]) -> Callable[..., Any]:
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    future = ast.parse("from __future__ import annotations").body
    names: dict[str, Any] = {**function.__globals__, "_dropped": dropped}
    module = ast.fix_missing_locations(ast.Module([*future, definition], []))
    exec(compile(module, inspect.getfile(function), "exec"), names)
    made: Callable[..., Any] = names[definition.name]
    return made


NEAR = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
"""Each comparison, and the one that is off by one."""


def comparison_mutants(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Yields (place, mutated function) for each comparison, off by one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    places = [one for one in ast.walk(tree) if isinstance(one, ast.Compare) and type(one.ops[0]) in NEAR]
    for number, place in enumerate(places):
        changed = copy.deepcopy(tree)
        found = [one for one in ast.walk(changed) if isinstance(one, ast.Compare) and type(one.ops[0]) in NEAR][number]
        found.ops[0] = NEAR[type(found.ops[0])]()
        yield f"{ast.unparse(place)}, line {place.lineno}", _compiled(changed, function)


def field_mutants(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Yields (place, mutated function) for each value of a dict, list or tuple, dropped, beside those of
    `argument_mutants`."""
    yield from argument_mutants(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for number, (owner, index) in enumerate(_values(tree)):
        place = f"{ast.unparse(owner[index])}, line {owner[index].lineno}"
        changed = copy.deepcopy(tree)
        its_owner, its_index = list(_values(changed))[number]
        its_owner[its_index] = _drop(its_owner[its_index])
        yield place, _compiled(changed, function)


def _values(tree: ast.AST) -> Iterator[tuple[list[ast.expr], int]]:
    types = [one.type for one in ast.walk(tree) if isinstance(one, ast.ExceptHandler)]
    types += [one.slice for one in ast.walk(tree) if isinstance(one, ast.Subscript)]
    for node in ast.walk(tree):
        owner: list[ast.expr] = []
        if isinstance(node, ast.Dict):
            owner = node.values
        elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
            owner = node.elts
        for index, value in enumerate(owner if node not in types else []):
            if not isinstance(value, ast.Constant | ast.Starred):
                yield owner, index
