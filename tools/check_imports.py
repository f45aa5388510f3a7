"""The arrows between the rooms, for `import` and `cimport`, and the modules that only some folders may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.rooms import ROOMS
from tools.source import FACE, PACKAGES, ROOT, SUPPORT, Problem, files, import_name

GROUND: dict[str, tuple[str, ...]] = {
    "runtime": (),
    "transport": ("runtime",),
    "archive": ("runtime", "transport"),
    "consensus": ("runtime",),
    "service_api": ("runtime",),
    "deploy": ("runtime", "cluster/monitoring", "cluster/wire/counters"),
}
"""What these folders, with all below them, may import beside themselves; the order of rooms alone binds the others."""

ONLY_IN = {
    "pyspark": ("pipeline", "ordo"),
    "grpc": ("gateway", "service_api"),
    "lmdb": ("archive", "cluster"),
    "docker": ("deploy",),
}
WORLD = frozenset(
    {"socket", "select", "selectors", "time", "datetime", "random", "secrets", "uuid", "threading", "multiprocessing"}
    | {"subprocess", "asyncio", "os", "pathlib", "io", "tempfile", "shutil", "fcntl", "mmap"}
)
"""What I/O-free code never imports."""

SEAM_FREE = ("transport", "archive", "service_api", "follow", "sequencer", "cluster")
SEAMS = ("time", "random", "secrets", "uuid")
SEAM_ALLOWED_PATH = ROOT / "tools" / "seam_allowances.txt"


class Import(NamedTuple):
    line: int
    module: str
    is_typing_only: bool


def python_imports(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(), str(path))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, id(node) in typing_only)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).parent.parts
                base = package[: len(package) - node.level + 1]
                module = ".".join([*base, module] if module else base)
            for alias in node.names:
                yield Import(node.lineno, f"{module}.{alias.name}", id(node) in typing_only)


_CYTHON = re.compile(r"^\s*(?:from\s+(?P<origin>[\w.]+)\s+c?import\s+(?P<names>.*)|c?import\s+(?P<modules>[\w., ]+))")


def cython_imports(path: Path) -> Iterator[Import]:
    for number, text in enumerate(path.read_text().splitlines(), 1):
        match = _CYTHON.match(text)
        if match is None:
            continue
        if match["origin"]:
            for name in re.findall(r"\w+", match["names"]) or [""]:
                yield Import(number, f"{match['origin']}.{name}".rstrip("."), False)
        else:
            for module in match["modules"].split(","):
                yield Import(number, module.split(" as ")[0].strip(), False)


def imports(path: Path) -> Iterator[Import]:
    return cython_imports(path) if path.suffix in (".pyx", ".pxd") else python_imports(path)


def _room(module: str) -> str | None:
    """Return the room of a module of ours by its import name, None for foreign modules and for support."""
    parts = module.split(".")
    if parts[0] != FACE:
        return None
    names = parts[1:] if len(parts) > 1 and parts[1] in PACKAGES else parts
    for count in range(len(names), 0, -1):
        if "/".join(names[:count]) in ROOMS:
            return "/".join(names[:count])
    return None


def _is_below(room: str, folders: Iterable[str]) -> bool:
    return any(room == folder or room.startswith(f"{folder}/") for folder in folders)


def _arrow_problem(path: Path, module: str) -> str | None:
    if module.split(".")[0] in (*SUPPORT, *set(PACKAGES) - {FACE}):
        return f"may not import {module}"
    if module.split(".")[0] != FACE:
        return None
    origin, target = _room(import_name(path)), _room(module)
    if origin is None:
        return f"{path.parent.relative_to(ROOT)}/ is no room: give it its place in tools/rooms.py"
    if target is None or target == origin:
        return None
    folder = origin.split("/")[0]
    if folder in GROUND and not _is_below(target, (folder, *GROUND[folder])):
        return f"{folder}/ may not import {module}; allowed: {', '.join(GROUND[folder]) or 'nothing of ours'}"
    order = list(ROOMS)
    if order.index(target) > order.index(origin):
        return f"{origin}/ may not import {module}: {target}/ stands above it in tools/rooms.py"
    return None


def _world_problem(package: str, module: str, is_seam_allowed: bool) -> str | None:
    target = module.split(".")[0]
    if target in ONLY_IN and package not in ONLY_IN[target]:
        return f"only {' and '.join(ONLY_IN[target])} may import {target}"
    if package == "consensus" and (target in WORLD or module.startswith("ordo.runtime.random")):
        return f"consensus/ does no I/O and never imports {target}"
    if package in SEAM_FREE and target in SEAMS and not is_seam_allowed:
        return f"{target} is behind a seam: take the clock or the random stream you are given"
    return None


def check() -> list[Problem]:
    allowed = {line.split("#")[0].strip() for line in SEAM_ALLOWED_PATH.read_text().splitlines()} - {""}
    found = []
    used = set()
    for path in files(".py", ".pyi", ".pyx", ".pxd", packages=PACKAGES):
        name = str(path.relative_to(ROOT))
        package = path.relative_to(ROOT).parts[0]
        for line, module, is_typing_only in imports(path):
            if module.split(".")[0] in SEAMS and name in allowed:
                used.add(name)
            text = _arrow_problem(path, module)
            if text is None and not is_typing_only:
                text = _world_problem(package, module, name in allowed)
            if text is not None:
                found.append(Problem(path, line, text))
    for name in sorted(allowed - used):
        found.append(Problem(SEAM_ALLOWED_PATH, 1, f"{name} needs no allowance any more: remove its line"))
    return sorted(set(found), key=str)
