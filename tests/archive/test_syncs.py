"""Each sync of a folder's names left out in turn: a crash must show it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from random import Random
from types import CodeType, FunctionType
from typing import Any

import pytest

from ordo.archive.segments import recovery
from ordo.archive.segments.checkpoints import CHECKPOINTS_NAME, Checkpoints
from ordo.archive.segments.segments import segment_name
from ordo.cluster.module.state.commit_note import COMMIT_NOTE_NAME, CommitNote
from ordo.runtime.native.clock import VirtualClock
from tests.simulation.storage import SimulatedDisk, SimulatedStorage

SEEDS = 20
SYNCS = ("sync_directory", "sync_now")
LENGTH = 65536


def disk_of(seed: int) -> tuple[SimulatedDisk, SimulatedStorage]:
    disk = SimulatedDisk(Random(seed))
    storage = SimulatedStorage(disk, VirtualClock())
    storage.make_directory("/a")
    return disk, storage


def check_new_file(make: Callable[[Any], Any], name: str) -> None:
    """A file that was made is there after a crash."""
    for seed in range(SEEDS):
        disk, storage = disk_of(seed)
        make(storage)
        disk.crash()
        assert storage.exists(f"/a/{name}"), seed


def check_removal(remove: Callable[[Any], int]) -> None:
    """Files that were removed are gone after a crash."""
    for seed in range(SEEDS):
        disk, storage = disk_of(seed)
        names = [segment_name(0, base) for base in (0, LENGTH)]
        for name in names:
            storage.open_segment(f"/a/{name}", LENGTH, create=True).close()
        storage.sync_directory("/a")
        assert remove(storage) == 2
        disk.crash()
        assert not [name for name in names if storage.exists(f"/a/{name}")], seed


PARTS: tuple[tuple[Any, Callable[[], None]], ...] = (
    (CommitNote.__init__, lambda: check_new_file(lambda one: CommitNote(one, "/a"), COMMIT_NOTE_NAME)),
    (Checkpoints.__init__, lambda: check_new_file(lambda one: Checkpoints(one, "/a", None), CHECKPOINTS_NAME)),
    (recovery.remove_files, lambda: check_removal(lambda one: recovery.remove_files(one, "/a", 0))),
    (recovery.remove_below, lambda: check_removal(lambda one: recovery.remove_below(one, "/a", 0, 2 * LENGTH))),
)


class _Leaving(ast.NodeTransformer):
    """Leaves out every sync: each of these functions has one."""

    count = 0

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in SYNCS:
            self.count += 1
            return ast.copy_location(ast.Pass(), node)
        return node


def without_sync(function: FunctionType) -> CodeType:
    leaving = _Leaving()
    tree = leaving.visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    assert leaving.count == 1, function.__qualname__
    future = ast.parse("from __future__ import annotations").body
    module = compile(ast.fix_missing_locations(ast.Module([*future, *tree.body], [])), "left out", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))


@pytest.mark.parametrize(("function", "check"), PARTS, ids=lambda one: getattr(one, "__qualname__", ""))
def test_a_sync_that_is_left_out_is_found(
    function: Any, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(function, "__code__", without_sync(function))
    with pytest.raises(AssertionError):
        check()
