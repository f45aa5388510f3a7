"""The page of clients says of every error that a client raises what is true then, and what to do."""

from __future__ import annotations

import re

from ordo.deploy.launcher import ROOT
from ordo.runtime import errors
from ordo.runtime.errors import ClusterError, OrdoError, RequestOutcome
from tools.errors_page import tree

NAME = re.compile(r"\b[A-Z]\w+Error\b")
GENERAL = {"OrdoError", "DecodeError"}
"""The root, and what is caught where bytes are read."""
OPERATORS = {"operator.py"}


def test_the_page_has_every_error_of_a_client() -> None:
    folder = ROOT / "cluster" / "client"
    sources = [one for one in folder.rglob("*") if one.suffix in (".py", ".pyx") and one.name not in OPERATORS]
    named = {name for source in sources for name in NAME.findall(source.read_text())}
    ours = {
        name for name in named if isinstance(kind := getattr(errors, name, None), type) and issubclass(kind, OrdoError)
    }
    page = (ROOT / "docs" / "CLIENT.md").read_text().partition("\n## Errors\n")[2]
    explained = set(NAME.findall(page))
    assert len(ours) > 10 and ours - GENERAL <= explained, sorted(ours - GENERAL - explained)


def test_the_page_of_errors_has_every_error_that_always_has_the_same_outcome() -> None:
    """A new error of a request needs one, or says at each occurrence what became of the request."""
    known = {kind.__name__: kind.default_outcome for kind in tree() if kind.default_outcome is not None}
    assert known == {
        "RejectedError": RequestOutcome.EXECUTED,
        "AnswerTooLongError": RequestOutcome.EXECUTED,
        "AnswerForgottenError": RequestOutcome.EXECUTED,
        "RequestIdError": RequestOutcome.NOT_EXECUTED,
        "ForkedError": RequestOutcome.NOT_EXECUTED,
        "OutcomeUnknownError": RequestOutcome.UNKNOWN,
    }
    page = (ROOT / "docs" / "ERRORS.md").read_text()
    rows = page.partition("## Executed or not")[2].partition("\n## ")[0].splitlines()
    for name, outcome in known.items():
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert row.startswith(f"| {outcome.value} |")


def test_every_outcome_is_said_in_words_that_a_text_begins_with() -> None:
    for outcome in RequestOutcome:
        assert outcome.value in ClusterError("why").for_request(outcome).message


def test_the_page_has_every_event_of_a_client() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "cluster" / "client").glob("*.py")))
    kinds = set(re.findall(r'ClientEvent\(\s*"(\w+)"', source)) | set(re.findall(r'kind = "(\w+)" if', source))
    page = (ROOT / "docs" / "CLIENT.md").read_text()
    assert len(kinds) >= 6 and all(f"`{kind}`" in page for kind in kinds), kinds
