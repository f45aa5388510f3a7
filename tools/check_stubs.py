"""Each Cython module with a Python-visible name has a .pyi beside it."""

from __future__ import annotations

import re

from tools.source import PACKAGES, Problem, files

_VISIBLE = re.compile(r"^(?:def|cpdef|class|cdef class)\s+(?!_)", re.MULTILINE)


def check() -> list[Problem]:
    return [
        Problem(path, 1, f"{path.with_suffix('.pyi').name} is missing: describe its Python API")
        for path in files(".pyx", packages=PACKAGES)
        if _VISIBLE.search(path.read_text()) and not path.with_suffix(".pyi").exists()
    ]
