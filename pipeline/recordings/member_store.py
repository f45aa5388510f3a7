"""What a member's store of votes and snapshots says of the archive beside it: whose log and snapshots are there.

Snapshots of all services of a node are recordings of one stream (cluster-consensus.md §16.3), which do not say of which
service they are. The store lies beside the archive folder, as a node lays them out.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire.log_identity import Origin, identity_at
from ordo.pipeline.decoding.errors import PipelineError
from ordo.runtime.errors import OrdoError
from ordo.runtime.io.storage import FileStorage

_STORE = Path("cluster", "state.mdb")


class SnapshotOwner(NamedTuple):
    """The service whose state a recording is. `is_evidence`: a quorum had another state, and this one is kept."""

    service_id: int
    is_evidence: bool = False


def snapshot_owners(directory: str) -> dict[int, SnapshotOwner]:
    """Return the owners of snapshots by recording id; empty without a store beside the archive.

    Raises PipelineError for a store that cannot be read.
    """
    if not has_store(directory):
        return {}
    try:
        with _open(directory) as store:
            state, evidence = store.load(), store.list_evidence()
    except OrdoError as error:
        raise PipelineError(f"which snapshots are of which service cannot be told: {error}") from error
    return {
        recording_id: SnapshotOwner(service_id, is_evidence)
        for entries, is_evidence in ((evidence, True), (state.snapshots, False))
        for entry in entries
        for service_id, recording_id in enumerate(entry.service_recording_ids)
    }


def has_store(directory: str) -> bool:
    """Return whether the folder is seen to be that of a member, and this user may look into it."""
    return os.path.exists(_path_of(directory))


def stored_origin(directory: str) -> Origin | None:
    """Return which cluster's log the member has, as it wrote down once that was committed; None: it did not.

    A store that cannot be read says nothing: what reads the log alone needs none.
    """
    if not has_store(directory):
        return None
    try:
        with _open(directory) as store:
            return store.folder.origin
    except (OrdoError, struct.error):
        return None


def past_identity(directory: str, position: int) -> bytes:
    """Return whose log the member's was where a record of it ends; empty where its store does not say it."""
    if not has_store(directory):
        return b""
    try:
        with _open(directory) as store:
            terms = store.load().terms
            return identity_at(position, terms, store.folder.origins()) if terms else b""
    except (OrdoError, struct.error):
        return b""


def tells_identities(directory: str) -> bool:
    """Return whether the member's release writes down which cluster's log it has, once that is committed.

    A store that an earlier release has left says nothing, and what the log begins with does. One that cannot be read is
    taken for one that would have told.
    """
    try:
        with _open(directory) as store:
            return store.folder.owner is not None
    except (OrdoError, struct.error):
        return True


def _path_of(directory: str) -> Path:
    return Path(directory).resolve().parent / _STORE


@contextmanager
def _open(directory: str) -> Iterator[StateStore]:
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(_path_of(directory)), read_only=True))
    try:
        yield store
    finally:
        store.close()
