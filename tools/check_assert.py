"""No assert and no raise inside a `noexcept` function: both would be printed and swallowed.

A `raise` inside a `try` of the same function is caught there and allowed. The node must refuse `python -O`, which takes
the asserts out.
"""

from __future__ import annotations

import re

from tools.source import ROOT, Problem, cython_functions, files


def _inside_try(lines: list[str], first: int, number: int) -> bool:
    indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    for at in range(number - 1, first - 1, -1):
        text = lines[at - 1]
        depth = len(text) - len(text.lstrip())
        if text.strip() and depth < indent:
            indent = depth
            if re.match(r"\s*try\s*:", text):
                return True
            if re.match(r"\s*(except|finally|else)\b", text):
                return False
    return False


def check() -> list[Problem]:
    found = []
    for path in files(".pyx", ".pxd"):
        lines = path.read_text().splitlines()
        for function in cython_functions(lines):
            if not function.is_noexcept:
                continue
            for number in range(function.body_first, function.last + 1):
                match = re.match(r"\s*(assert|raise)\b", lines[number - 1])
                if match is not None and not _inside_try(lines, function.body_first, number):
                    text = f"{match[1]} in the noexcept function {function.name} is swallowed; return a code"
                    found.append(Problem(path, number, text))
    if not any("__debug__" in path.read_text() for path in files(".py", packages=("cluster",))):
        found.append(Problem(ROOT / "cluster" / "__init__.py", 1, "no module refuses `python -O` (see __debug__)"))
    return found
