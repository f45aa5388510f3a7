"""Sentences that only their author understands: shapes that docstrings and comments must not have.

The lists are short on purpose. They hold habits that were found all over the code once, each with what to write
instead.
"""

from __future__ import annotations

import re

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
"""(regular expression, advice): words of another language in English; looked for in the product."""


def check() -> list[Problem]:
    return _find(SHAPES) + _find(IDIOMS, packages=PACKAGES)


def _find(habits: tuple[tuple[str, str], ...], **where: tuple[str, ...]) -> list[Problem]:
    return [
        Problem(path, number, f"{match[0].strip()!r}: {advice}")
        for path in files(".py", ".pyx", ".pxd", **where)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for habit, advice in habits
        if (match := re.search(habit, line)) is not None
    ]
