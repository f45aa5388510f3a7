"""The store of a member's votes and terms on its disk, opened by another program than its node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.io.storage import FileStorage, Storage


@contextmanager
def open_stored(config: NodeSettings, storage: Storage | None = None) -> Iterator[StateStore]:
    """Open the store of a node to read it, even while the node runs.

    Raises StorageMissingError when it has never run.
    """
    storage, path = storage or FileStorage(open_lmdb), str(config.cluster_dir / "state.mdb")
    _demand(config, storage, path)
    store = StateStore(storage.open_metadata(path, read_only=True))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_stopped(config: NodeSettings, storage: Storage | None = None) -> Iterator[StateStore]:
    """Open the store of a stopped node to change it; the node cannot be started meanwhile.

    Raises StorageInUseError while it runs, StorageMissingError when it has never run.
    """
    storage, path = storage or FileStorage(open_lmdb), str(config.cluster_dir / "state.mdb")
    _demand(config, storage, path)
    with storage.lock_directory(str(config.node.data_dir)):
        store = StateStore(storage.open_metadata(path))
        try:
            yield store
        finally:
            store.close()


def _demand(config: NodeSettings, storage: Storage, path: str) -> None:
    """Before the folder is locked: a member that has never run has none."""
    if not storage.exists(path):
        raise StorageMissingError(f"member {config.node.member_id} has no store of votes and terms: no {path}")
