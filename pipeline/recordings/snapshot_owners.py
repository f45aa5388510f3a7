"""Of which service a snapshot is. Its recording does not say; the node's store of votes and snapshots does.

Snapshots of all services of a node are recordings of one stream (cluster-consensus.md §16.3). The store lies beside the
archive folder, as a node lays them out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import StateStore
from ordo.pipeline.decoding.errors import PipelineError
from ordo.runtime.errors import OrdoError
from ordo.runtime.io.storage import FileStorage

_STORE = Path("cluster", "state.mdb")


class SnapshotOwner(NamedTuple):
    """Whose state a recording is. `is_evidence`: it was not that of a quorum, and is kept to be looked at."""

    service_id: int
    is_evidence: bool = False


def snapshot_owners(directory: str) -> dict[int, SnapshotOwner]:
    """By recording id; nothing where no store is seen beside.

    Raises PipelineError for a store that cannot be read.
    """
    path = Path(directory).resolve().parent / _STORE
    if not os.path.exists(path):  # nor where this user may not look into the folder
        return {}
    try:
        store = StateStore(FileStorage(open_lmdb).open_metadata(str(path), read_only=True))
        try:
            state, evidence = store.load(), store.list_evidence()
        finally:
            store.close()
    except OrdoError as error:
        raise PipelineError(f"which snapshots are of which service cannot be told: {error}") from error
    return {
        recording_id: SnapshotOwner(service_id, is_evidence)
        for entries, is_evidence in ((evidence, True), (state.snapshots, False))
        for entry in entries
        for service_id, recording_id in enumerate(entry.service_recording_ids)
    }
