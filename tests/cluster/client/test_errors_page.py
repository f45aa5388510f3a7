"""The page of clients says of every error that a client raises what is true then, and what to do."""

from __future__ import annotations

import re

from deploy.launcher import ROOT
from runtime import errors
from runtime.errors import OrdoError

NAME = re.compile(r"\b[A-Z]\w+Error\b")
GENERAL = {"OrdoError", "DecodeError"}
"""The root, and what is caught where bytes are read."""
OPERATORS = {"operator.py"}


def test_the_page_has_every_error_of_a_client() -> None:
    folder = ROOT / "cluster" / "client"
    sources = [one for one in folder.iterdir() if one.suffix in (".py", ".pyx") and one.name not in OPERATORS]
    named = {name for source in sources for name in NAME.findall(source.read_text())}
    ours = {
        name for name in named if isinstance(kind := getattr(errors, name, None), type) and issubclass(kind, OrdoError)
    }
    page = (ROOT / "docs" / "CLIENT.md").read_text().partition("\n## Errors\n")[2]
    explained = set(NAME.findall(page))
    assert len(ours) > 10 and ours - GENERAL <= explained, sorted(ours - GENERAL - explained)


def test_the_page_has_every_event_of_a_client() -> None:
    source = (ROOT / "cluster" / "client" / "session.py").read_text()
    kinds = set(re.findall(r'ClientEvent\(\s*"(\w+)"', source)) | set(re.findall(r'kind = "(\w+)" if', source))
    page = (ROOT / "docs" / "CLIENT.md").read_text()
    assert len(kinds) >= 6 and all(f"`{kind}`" in page for kind in kinds), kinds
