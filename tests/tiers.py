"""The tier of each test, read from what it reaches: `deterministic`, `processes` or `nightly`.

A test reaches what its code names, what the fixtures and helpers that it uses name, and so on through the modules of
FOLLOWED. One that reaches a process, a real cluster or the clock of the machine is of `processes`: its verdict may
depend on what else runs. What a mark of NIGHTLY says of a test comes first.
"""

from __future__ import annotations

import ast
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ALLOWANCES = Path(__file__).with_name("tier_allowances.txt")
TIERS = ("deterministic", "processes", "nightly")
NIGHTLY = ("thorough", "soak", "wheel", "docker", "kubernetes", "releases", "stores", "clients", "root")
REAL_MARKS = ("spark", "peers")
FOLLOWED = ("tests", "tools", "benchmarks")
CLOCKS = ("time.sleep", "time.monotonic", "time.perf_counter", "time.process_time")
REAL = (
    *("subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call", "subprocess.check_output"),
    *("multiprocessing", "concurrent.futures.ProcessPoolExecutor", "os.fork", "pty", "ctypes.util"),
    *("pyspark", "playwright", "docker.from_env", "ordo.deploy.launcher.LocalCluster"),
    *("ordo.testing.check_environments", "ordo.service_api.testing.environments", "ordo.bench", "ordo.demo"),
    "ordo.cluster.node.service_check.check_services",
    *("pdoc",),  # the pages of ordo.spark import pyspark, which asks for the version of its JVM
    *CLOCKS,
)
"""Names that put a test into `processes`, and everything below them."""
REAL_NAMES = frozenset(REAL)
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
"""Audit events of processes that start."""
FONTS = "fc-list"
"""Matplotlib runs it the first time that a user of the machine draws with it, and keeps what it said."""


class Name(NamedTuple):
    """A name at the top of a module of this checkout."""

    path: Path
    name: str


@cache
def allowances() -> dict[str, str]:
    """Return file -> why what it reaches makes no test depend on the machine."""
    lines = (line.partition("#") for line in ALLOWANCES.read_text().splitlines() if line and line[0] != "#")
    return {file.strip(): reason.strip() for file, _, reason in lines}


@cache
def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


@cache
def _source(module: str) -> Path | None:
    """Return the file of a module of this checkout that is followed."""
    if module.partition(".")[0] not in FOLLOWED:
        return None
    path = ROOT.joinpath(*module.split("."))
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found if found.is_file() else None


