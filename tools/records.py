"""Types of decoded messages, out of the tables of the schemas: `python -m tools.records` writes them.

At run time a table makes the named tuples that it decodes to when it first needs them. mypy, pyright, editors and the
API reference know them by these modules, which the product imports under TYPE_CHECKING only: it starts sooner so.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping

from ordo.runtime.sbe import Message
from tools.source import ROOT, Problem

RECORDS: dict[str, tuple[str, ...]] = {
    "archive/protocol/records.py": ("archive/protocol/codecs.py",),
    "cluster/wire/records.py": ("cluster/wire/codecs.py", "cluster/wire/ordo_codecs.py"),
}
"""Module to those whose tables it describes."""

_HEAD = '''"""What messages decode to, by the tables of {origin}.

Written by `make fix`; do not edit.
"""

from __future__ import annotations

from typing import NamedTuple
'''


def tables(module: str) -> dict[str, Message]:
    """Return the tables of a module, given by its file, by the names of their constants."""
    name = f"ordo.{module.removesuffix('.py').replace('/', '.')}"
    found = vars(importlib.import_module(name)).items()
    return {constant: value for constant, value in found if isinstance(value, Message) and not constant.startswith("_")}


def _hidden(field: str) -> str:
    """Return the remark for a field that hides a method of tuples, as the named tuple does at run time as well."""
    return "  # type: ignore[assignment]" if hasattr(tuple, field) else ""


def _class(name: str, types: Mapping[str, str]) -> str:
    fields = "".join(f"    {field}: {kind}{_hidden(field)}\n" for field, kind in types.items())
    return f'\n\nclass {name}(NamedTuple):\n    """The fields of a decoded {name}."""\n' + (
        f"\n{fields}" if fields else ""
    )


def _classes(table: Message) -> Iterator[str]:
    types: dict[str, str] = {}
    for name, kind in table.value_types().items():
        if isinstance(kind, dict):
            entry = f"{table.name}{name.title().replace('_', '')}Entry"
            yield _class(entry, {field: each.__name__ for field, each in kind.items()})
            types[name] = f"list[{entry}]"
        else:
            types[name] = kind.__name__
    yield _class(table.name, types)


def render(modules: tuple[str, ...]) -> str:
    """Return the module for the tables of some modules. Raises ValueError where two of them have one name."""
    found = [table for module in modules for table in tables(module).values()]
    names = [table.name for table in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{' and '.join(modules)} have two messages of one name: {', '.join(twice)}")
    text = _HEAD.format(origin=" and ".join(modules))
    return text + "".join(part for table in found for part in _classes(table))


def _untyped(module: str) -> Iterator[Problem]:
    """Yield the tables of a module that are not declared with the type of their records."""
    path = ROOT / module
    declared = {
        node.target.id: (node.lineno, ast.unparse(node.annotation))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for constant, table in tables(module).items():
        line, annotation = declared.get(constant, (1, "nothing"))
        if annotation != f"Message[records.{table.name}]":
            yield Problem(path, line, f"{constant} is declared as {annotation}, must be Message[records.{table.name}]")


def check() -> list[Problem]:
    """Return the modules that do not say what the tables say, and the tables that do not refer to them."""
    problems = []
    for name, modules in RECORDS.items():
        path = ROOT / name
        if not path.exists() or path.read_text() != render(modules):
            problems.append(Problem(path, 1, "not what the tables say; write it with `make fix`"))
        problems += [problem for module in modules for problem in _untyped(module)]
    return problems


if __name__ == "__main__":
    for record_module, sources in RECORDS.items():
        (ROOT / record_module).write_text(render(sources))
