"""docs/ERRORS.md, out of the tree of errors. `python -m tools.errors_page` writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from ordo.runtime import errors
from ordo.runtime.errors import Category, OrdoError, RequestOutcome
from tools.source import ROOT, Problem

PAGE = ROOT / "docs" / "ERRORS.md"
SOURCE = ROOT / "runtime" / "errors.py"
REMEDY = "What to do: "
_PAGE_NAME = re.compile(r"\b([A-Z]+\.md)\b")
HEAD = """# Errors and their remedies

<!-- Written by `make fix` out of runtime/errors.py; do not edit. -->

Everything that Ordo raises is below `OrdoError`; `ordo.errors` has all of it. The message is one line: what was wrong,
what is allowed, what to do. A command prints this line after `ordo:` and ends with an exit status other than 0. Errors
that a node survives are counted and listed by `ordo errors --config node.toml`.

`error.category` says what an error means for the process that meets it: **fatal** ends it, **error** fails the
operation, **warn** is worth a line in the log.
"""
OUTCOMES = """## Executed or not

An error that ends a request says in `error.outcome`, and in its text, what became of it: `"executed"`,
`"not executed"`, or `"unknown"`. It is None for errors that ended none. A caller of the gateway reads the same in the
trailing metadata `ordo-outcome` ([GATEWAY.md](GATEWAY.md)).

| outcome | errors of a request | send it again? |
|---|---|---|
| executed | {executed} | no |
| not executed | {not_executed}; `ClusterError`: too long, no room, called in a callback, no ids taken; \
`ConfigurationError`: an id or a `timeout_s` that is none; `StorageError`: no room in the journal | \
yes, once what the text names is mended |
| unknown | {unknown}, `ClusterTimeoutError` of a request, which goes on | \
wait with `error.pending.result()`; else only with the same `id` \
([CLIENT.md](CLIENT.md#ids-of-your-own)) |
| as the text says | `SessionClosedError`, `IdentityError`, the errors of a lost driver: *not executed* if the \
request was not sent, else *unknown* | as above |

`ClusterTimeoutError` of `send` is *not executed*, and with `until=` *unknown*; of other calls it
has no outcome. Queries change nothing: they may be asked again.
"""


def tree(root: type[OrdoError] = OrdoError) -> Iterator[type[OrdoError]]:
    """Yields the errors of ordo.runtime.errors, each before those below it."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from tree(kind)


def parts_of(kind: type[OrdoError]) -> tuple[str, str]:
    """Returns what an error means, and what to do about it."""
    paragraphs = [" ".join(one.split()) for one in (inspect.cleandoc(kind.__doc__ or "")).split("\n\n")]
    *meaning, last = paragraphs
    return (" ".join(meaning), last.removeprefix(REMEDY)) if last.startswith(REMEDY) else (" ".join(paragraphs), "")


def render() -> str:
    """Returns the whole page."""
    branches = [list(tree(kind)) for kind in OrdoError.__subclasses__() if kind.__module__ == errors.__name__]
    alone: list[type[OrdoError]] = [OrdoError, *(branch[0] for branch in branches if len(branch) == 1)]
    wide = [_section(branch[0].__name__, branch) for branch in branches if len(branch) > 1]
    return "\n".join([HEAD, _outcomes(), _section("In general", alone), *wide])


def _outcomes() -> str:
    """The table of outcomes, with the errors that always have the same one."""
    always = {
        outcome.name.lower(): ", ".join(f"`{kind.__name__}`" for kind in tree() if kind.default_outcome is outcome)
        for outcome in RequestOutcome
    }
    return OUTCOMES.format(**always)


def _section(title: str, kinds: Iterable[type[OrdoError]]) -> str:
    rows = "".join(_row(kind) for kind in kinds)
    return f"## {title}\n\n| error | below | category | what it means | what to do |\n|---|---|---|---|---|\n{rows}"


def _row(kind: type[OrdoError]) -> str:
    parent = kind.__bases__[0].__name__
    category: Category = kind.default_category
    meaning, remedy = (_PAGE_NAME.sub(r"[\1](\1)", part) for part in parts_of(kind))
    return f"| `{kind.__name__}` | `{parent}` | {category.value} | {meaning} | {remedy} |\n"


def check() -> list[Problem]:
    """Problems when an error has no remedy, or the page is not what the tree says."""
    missing = [kind.__name__ for kind in tree() if not parts_of(kind)[1]]
    problems = [Problem(SOURCE, 1, f'{name}: end its docstring with "{REMEDY}..."') for name in missing]
    if not PAGE.exists() or PAGE.read_text() != render():
        problems.append(Problem(PAGE, 1, "not what the tree of errors says; write it with `make fix`"))
    return problems


if __name__ == "__main__":
    PAGE.write_text(render())
