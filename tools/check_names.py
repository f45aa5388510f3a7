"""Names in comments and docstrings that exist: what was renamed or deleted is not named any more.

`name`, `a.b.c`      in backquotes: each word is an identifier of the code, or a word in one of its strings
cluster/wire/x.py    a path, or the end of one: there is such a file
cluster.wire.x       what begins like a module of the product: there is the module, and the rest is an identifier
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tools.source import PACKAGES, ROOT, Problem, files

FOREIGN = frozenset(("ServicerContext", "post_fork", "initializer"))
"""What other software has, which no code of ours names: gRPC, gunicorn, pools of processes."""
NAMES_OF_SUFFIXES = (".toml", ".h", ".xml", ".proto", ".html", ".js")
"""Beside the sources, what has names that comments speak of: settings, the libraries of C, schemas, the console."""
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi")
FILE_SUFFIXES = r"(?:pyx|pxd|pyi|py|md)"

_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`\n]*\))?`")
_PATH = re.compile(rf"(?<![\w/.*<>-])((?:[\w-]+/)*\w+\.{FILE_SUFFIXES})\b(?![/*]|:\d)")
_MODULE = re.compile(rf"(?<![\w./-])((?:{'|'.join(PACKAGES)})(?:\.[a-z_]\w*)+(?:\.\w+)*)\b(?!/)")


class Piece(NamedTuple):
    """One comment or docstring, and the line on which it begins."""

    line: int
    text: str


class Source(NamedTuple):
    """A file divided into what is said in it and the words of its code."""

    prose: list[Piece]
    words: set[str]


class Names:
    """What there is to be named in a checkout."""

    def __init__(self, words: Iterable[str], paths: Iterable[str]) -> None:
        self._paths = set(paths)
        self._words = {*words, *FOREIGN}
        self._words.update(word for path in self._paths for word in _WORD.findall(path))
        self._ends = {path.split("/", count)[-1] for path in self._paths for count in range(path.count("/") + 1)}
        self._modules = {path.rpartition(".")[0].removesuffix("/__init__") for path in self._paths}
        self._modules |= {str(folder) for path in self._paths for folder in Path(path).parents}

    def unknown(self, text: str) -> Iterator[str]:
        """Yield what a comment or docstring names and nobody has."""
        for name in _QUOTED.findall(text):
            if not self._is_known(name):
                yield f"`{name}`"
        for path in _PATH.findall(text):
            if path not in self._ends:
                yield path
        for name in _MODULE.findall(text):
            if not self._is_module(name) and not re.search(rf"\.{FILE_SUFFIXES}$", name):
                yield name

    def _is_known(self, name: str) -> bool:
        return all({word, word.lower()} & self._words for word in _WORD.findall(name)) or _is_of_python(name)

    def _is_module(self, name: str) -> bool:
        parts = name.removeprefix("ordo.").split(".")
        if name.startswith("ordo.") and parts[0] not in PACKAGES:  # what `ordo` exports, or its protocol buffers
            return all(word in self._words for word in parts)
        for count in range(len(parts), 0, -1):
            if "/".join(parts[:count]) in self._modules or f"ordo/{'/'.join(parts[:count])}" in self._modules:
                return all(word in self._words for word in parts[count:])
        return False


def _is_of_python(name: str) -> bool:
    """Return whether it is a builtin, or in a module of the standard library that is imported already or cheap."""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(import_module(module or "builtins"), attribute)
    except (ImportError, ValueError):
        return False


def read_python(text: str) -> Source:
    """Divide a Python file."""
    found = Source([], set())
    docstrings = {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.start in docstrings):
            found.prose.append(Piece(token.start[0], token.string))
        elif token.type in (tokenize.NAME, tokenize.STRING):
            found.words.update(_WORD.findall(token.string))
    return found


def read_cython(text: str) -> Source:
    """Divide a Cython file."""
    found = Source([], set())

    def take(match: re.Match[str]) -> str:
        found.prose.append(Piece(match.string[: match.start()].count("\n") + 1, match[0]))
        return "\n" * match[0].count("\n")

    code = re.sub(r'"""(?:.|\n)*?"""', take, text)
    code = re.sub(r"#[^\n\"']*(?=\n)", take, code)
    found.words.update(_WORD.findall(code))
    return found


def read(path: Path) -> Source:
    text = path.read_text()
    return read_python(text) if path.suffix in (".py", ".pyi") else read_cython(text)


def find(sources: dict[Path, Source], names: Names) -> Iterator[Problem]:
    """Yield what the product names and nobody has."""
    for path, source in sources.items():
        for piece in source.prose if path.relative_to(ROOT).parts[0] in PACKAGES else ():
            for name in names.unknown(piece.text):
                yield Problem(path, piece.line, f"names {name}, which is nowhere: mend the comment, or do not quote it")


def check() -> list[Problem]:
    """Return every name in a comment of the product that does not exist."""
    sources = {path: read(path) for path in files(*SUFFIXES, packages=(*PACKAGES, "tools"))}
    words = {word for source in sources.values() for word in source.words}
    for path in (*files(*NAMES_OF_SUFFIXES), *ROOT.glob("*.toml"), *ROOT.glob("setup.py")):
        words.update(_WORD.findall(path.read_text()))
    paths = [path.relative_to(ROOT).as_posix() for path in (*files(*SUFFIXES), *ROOT.rglob("docs/**/*.md"))]
    paths += [path.name for path in ROOT.glob("*.*")] + [*PACKAGES, "node.toml"]
    return list(find(sources, Names(words, paths)))
