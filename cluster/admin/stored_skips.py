"""Records that a node leaves out, as its store on disk says; running or not."""

from __future__ import annotations

from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.state_store import Skip
from ordo.cluster.settings.config import NodeConfig


def list_skipped(config: NodeConfig) -> tuple[list[Skip], list[int]]:
    """Return what this node leaves out, by position, and the positions that it was told to leave out and does not yet.

    Also while it runs. Raises StorageMissingError when it has never run.
    """
    with open_stored(config) as store:
        state = store.load()
        return sorted(state.skips.values()), sorted(state.skip_wishes)
