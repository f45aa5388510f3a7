"""Functions that run without the GIL touch no Python object, and the compiler has no performance hint.

Every .pyx is compiled with annotations into build/annotate; there each line has a score, and a line of a nogil function
outside `with gil` must score 0. Results are kept until the module or a .pxd changes.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.source import ROOT, Problem, cython_functions, files, without_gil_blocks

ANNOTATE_PATH = ROOT / "build" / "annotate"
_SCORE = re.compile(r'class="cython line score-(\d+)"[^>]*>\+?<span class="">(\d+)</span>')
_HINT = re.compile(r"performance hint: (.*)")


def _newest_pxd() -> float:
    return max(path.stat().st_mtime for path in files(".pxd", ".h"))


def annotate(path: Path) -> None:
    """Compiles one module; writes <module>.html and <module>.log."""
    compiler: Any = import_module("Cython.Compiler.Main")
    options: Any = import_module("Cython.Compiler.Options")

    sys.path.insert(0, str(ROOT))
    from setup import DIRECTIVES

    os.chdir(ROOT)
    relative = path.relative_to(ROOT)
    target = ANNOTATE_PATH / relative.with_suffix(".c")
    target.parent.mkdir(parents=True, exist_ok=True)
    settings = dict(
        options.default_options,
        annotate=True,
        output_file=str(target),
        compiler_directives=DIRECTIVES,
        include_path=[str(ROOT)],
    )
    log = io.StringIO()
    with contextlib.redirect_stderr(log):
        compiler.compile_single(
            str(relative), compiler.CompilationOptions(settings), ".".join(relative.with_suffix("").parts)
        )
    target.unlink(missing_ok=True)
    target.with_suffix(".log").write_text(log.getvalue())


def _is_stale(path: Path, newest_pxd: float) -> bool:
    log = (ANNOTATE_PATH / path.relative_to(ROOT)).with_suffix(".log")
    return not log.exists() or log.stat().st_mtime < max(newest_pxd, path.stat().st_mtime)


def scores(path: Path) -> dict[int, int]:
    """Line number -> score of a compiled module; empty when it did not compile."""
    page = (ANNOTATE_PATH / path.relative_to(ROOT)).with_suffix(".html")
    if not page.exists():
        return {}
    return {int(line): int(score) for score, line in _SCORE.findall(html.unescape(page.read_text()))}


def _problems(path: Path) -> list[Problem]:
    log = (ANNOTATE_PATH / path.relative_to(ROOT)).with_suffix(".log").read_text()
    found = [Problem(path, 1, f"performance hint: {hint}") for hint in _HINT.findall(log)]
    by_line = scores(path)
    if not by_line:
        return [*found, Problem(path, 1, "does not compile; see build/annotate")]
    lines = path.read_text().splitlines()
    for function in cython_functions(lines):
        if not function.is_nogil:
            continue
        for number in without_gil_blocks(lines, function):
            score = by_line.get(number, 0)
            if score > 0 and not re.match(r"\s*assert\b", lines[number - 1]):
                text = f"{function.name} runs without the GIL but this line scores {score}: {lines[number - 1].strip()}"
                found.append(Problem(path, number, text))
    return found


def check() -> list[Problem]:
    modules = list(files(".pyx"))
    newest = _newest_pxd()
    stale = [path for path in modules if _is_stale(path, newest)]
    if stale:
        with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            list(pool.map(annotate, stale))
    return [problem for path in modules for problem in _problems(path)]