class Module:
    """What the names at the top of a module stand for, and what their code mentions."""

    def __init__(self, text: str) -> None:
        self.imports: dict[str, str] = {}
        self.mentions: dict[str, set[str]] = {}
        """Name -> the longest dotted names in its code, and the imports inside it, which begin with `=`."""
        self.arguments: dict[str, list[str]] = {}
        for node in ast.parse(text).body:
            self._add(node)

    def _add(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._mention(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        self._mention(part.id, node)
        else:  # `if`, `with` and `try` at the top
            for part in ast.iter_child_nodes(node):
                self._add(part)

    def _mention(self, name: str, node: ast.AST) -> None:
        self.mentions.setdefault(name, set()).update(_named(node))
        self.arguments.setdefault(name, []).extend(_arguments(node))


class Kept:
    """Modules as they were read before, in a file of `build/`: parsing all of them takes as long as importing them."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._modules: dict[Path, tuple[tuple[int, int], Module]] = {}
        self._is_new = False
        with suppress(OSError, EOFError, pickle.PickleError, AttributeError, ImportError, TypeError, ValueError):
            version, modules = pickle.loads(place.read_bytes())
            self._modules = modules if version == self._version() else {}

    @staticmethod
    def _state(path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_mtime_ns, found.st_size

    def _version(self) -> tuple[Path, tuple[int, int]]:
        return Path(__file__), self._state(Path(__file__))

    def read(self, path: Path) -> Module:
        """Return a module, as it is now."""
        state = self._state(path)
        kept = self._modules.get(path)
        if kept is None or kept[0] != state:
            kept = self._modules[path] = (state, Module(path.read_text()))
            self._is_new = True
        return kept[1]

    def save(self) -> None:
        """Write the file again if modules were read; workers that do so at a time disturb each other in nothing."""
        if self._is_new and self._place.parent.is_dir():
            partial = self._place.with_name(f"{self._place.name}.{os.getpid()}")
            partial.write_bytes(pickle.dumps((self._version(), self._modules)))
            partial.replace(self._place)
            self._is_new = False


KEPT = Kept(ROOT / "build" / "tiers.pickle")


@cache
def read(path: Path) -> Module:
    """Return what the names at the top of a file stand for."""
    return KEPT.read(path)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def _named(node: ast.AST) -> Iterator[str]:
    """Give the longest dotted names that code names, and the imports inside it, which begin with `=`."""
    ends = [node]
    while ends:
        part = ends.pop()
        if isinstance(part, ast.ImportFrom) and part.module:
            yield from (f"={part.module}.{alias.name}" for alias in part.names)
        elif isinstance(part, ast.Import):
            yield from (f"={alias.name}" for alias in part.names)
        elif dotted := _dotted(part):
            yield dotted
            continue
        ends += ast.iter_child_nodes(part)


def _arguments(node: ast.AST) -> list[str]:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return [one.arg for one in (*node.args.args, *node.args.kwonlyargs)] if is_function else []  # type: ignore[attr-defined]


@cache
def _fixture(path: Path, name: str) -> Name | None:
    """Return the fixture that a test of a file has by a name: its own, or that of the closest conftest.py."""
    folders = [path.parent, *(folder for folder in path.parent.parents if folder.is_relative_to(ROOT / "tests"))]
    places = [path, *(folder / "conftest.py" for folder in folders)]
    for place in places:
        if place.is_file() and (name in read(place).mentions or name in read(place).imports):
            return Name(place, name)
    return None


@cache
def _leads_to(start: Name) -> tuple[frozenset[Name], frozenset[str]]:
    """Return the names of followed modules that a name mentions, and the full names of all others."""
    module = read(start.path)
    inside, outside = set[Name](), set[str]()
    dotted = {module.imports[start.name].join(("=", ""))} if start.name in module.imports else set()
    dotted |= module.mentions.get(start.name, set())
    fixtures = (_fixture(start.path, one) for one in module.arguments.get(start.name, ()))
    inside.update(found for found in fixtures if found is not None and found != start)
    for one in dotted:
        first, _, rest = one.removeprefix("=").partition(".")
        if not one.startswith("=") and first in module.mentions:
            inside.add(Name(start.path, first))
            continue
        full = one[1:] if one.startswith("=") else ".".join(filter(None, (module.imports.get(first, first), rest)))
        owner, _, last = full.rpartition(".")
        for source, name in ((_source(owner), last), (_source(owner.rpartition(".")[0]), owner.rpartition(".")[2])):
            if source is not None:
                inside.add(Name(source, name))
        outside.add(full)
    return frozenset(inside - {start}), frozenset(outside)


def _is_real(full: str) -> bool:
    parts = full.split(".")
    return any(".".join(parts[:count]) in REAL_NAMES for count in range(1, len(parts) + 1))


@cache
def _real(start: Name) -> tuple[str, ...]:
    """Return what is real among what a name mentions."""
    return tuple(full for full in _leads_to(start)[1] if _is_real(full))


@cache
def reached(path: Path, names: tuple[str, ...], without_allowances: bool = False) -> dict[str, str]:
    """Return what is real among what a test and its fixtures reach -> the name that mentions it."""
    found: dict[str, str] = {}
    open_ends = [one for name in names if (one := _fixture(path, name))]
    seen = set(open_ends)
    while open_ends:
        here = open_ends.pop()
        if not without_allowances and _place(here.path) in allowances():
            continue
        found.update(dict.fromkeys(_real(here), f"{_place(here.path)}: {here.name}"))
        inside = _leads_to(here)[0]
        open_ends += inside - seen
        seen |= inside
    return found


def tier_of(path: Path, names: tuple[str, ...], marks: set[str]) -> str:
    """Return the tier of a test by the names of its function and fixtures, and by its marks."""
    if marks.intersection(NIGHTLY):
        return "nightly"
    if marks.intersection(REAL_MARKS):
        return "processes"
    return "processes" if reached(path.resolve(), names) else "deterministic"


class Guard:
    """Notes the processes that start while a test runs: one of the deterministic tier starts none."""

    def __init__(self) -> None:
        self.started: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in STARTS and FONTS not in arguments[:1]:
            self.started.append(f"{event} {arguments[:2]}")
