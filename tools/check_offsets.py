"""Offsets into frames, messages and records have names: native code adds no bare number to an address, nor indexes one.

A name stands in the .pxd of what it is an offset of: streams/logbuffer.pxd for frames of data, driver/frames/frames.pxd
for the other frames on the wire, cluster/wire/layout.pxd for messages. Strides (`4 * i`), element 0 and `+ 1` are no
offsets of a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.source import PACKAGES, Problem, files

_ACCESS = re.compile(r"\b(?:ordo_(?:get|put|load|store|fetch|cas)\w*|get_u\d\d|mem(?:cpy|cmp|set|move))\(")
_BARE = re.compile(r"[\w\])] \+ (?P<number>[2-9]|[1-9]\d+)\b(?! ?[*/%\w.])")
_LEADING = re.compile(r"^\s*(?P<number>[2-9]|[1-9]\d+) \+ \w")
_CAST = re.compile(r"<\w[\w ]*\*+> ?\([^()]*[\w\])] \+ (?P<number>[2-9]|[1-9]\d+)\)")
_BYTE = re.compile(
    r"\b(?:frames?|header|datagram|message|record|reply|hello|head|target|out|a|b)"
    r"\[(?:\w+ \+ )?(?P<number>[2-9]|[1-9]\d+)\]"
)
_DECLARATION = re.compile(r"^\s*cdef\s+\w+\s+\w+\[")


def split_arguments(code: str, start: int) -> list[str]:
    """Return the arguments of the call whose bracket was opened before `start`, as far as they are on this line."""
    depth, begin, found = 1, start, []
    for index in range(start, len(code)):
        if code[index] in "([":
            depth += 1
        elif code[index] in ")]":
            depth -= 1
        if depth == 0 or (code[index] == "," and depth == 1):
            found.append(code[begin:index])
            begin = index + 1
        if depth == 0:
            return found
    return [*found, code[begin:]]


def addresses(code: str) -> Iterator[str]:
    """Yield the arguments of a line that are addresses: the first one, of memcpy, memcmp and memmove the second too."""
    for match in _ACCESS.finditer(code):
        count = 2 if match[0].startswith(("memcpy", "memcmp", "memmove")) else 1
        yield from split_arguments(code, match.end())[:count]


def bare_offsets(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, number) of what stands where a name should."""
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        if _DECLARATION.match(code):
            continue
        found = [match for part in addresses(code) for match in (_BARE.search(part), _LEADING.search(part))]
        found += [_CAST.search(code), _BYTE.search(code)]
        yield from ((number, match["number"]) for match in found if match is not None)


def problems(path: Path) -> Iterator[Problem]:
    """Yield the bare offsets of a native module."""
    for line, number in bare_offsets(path.read_text()):
        yield Problem(path, line, f"bare offset {number}: name it in the .pxd of the frame or message")


def check() -> list[Problem]:
    """Return every bare offset in the product."""
    return [problem for path in files(".pyx", ".pxd", packages=PACKAGES) for problem in problems(path)]
