"""Native code grows memory in one place only, where sizes are checked: no `realloc` outside
runtime/native/native_vector.pyx.

What grows is a NativeVector. A pool that is not asked to keep its contents (calloc, copy, free) is not meant.
"""

from __future__ import annotations

import re

from tools.source import ROOT, Problem, files

OWNER = "runtime/native/native_vector.pyx"
_GROWS = re.compile(r"\b(?:realloc|reallocarray|PyMem_(?:Raw)?Realloc|PyMem_Resize)\b")


def check() -> list[Problem]:
    found = []
    for path in files(".pyx", ".pxd", ".h"):
        if path.relative_to(ROOT).as_posix() == OWNER:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = _GROWS.search(line)
            if match is not None and "`" not in line:
                found.append(Problem(path, number, f"{match[0]}: what grows is a NativeVector ({OWNER})"))
    return found
