"""Sentences that only their author understands: shapes that docstrings and comments must not have.

The lists are short on purpose. They hold habits that were found all over the code once, each with what to write
instead. Idioms that are still there have an allowance for each room, which may only shrink.
"""

from __future__ import annotations

import re

from tools.source import PACKAGES, ROOT, Problem, files

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
"""(regular expression, advice): words of another language in English; counted by room."""

ALLOWED = {
    "applications": 2,
    "archive": 2,
    "cluster": 41,
    "consensus": 35,
    "consumers": 1,
    "follow": 4,
    "gateway": 7,
    "ordo": 5,
    "pipeline": 3,
    "runtime": 3,
    "sequencer": 5,
    "service_api": 2,
    "transport": 10,
}
"""How many idioms each room still has; a room that is not named has none. Lower a number with what you mend."""


def check() -> list[Problem]:
    return _find_shapes() + _find_idioms()


def _find_idioms() -> list[Problem]:
    by_room: dict[str, list[Problem]] = {}
    for path in files(".py", ".pyx", ".pxd", packages=PACKAGES):
        room = path.relative_to(ROOT).parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for idiom, advice in IDIOMS:
                for match in re.finditer(idiom, line):
                    by_room.setdefault(room, []).append(Problem(path, number, f"{match[0].strip()!r}: {advice}"))
    return [
        Problem(one.path, one.line, f"{one.text} ({room} has {len(found)} idioms, {ALLOWED.get(room, 0)} are allowed)")
        for room, found in by_room.items()
        if len(found) > ALLOWED.get(room, 0)
        for one in found
    ]


def _find_shapes() -> list[Problem]:
    found = []
    for path in files(".py", ".pyx", ".pxd"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for shape, advice in SHAPES:
                match = re.search(shape, line)
                if match is not None:
                    found.append(Problem(path, number, f"{match[0].strip()!r}: {advice}"))
    return found
