"""Each comparison of logs and votes, off by one in turn, must be found by the models of test_quorum."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

import pytest

from ordo.consensus.state import quorum
from tests.consensus import test_quorum as models
from tests.mutants.functions import comparison_mutants

NAMES = ("compare_log", "will_vote_for", "is_unanimous_candidate", "is_quorum_candidate")
EQUIVALENT = ("term_a > term_b, line 4", "position_a > position_b, line 6")
"""They come after a check that the two differ."""
CHECKS = (
    "test_log_comparison_is_that_of_pairs",
    "test_unknown_position_gives_no_vote",
    "test_candidates_against_a_model",
)


def is_found() -> bool:
    """Whether one of the models disagrees."""
    for name in CHECKS:
        check: Callable[[], Any] = getattr(models, name)
        try:
            check()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_a_comparison_that_is_off_by_one_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = vars(quorum)[name]
    assert isfunction(original) and not is_found()
    survivors, count = [], 0
    for place, mutant in comparison_mutants(original):
        count += 1
        with monkeypatch.context() as patch:
            for module in (quorum, models):
                patch.setattr(module, name, mutant)
            if not is_found():
                survivors.append(place)
    assert count > 0 and [one for one in survivors if one not in EQUIVALENT] == []
