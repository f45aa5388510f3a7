"""Constants that stand once: a second definition of one of these names is refused, whatever its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.source import PACKAGES, ROOT, Problem, files

HOMES: dict[str, tuple[str, ...]] = {
    "runtime/native/time_units": ("MICROSECOND_NS", "MILLISECOND_NS", "SECOND_NS"),
    "runtime/native/sentinels": ("NEVER", "NULL_POSITION", "NULL_VALUE"),
    "transport/frame_layout": ("FRAME_ALIGNMENT", "FRAME_HEADER_LENGTH", "SETUP_LENGTH"),
    "transport/streams/logbuffer": (
        "FRAME_LENGTH_OFFSET",
        "FRAME_VERSION_OFFSET",
        "FRAME_FLAGS_OFFSET",
        "FRAME_TYPE_OFFSET",
        "TERM_OFFSET_OFFSET",
        "SESSION_ID_OFFSET",
        "STREAM_ID_OFFSET",
        "TERM_ID_OFFSET",
        "RESERVED_VALUE_OFFSET",
    ),
}
"""Module to the names that it defines for all; native code has them at compile time out of its .pxd."""

NATIVE = {"FRAME_ALIGNMENT": "transport/streams/logbuffer.pxd", "SETUP_LENGTH": "transport/driver/frames/frames.pxd"}
"""What native code has in a module of another name; a test compares the values."""

_CYTHON = re.compile(
    r"^\s*(?:cdef\s+|cpdef\s+|const\s+)*(?:\w+\s+)?(?P<name>[A-Z][A-Z0-9_]*)\s*(?:=(?!=)|\"[^\"]+\"\s*$)"
)


def python_definitions(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of what a module assigns at its top, leading underscores left out."""
    for node in ast.parse(text).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    yield name.lineno, name.id.lstrip("_")


def cython_definitions(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of what a Cython file assigns outside brackets, members of enums included."""
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        match = _CYTHON.match(code.replace(" _", " ").lstrip("_")) if depth == 0 else None
        if match is not None:
            yield number, match["name"]
        depth = max(0, depth + sum(code.count(one) for one in "([{") - sum(code.count(one) for one in ")]}"))


def second_definitions(path: Path) -> Iterator[Problem]:
    """Yield what a file defines although another module does."""
    home_of = {name: home for home, names in HOMES.items() for name in names}
    place = path.relative_to(ROOT).with_suffix("").as_posix()
    found = python_definitions if path.suffix == ".py" else cython_definitions
    for line, name in found(path.read_text()):
        if home_of.get(name, place) != place and NATIVE.get(name) != path.relative_to(ROOT).as_posix():
            yield Problem(path, line, f"{name} is defined in {home_of[name]}: import it from there")


def check() -> list[Problem]:
    """Return every second definition in the product."""
    return [problem for path in files(".py", ".pyx", ".pxd", packages=PACKAGES) for problem in second_definitions(path)]
