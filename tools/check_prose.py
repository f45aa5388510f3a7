"""Sentences that only their author understands: shapes that docstrings, comments and pages must not have.

The lists are short on purpose. They hold habits that were found all over the code once, each with what to write
instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tools import citations
from tools.source import PACKAGES, Problem, files

SHAPES = (
    (r"gain is harm(?:less)", 'say "Idempotent."'),
    (r"\bLikewise\.", "say what it does"),
    (r"(?:;|, and) answers (?:the|a|an|its|their|it|them|how|what|where|whether|None|True|False)\b", 'say "returns"'),
    (r'"""(?:By role|The newest|All of them|The same|One of them|As above|See above)\."""', "say what it does"),
    (r"(?<!first )\bseed \d", "say what happens; a regression test may name the seed"),
)
"""(regular expression, advice): each is looked for line by line."""

IDIOMS = (
    (r"\b(?:for|of|to) who (?!are\b|is\b)", 'say "for those that"'),
    (r"\bso many\b(?! (?:that|as)\b)", 'say "this many"'),
    (r"\bbehind (?:the|a|its) (?:snapshot|record|message|restart|start|event)\b", 'say "after"'),
    (r"\b(?:is|are|may be) \w+ no more\b", 'say "no longer"'),
    (r"\b[Tt]he own (?:log|durable|services?|state|ones?)\b", 'say whose: "this member\'s log"'),
)
"""(regular expression, advice): words of another language in English; looked for in the product and on its pages."""

WORDS = (
    (r"\b[Ww]hoever\b(?! has it, is)", 'say which: "a program that", "the member that"'),
    (r"\bin good order\b", 'say "properly"'),
)
"""(regular expression, advice): as IDIOMS, but not in native sources yet."""

FRAGMENTS = (
    (r'"""(?:Of|Those|Whose|Only) ', "begin with a verb, or with what the thing is"),
    (r'"""By (?:\w+ )?(?:id|member|service|group|principal|session|recording|type|stage)\b', 'say "Keyed by"'),
    (r'"""As [A-Z]\w*\.', 'say "See"'),
)
"""(regular expression, advice): beginnings of docstrings that are no sentence; looked for in the product's Python."""


def check() -> list[Problem]:
    product = list(files(".py", ".pyx", ".pxd", packages=PACKAGES))
    python = [path for path in product if path.suffix == ".py"]
    pages = [path for path in citations.pages() if path.name != "CHANGELOG.md"]  # what was released stays as it was
    return [
        *_find(SHAPES, files(".py", ".pyx", ".pxd")),
        *_find(IDIOMS, [*product, *pages]),
        *_find(WORDS, [*python, *pages]),
        *_find(FRAGMENTS, python),
    ]


def _find(habits: tuple[tuple[str, str], ...], paths: Iterable[Path]) -> list[Problem]:
    return [
        Problem(path, number, f"{match[0].strip()!r}: {advice}")
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for habit, advice in habits
        if (match := re.search(habit, line)) is not None
    ]
