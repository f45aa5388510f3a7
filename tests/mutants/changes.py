"""The changes of a sample over the whole product: beside conditions, what is computed, returned, done, raised, handled.

Nothing is changed in texts, logs, annotations and asserts: no test should depend on them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence

from tests.mutants.mutate import Change, Function, Step, at, conditions_of, walk

OTHER: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
    ast.Mod: ast.Add(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
}
NOTE = "note_mutant"
"""A name that the tests of a hunt give to the builtins of their process."""
LOGS = ("debug", "info", "warning", "error", "exception", "log", "print")


def all_changes(function: Function) -> Iterator[Change]:
    """Yield every change of a function."""
    places = [*conditions_of(function), *_others(function)]
    yield from ((steps, changed) for steps, changed in places if not _is_left_out(function, steps))


def _others(function: Function) -> Iterator[Change]:
    for steps, node in walk(function, []):
        changed = _changed(node)
        if changed is not None:
            yield steps, ast.copy_location(changed, node)


def _changed(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
        case ast.BinOp(op=operator) if type(operator) in OTHER:
            return ast.BinOp(node.left, OTHER[type(operator)], node.right)
        case ast.AugAssign(op=operator) if type(operator) in OTHER:
            return ast.AugAssign(node.target, OTHER[type(operator)], node.value)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            return ast.Return(ast.Constant(None))
        case ast.ExceptHandler():
            return ast.ExceptHandler(node.type, node.name, [ast.Raise()])
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()) | ast.Assign(targets=[ast.Attribute()]):
            return ast.Pass()
        case ast.Continue() | ast.Break():
            return ast.Pass()
    return None


def _is_left_out(function: Function, steps: list[Step]) -> bool:
    """Whether a place is in a text, a log, an annotation, or in what an error says."""
    if steps and steps[0][0] in ("args", "decorator_list", "returns"):
        return True
    for length in range(1, len(steps) + 1):
        node, (field, _) = at(function, steps[:length]), steps[length - 1]
        is_said = isinstance(node, ast.Raise) and length < len(steps)
        if is_said or _is_log(node) or isinstance(node, ast.JoinedStr) or field in ("annotation", "returns"):
            return True
        if isinstance(node, Function) and length < len(steps) and steps[length][0] in ("args", "decorator_list"):
            return True
    return False


def _is_log(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    name = call.func if isinstance(call, ast.Call) else None
    if isinstance(name, ast.Attribute):
        return name.attr in LOGS
    return isinstance(name, ast.Name) and name.id in LOGS


def noting(function: Function, places: Mapping[int, Sequence[Step]]) -> Function:
    """Return the function with a call before the statement of each place, which notes its number when it is reached."""
    noted = copy.deepcopy(function)
    inserts = sorted(((_statement_of(noted, steps), number) for number, steps in places.items()), key=_last_first)
    for steps, number in inserts:
        field, index = steps[-1]
        call = ast.parse(f"__import__('builtins').{NOTE}({number})").body[0]
        getattr(at(noted, steps[:-1]), field).insert(index, ast.copy_location(call, function.body[0]))
    return noted


def _statement_of(function: Function, steps: Sequence[Step]) -> list[Step]:
    """Return the place of the innermost statement around a place, in the list where it stands."""
    lengths = range(len(steps), 0, -1)
    return list(steps[: next(one for one in lengths if isinstance(at(function, steps[:one]), ast.stmt))])


def _last_first(insert: tuple[list[Step], int]) -> list[tuple[str, int]]:
    """Return a key by which what stands in a statement comes before the statement, as inserting moves what follows."""
    return [*((field, -(index or 0)) for field, index in insert[0]), ("~", 0)]
