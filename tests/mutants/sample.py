"""Which mutants are planted: as many in each folder of the product as its size says, at most one in a function."""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.changes import all_changes
from tests.mutants.mutate import ROOT, Mutant, find_function, functions_of, mutant_of

EACH_MIN = 4
"""A folder has so many at least."""
SKIPPED = ("_pb2.py", "_pb2_grpc.py", "__main__.py")


def product_files() -> dict[str, list[str]]:
    """Return the folders of the product, each with its Python files as paths from the root."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]["source"]
    return {folder: sorted(_files(ROOT / folder)) for folder in named}


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if not path.name.endswith(SKIPPED) and not any((ROOT / Path(*parts[:n])).is_symlink() for n in (1, 2)):
            yield path.relative_to(ROOT).as_posix()


def choose(count: int, seed: int) -> list[Mutant]:
    """Return about as many mutants as are asked for."""
    folders = product_files()
    lines = {path: len((ROOT / path).read_text().splitlines()) for paths in folders.values() for path in paths}
    total = sum(lines.values())
    chosen: list[Mutant] = []
    for folder, paths in folders.items():
        share = max(EACH_MIN, round(count * sum(lines[path] for path in paths) / total))
        chosen += _of_folder(paths, [lines[path] for path in paths], share, random.Random(f"{seed} {folder}"))
    return chosen


def _of_folder(paths: list[str], weights: list[int], share: int, dice: random.Random) -> Iterator[Mutant]:
    taken: set[tuple[str, str]] = set()
    for path in dice.choices(paths, weights, k=20 * share):
        functions = [(name, one) for name, one in functions_of(path) if (path, name) not in taken]
        if functions:
            sizes = [sum(1 for _ in ast.walk(one)) for _, one in functions]
            [(name, function)] = dice.choices(functions, sizes)
            taken.add((path, name))
            places = list(all_changes(function))
            mutant = mutant_of(path, name, function, *dice.choice(places)) if places else None
            if mutant is not None and fits(mutant):
                share -= 1
                yield mutant
        if share == 0:
            return


def fits(mutant: Mutant) -> bool:
    """Return whether it can be put in: its function can be found, and is what stands in the file."""
    try:
        function = find_function(mutant.path, mutant.function)
    except (ImportError, AssertionError, KeyError):
        return False
    is_same = Path(function.__code__.co_filename).resolve() == (ROOT / mutant.path).resolve()
    name = mutant.function.rpartition(".")[2]
    changed = mutant.compiled(mutant.changed) if is_same and function.__code__.co_name == name else None
    return changed is not None and changed.co_freevars == function.__code__.co_freevars
