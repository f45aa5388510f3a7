"""How a process ends."""

from __future__ import annotations

import gc

import pytest

from ordo.cli import main
from ordo.runtime.exit_status import leave


@pytest.mark.parametrize("status", [0, 70])
def test_a_process_ends_with_its_status_and_searches_for_no_garbage(status: int) -> None:
    with pytest.raises(SystemExit) as left:
        leave(status)
    try:
        assert left.value.code == status
        assert gc.get_freeze_count() > 1000, "the search at the end passes over what is frozen"
    finally:
        gc.unfreeze()
    assert gc.get_freeze_count() == 0


def test_the_command_line_ends_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    assert left.value.code == 0 and frozen > 1000
    assert capsys.readouterr().out
