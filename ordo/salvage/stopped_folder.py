"""Changes the data folder of a stopped member: what a new epoch and a rejoining standby do alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ordo.cluster.module.state.commit_note import CommitNote
from ordo.cluster.wire.log_index.entries import FILE_NAME as INDEX_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ordo.cluster.module.state.state_store import StateStore
    from ordo.runtime.io.storage import Storage


def keep_evidence(storage: Storage, path: str, store: StateStore, evidence: Mapping[str, object]) -> None:
    """Write down what was found, and what the store has, in a new file, before anything changes."""
    rows = {key.hex(): value.hex() for key, value in store.rows()}
    content = json.dumps({**evidence, "store": rows}, indent=1).encode()
    with storage.open_segment(path, len(content), create=True) as file:
        file.write_bytes(content, 0)
        file.sync_now()
    storage.sync_directory(path.rpartition("/")[0])


def note_committed(storage: Storage, directory: str, position: int) -> None:
    """Have a member know its log to be committed up to a position, and nothing beyond it."""
    note = CommitNote(storage, directory)
    try:
        note.put(position)
        note.sync()
    finally:
        note.close()


def remove_index(storage: Storage, directory: str) -> None:
    """Remove the index of a log of which an end is cut off: it is made of what is committed, for good."""
    path = f"{directory}/{INDEX_NAME}"
    if storage.exists(path):
        storage.remove(path)
    storage.sync_directory(directory)
