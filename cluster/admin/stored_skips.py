"""Records that a node skips, from its store on disk, whether it runs or not."""

from __future__ import annotations

from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.state_store import Skip
from ordo.cluster.settings.config import NodeSettings


def list_skipped(config: NodeSettings) -> tuple[list[Skip], list[int]]:
    """Return the records that this node skips, by position, and the positions that it does not skip yet.

    Also while it runs. Raises StorageMissingError when it has never run.
    """
    with open_stored(config) as store:
        state = store.load()
        return sorted(state.skips.values()), sorted(state.skip_wishes)
