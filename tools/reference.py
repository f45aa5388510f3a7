"""The API reference of what users import, made by pdoc: `python -m tools.reference [folder]`, by default build/docs.

Fails, and lists them, when pdoc warns, when a public name is missing from the pages, or when one has no docstring.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pdoc.render
from pdoc import doc, doc_pyi
from pdoc.render_helpers import relative_link

import ordo
from ordo.runtime.errors import OrdoError
from tools.source import FACE, ROOT

MODULES = ("ordo", "ordo.errors", "ordo.messages", "ordo.spark", "ordo.testing")
LAZY = {"ordo": ("read",)}
"""Public names outside `__all__`, because they bring in what not everybody installs."""


def public_names(module_name: str) -> tuple[str, ...]:
    """Returns what a user may import from the module; the version stands at the foot of every page."""
    exported = (name for name in importlib.import_module(module_name).__all__ if name != "__version__")
    return (*exported, *LAZY.get(module_name, ()))


def write(folder: Path, module_names: tuple[str, ...] = MODULES) -> list[str]:
    """Writes the pages; returns what is wrong with them, a line each, in a stable order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        modules = {name: _module(name) for name in module_names}
        pdoc.render.configure(docformat="markdown", show_source=False, footer_text=f"Ordo {ordo.__version__}")
        pages = {
            name: _link(name, pdoc.render.html_module(module, modules), modules) for name, module in modules.items()
        }
        index = pdoc.render.html_index(modules)
        search = pdoc.render.search_index(modules)
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        path = folder / f"{name.replace('.', '/')}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(page)
    (folder / "index.html").write_text(index)
    (folder / "search.js").write_text(search)
    problems = list(dict.fromkeys(f"pdoc: {warning.message}" for warning in caught))
    for name, page in pages.items():
        problems += [f"{name}.{n}: not in the page" for n in public_names(name) if f'id="{n}"' not in page]
        problems += [f"{undocumented}: no docstring" for undocumented in _undocumented(modules[name])]
    return problems


def _module(name: str) -> doc.Module:
    """Reads a module, with the signatures that the stubs give to the classes in Cython."""
    module = importlib.import_module(name)
    names = public_names(name)
    for value in (getattr(module, n) for n in names):
        if isinstance(value, type) and issubclass(value, tuple):
            value.__new__.__module__ = value.__module__  # a NamedTuple's is made up; annotations are looked up there
    members = {n: getattr(module, n) for n in names}  # also those that are imported when they are first used
    with mock.patch.dict(vars(module), {"__all__": list(names), **members}):
        found = doc.Module(module)
        for member in found.members.values():
            if isinstance(member, doc.Class):
                _read_stub(member)
                _drop_placeholders(member)
    return found


def _drop_placeholders(shown: doc.Class) -> None:
    """Drops what `collections.namedtuple` says of fields and constructors, which is nothing."""
    for member in shown.members.values():
        if member.docstring.startswith(("Alias for field number", "Create new instance of")):
            member.docstring = ""


def _link(name: str, page: str, modules: dict[str, doc.Module]) -> str:
    """Returns the page with public classes under the names that users import, linked, and not where they are written.

    Pdoc finds those only that are re-exported by the package that they are in.
    """
    seen = set()
    for module_name in (name, *modules):
        for public_name in public_names(module_name):
            value = getattr(modules[module_name].obj, public_name)
            if not isinstance(value, type) or value in seen:
                continue
            seen.add(value)
            parts = f"{value.__module__}.{value.__qualname__}".split(".")
            written = r"(?:\.|</span><span class=\"o\">\.</span><span class=\"n\">)".join(parts)
            target = "" if module_name == name else relative_link(name, module_name)
            page = re.sub(rf"(?<![\w.]){written}(?![\w.])", f'<a href="{target}#{public_name}">{public_name}</a>', page)
    return page


def _read_stub(shown: doc.Class) -> None:
    """Gives a class compiled by Cython the types of its stub, and takes Cython's signatures out of its docstrings."""
    home_name = shown.obj.__module__
    if home_name.split(".")[0] != FACE or doc_pyi.find_stub_file(home_name) is None:
        return
    home = doc.Module(importlib.import_module(home_name))
    doc_pyi.include_typeinfo_from_stub_files(home)
    for member in (shown, *shown.members.values()):
        member.docstring = _without_signature(member)
        typed = home.get(member.qualname)
        if isinstance(member, doc.Function) and isinstance(typed, doc.Function):
            member.signature = typed.signature
        elif isinstance(member, doc.Variable) and isinstance(typed, doc.Variable):
            member.annotation = typed.annotation


def _without_signature(member: doc.Doc[object]) -> str:
    """Returns the docstring without the first line that `embedsignature` wrote."""
    first, _, rest = member.docstring.partition("\n")
    written = (f"{member.qualname}(", f"{member.name}(", f"{member.qualname}:", f"{member.name}:")
    return rest.strip() if first.startswith(written) else member.docstring


def _undocumented(module: doc.Module) -> Iterator[str]:
    """Yields the public classes, functions and methods of ours that say nothing."""
    for member in module.members.values():
        if isinstance(member, doc.Class | doc.Function) and not member.docstring:
            yield member.fullname
        if isinstance(member, doc.Class):
            for part in member.own_members:
                if isinstance(part, doc.Function) and not part.name.startswith("_") and not part.docstring:
                    yield part.fullname


def main(arguments: list[str]) -> int:
    """Writes the pages and prints what is wrong; 0 when nothing is."""
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "docs"
    try:
        problems = write(folder)
    except OrdoError as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{folder}/index.html: {len(problems) or 'no'} finding{'s' if len(problems) != 1 else ''}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
