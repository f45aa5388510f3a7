"""No module imports, by whatever way round, one that imports it: for `import` and `cimport`, for types alone as well.

The files of a module (`.py`, or `.pyx`, `.pxd` and `.pyi`) count as one.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from tools.check_imports import imports
from tools.source import Problem, files, import_name

Where = tuple[Path, int]
"""File and line of an import."""

Graph = dict[str, dict[str, Where]]
"""What each module imports, and where."""


def read_graph() -> Graph:
    paths = list(files(".py", ".pyi", ".pyx", ".pxd"))
    graph: Graph = {import_name(path): {} for path in paths}
    for path in paths:
        origin = import_name(path)
        for line, target, _ in imports(path):
            module = _resolve(target, graph)
            if module is not None and module != origin:
                graph[origin].setdefault(module, (path, line))
    return graph


def _resolve(target: str, graph: Graph) -> str | None:
    """The module of ours that an import names: itself, or what the imported name is taken from."""
    parts = target.split(".")
    for count in (len(parts), len(parts) - 1):
        if ".".join(parts[:count]) in graph:
            return ".".join(parts[:count])
    return None


def find_way(graph: Graph, origin: str) -> list[str] | None:
    """The shortest way from a module back to itself, both ends named, or None."""
    came_from: dict[str, str] = {}
    queue = deque([origin])
    while queue:
        module = queue.popleft()
        for target in sorted(graph[module]):
            if target == origin:
                way = [origin, module]
                while way[-1] != origin:
                    way.append(came_from[way[-1]])
                return way[::-1] if module != origin else None
            if target not in came_from:
                came_from[target] = module
                queue.append(target)
    return None


def check() -> list[Problem]:
    graph = read_graph()
    ways = {module: way for module in sorted(graph) if (way := find_way(graph, module)) is not None}
    found: list[Problem] = []
    told: set[str] = set()
    for module, way in ways.items():
        if module not in told:
            path, line = graph[module][way[1]]
            found.append(Problem(path, line, f"imports in a circle: {' -> '.join(way)}"))
            told.update(way)
    return found
