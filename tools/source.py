"""What the checks share: the files of the checkout, and a plain reading of Cython functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FACE = "ordo"
"""The one name that is imported. Its folder reaches every other folder of the product through a link."""

PACKAGES = (
    *("runtime", "transport", "archive", "consensus", "service_api", "follow", "sequencer", "cluster"),
    *("consumers", "applications", "gateway", "pipeline", "deploy", FACE),
)
"""The folders of the product, by their place in the repository."""

SUPPORT = ("tests", "benchmarks", "examples", "tools")
GENERATED = re.compile(
    r"(_pb2(_grpc)?\.pyi?|/(wire|protocol)/records\.py)$|/examples/clients/\w+/(target|node_modules)/"
)

_HEADER = re.compile(r"^(?P<indent>\s*)(?:async\s+)?(?P<kind>def|cdef|cpdef)\s+(?P<rest>.*)$")
_NAME = re.compile(r"(?P<name>\w+)\s*\(")


@dataclass(frozen=True)
class Problem:
    """One line of a check's report."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Function:
    """A Cython function: its header on lines `first..body_first - 1`, its body up to `last`, 1-based."""

    name: str
    header: str
    first: int
    body_first: int
    last: int
    indent: int

    @property
    def is_nogil(self) -> bool:
        return bool(re.search(r"\bnogil\s*$", self.header))

    @property
    def is_noexcept(self) -> bool:
        return bool(re.search(r"\bnoexcept\b", self.header))


def files(*suffixes: str, packages: tuple[str, ...] = PACKAGES + SUPPORT) -> Iterator[Path]:
    """The source files of the packages, generated ones aside, in order."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in suffixes and "__pycache__" not in path.parts and not GENERATED.search(path.as_posix()):
                yield path


def import_name(path: Path) -> str:
    """Return the name by which a file is imported: `cluster/wire/codecs.py` is `ordo.cluster.wire.codecs`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] in PACKAGES and parts[0] != FACE:
        parts = (FACE, *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cython_functions(lines: list[str]) -> Iterator[Function]:
    """Every function with a body in a .pyx or .pxd file, outermost first."""
    for index, line in enumerate(lines):
        match = _HEADER.match(line)
        if match is None:
            continue
        header, body = _header(lines, index)
        named = _NAME.search(match["rest"])
        if body is None or named is None or re.match(r"(class|struct|enum|extern|packed|union)\b", match["rest"]):
            continue
        indent = len(match["indent"])
        last = _last_line(lines, body, indent)
        if last >= body:
            yield Function(named["name"], header, index + 1, body + 1, last + 1, indent)


def _header(lines: list[str], index: int) -> tuple[str, int | None]:
    """The joined header without its colon, and the index of the first line of the body; None for a declaration."""
    text = ""
    depth = 0
    for at in range(index, min(index + 20, len(lines))):
        code = lines[at].split("#")[0].rstrip()
        depth += code.count("(") + code.count("[") - code.count(")") - code.count("]")
        text = f"{text} {code.strip()}".strip()
        if depth == 0:
            return (text[:-1].rstrip(), at + 1) if text.endswith(":") else (text, None)
    return text, None


def _last_line(lines: list[str], body: int, indent: int) -> int:
    last = body - 1
    for at in range(body, len(lines)):
        text = lines[at]
        if not text.strip():
            continue
        if len(text) - len(text.lstrip()) <= indent and not text.lstrip().startswith(")"):
            break
        last = at
    return last


def docstring_lines(lines: list[str], function: Function) -> int:
    """How many lines of the body are its docstring."""
    first = lines[function.body_first - 1].strip()
    match = re.match(r'[rRbB]?("""|\'\'\')', first)
    if match is None:
        return 1 if re.fullmatch(r'"[^"]*"', first) else 0
    quote = match[1]
    if first.count(quote) >= 2:
        return 1
    for count, line in enumerate(lines[function.body_first : function.last], 2):
        if quote in line:
            return count
    return 0


def without_gil_blocks(lines: list[str], function: Function) -> Iterator[int]:
    """Line numbers of the body that run without the GIL: all but `with gil` blocks."""
    gil_indent: int | None = None
    for number in range(function.body_first, function.last + 1):
        text = lines[number - 1]
        indent = len(text) - len(text.lstrip())
        if gil_indent is not None and text.strip() and indent <= gil_indent:
            gil_indent = None
        if re.match(r"\s*with gil\b", text):
            gil_indent = indent
            continue
        if gil_indent is None:
            yield number
