"""The arrows between the folders, for `import` and `cimport`, and the modules that only some folders may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.source import PACKAGES, ROOT, SUPPORT, Problem, files

ARROWS: dict[str, tuple[str, ...]] = {
    "runtime": (),
    "transport": ("runtime",),
    "archive": ("runtime", "transport"),
    "consensus": ("runtime",),
    "service_api": ("runtime",),
    "cluster": ("runtime", "transport", "archive", "consensus", "service_api"),
    "sequencer": ("runtime", "transport", "archive", "service_api", "cluster.client", "cluster.wire"),
    "gateway": (
        *("runtime", "transport", "archive", "service_api", "cluster.client", "cluster.wire", "sequencer"),
        *("cluster.node.orders", "cluster.node.remote", "cluster.node.top", "cluster.node.upgrading"),
    ),
    "pipeline": (
        *("runtime", "archive", "service_api", "cluster.client", "cluster.wire", "sequencer"),
        "cluster.module.state_store",
    ),
    "deploy": ("runtime.errors", "cluster.node.counters", "cluster.wire.counter_types"),
    "ordo": (
        *("runtime", "transport", "archive", "consensus", "service_api", "cluster", "sequencer"),
        *("gateway", "pipeline", "deploy"),
    ),
}
"""What each folder may import besides itself: a package with all below it, or one module (docs/ARCHITECTURE.md)."""

ROOMS: dict[str, tuple[str, ...]] = {
    "wire": (),
    "module": ("wire",),
    "container": ("wire",),
    "client": ("wire",),
    "node": ("wire", "module", "container", "client"),
}
"""The same between the rooms of `cluster/`."""

ONLY_IN = {
    "pyspark": ("pipeline",),
    "grpc": ("gateway", "service_api"),
    "lmdb": ("archive", "cluster"),
    "docker": ("deploy",),
}
WORLD = frozenset(
    {"socket", "select", "selectors", "time", "datetime", "random", "secrets", "uuid", "threading", "multiprocessing"}
    | {"subprocess", "asyncio", "os", "pathlib", "io", "tempfile", "shutil", "fcntl", "mmap"}
)
"""What I/O-free code never imports."""

SEAM_FREE = ("transport", "archive", "service_api", "cluster")
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


def _is_within(module: str, names: Iterable[str]) -> bool:
    """True when `module` is one of the names, or lies below one."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


def _arrow_problem(package: str, module: str) -> str | None:
    target = module.split(".")[0]
    if target == package or target not in (*PACKAGES, *SUPPORT) or _is_within(module, ARROWS[package]):
        return None
    return f"{package}/ may not import {module}; allowed: {', '.join(ARROWS[package]) or 'nothing of ours'}"


def _room_problem(path: Path, module: str) -> str | None:
    """The arrows between the rooms of `cluster/`."""
    origin, target = path.relative_to(ROOT).parts[:3], module.split(".")
    if origin[0] != "cluster" or len(origin) < 3 or target[0] != "cluster" or len(target) < 2:
        return None
    room = origin[1]
    if target[1] == room or target[1] in ROOMS.get(room, ()):
        return None
    return f"cluster/{room}/ may not import {module}; allowed: {', '.join(ROOMS.get(room, ())) or 'no other room'}"


def _world_problem(package: str, module: str, is_seam_allowed: bool) -> str | None:
    target = module.split(".")[0]
    if target in ONLY_IN and package not in ONLY_IN[target]:
        return f"only {' and '.join(ONLY_IN[target])} may import {target}"
    if package == "consensus" and (target in WORLD or module.startswith("runtime.random")):
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
            text = _arrow_problem(package, module) or _room_problem(path, module)
            if text is None and not is_typing_only:
                text = _world_problem(package, module, name in allowed)
            if text is not None:
                found.append(Problem(path, line, text))
    for name in sorted(allowed - used):
        found.append(Problem(SEAM_ALLOWED_PATH, 1, f"{name} needs no allowance any more: remove its line"))
    return sorted(set(found), key=str)
