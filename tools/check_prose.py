"""Sentences that only their author understands: shapes that docstrings and comments must not have.

The list is short on purpose. It holds habits that were found all over the code once, each with what to write instead.
"""

from __future__ import annotations

import re

from tools.source import Problem, files

SHAPES = (
    (r"gain is harm(?:less)", 'say "Idempotent."'),
    (r"\bLikewise\.", "say what it does"),
    (r"(?:;|, and) answers (?:the|a|an|its|their|it|them|how|what|where|whether|None|True|False)\b", 'say "returns"'),
    (r'"""(?:By role|The newest|All of them|The same|One of them|As above|See above)\."""', "say what it does"),
    (r"(?<!first )\bseed \d", "say what happens; a regression test may name the seed"),
)
"""(regular expression, advice): each is looked for line by line."""


def check() -> list[Problem]:
    found = []
    for path in files(".py", ".pyx", ".pxd"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for shape, advice in SHAPES:
                match = re.search(shape, line)
                if match is not None:
                    found.append(Problem(path, number, f"{match[0].strip()!r}: {advice}"))
    return found
