"""Records that a node leaves out, as its store on disk says; running or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archive.lmdb_store import open_lmdb
from cluster.module.state_store import Skip, StateStore
from cluster.node.config import NodeConfig
from runtime.errors import StorageMissingError
from runtime.storage import FileStorage


def list_skipped(config: NodeConfig) -> tuple[list[Skip], list[int]]:
    """What this node leaves out, by position, and the positions that it was told to leave out and does not yet.

    Also while it runs. Raises StorageMissingError when it has never run.
    """
    with open_stored(config) as store:
        state = store.load()
        return sorted(state.skips.values()), sorted(state.skip_wishes)


def store_path(config: NodeConfig) -> str:
    return str(config.cluster_dir / "state.mdb")


@contextmanager
def open_stored(config: NodeConfig, storage: Any = None) -> Iterator[StateStore]:
    """The store of a node, to read; also while it runs. Raises StorageMissingError when it has never run."""
    storage, path = storage or FileStorage(open_lmdb), store_path(config)
    if not storage.exists(path):
        raise StorageMissingError(f"member {config.node.member_id} has no store of votes and terms: no {path}")
    store = StateStore(storage.open_metadata(path, read_only=True))
    try:
        yield store
    finally:
        store.close()
