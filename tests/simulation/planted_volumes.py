"""Planted bugs of members that do not look whose data they have (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.module.members import standings
from ordo.cluster.module.members.standings import Standings
from ordo.cluster.module.state import folder_rows
from ordo.cluster.module.state.folder_rows import NO_START, FolderRows
from ordo.cluster.node import node

Patch = Callable[[Any, str, Any], None]


def any_folder_is_taken(patch: Patch) -> None:
    """A member starts with the folder of another one."""

    def claim(rows: FolderRows, owner: Any, folder: str, draw: int) -> Any:
        rows.put_owner(owner)
        return folder_rows.claim(rows, owner, folder, draw)

    patch(node, "claim", claim)


def another_clusters_log_counts(patch: Patch) -> None:
    """Members take part with the log of another cluster."""
    patch(standings, "are_of_two_clusters", lambda one, other: False)


def older_data_counts(patch: Patch) -> None:
    """A member that was started with an older copy of its data votes as if it had all of it."""
    original = Standings.admits

    def admits(self: Standings, values: Any) -> bool:
        self._starts[values.member_id] = NO_START
        return original(self, values._replace(previous_number=0, previous_draw=0))

    patch(Standings, "admits", admits)


def what_was_acknowledged_is_forgotten_by_a_restart(patch: Patch) -> None:
    """A member that starts again knows of no position that the others had, and takes an older copy for all of it."""
    original = Standings.__init__

    def forget(self: Standings, *arguments: Any) -> None:
        original(self, *arguments)
        self._acknowledged.clear()

    patch(Standings, "__init__", forget)


def a_log_that_is_whole_again_is_compared_with_what_was_left_of_it(patch: Patch) -> None:
    """Whoever did not hear that a member lacked a part of its log tells it so once it has it again."""
    patch(Standings, "on_distrust", lambda self, distrust: distrust)
