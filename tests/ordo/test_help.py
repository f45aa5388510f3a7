"""`help(ordo.ClusterClient)` and its like read as a page: every public method and property says what it is for."""

from __future__ import annotations

import inspect

import pytest

import ordo
import ordo.testing

CLASSES = [
    found
    for found in (*(getattr(ordo, name) for name in sorted(ordo.__all__)), ordo.testing.LocalCluster)
    if isinstance(found, type) and found.__module__.split(".")[0] == "ordo"
]


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_everything_public_says_what_it_is_for(found: type) -> None:
    assert found.__doc__, "the class"
    silent = []
    for name in dir(found):
        value = inspect.getattr_static(found, name)
        is_shown = isinstance(value, property | classmethod | staticmethod) or inspect.isroutine(value)
        if not name.startswith("_") and is_shown and not inspect.getdoc(value):
            silent.append(name)
    assert silent == []


def test_the_help_of_a_client_begins_with_an_example() -> None:
    text = inspect.getdoc(ordo.ClusterClient)
    assert text is not None and "with ClusterClient([" in text.split("\n\n")[1]
