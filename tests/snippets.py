"""The fenced blocks of a page: what every test that runs or checks a page's snippets reads them with."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block; one without a language is what a command prints."""

    language: str
    text: str


def blocks_of(text: str) -> list[Block]:
    """All blocks of a page, or of a part of one."""
    return [Block(match[2], textwrap.dedent(match[1] + match[3])) for match in FENCE.finditer(text)]


def texts_of(text: str, language: str) -> list[str]:
    """The blocks in one language."""
    return [block.text for block in blocks_of(text) if block.language == language]
