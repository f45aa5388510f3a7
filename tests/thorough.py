"""Examples of which `make test` has a few, while `make test SUITE=thorough` has the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

Value = int | str | Callable[..., object]


def few_of(values: Iterable[Value], few: Collection[Value]) -> list[Any]:
    """Return the values as parameters of a test, of which those that are not among the few are `thorough`."""
    every = list(values)
    assert set(few) <= set(every), f"of the few, these are no values: {sorted(set(few) - set(every), key=str)}"
    return [pytest.param(one, marks=[] if one in few else [pytest.mark.thorough]) for one in every]
