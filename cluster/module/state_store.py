"""What a member must remember across a crash, in LMDB: its vote, the term table, the log recording, its snapshots.

Every change is durable when the call returns: a vote in the page cache is not a vote.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from consensus.distrust import Distrust
from runtime.errors import StorageDamagedError
from runtime.storage import MetadataStore, Storage

NULL_VALUE = -1
_VOTE = b"vote"
_LOG = b"log"
_TERM = b"term/"
_SNAPSHOT = b"snapshot/"
_I64 = struct.Struct(">q")
_SNAPSHOT_ROW = struct.Struct(">qqqqq?")
_VOTE_ROW = struct.Struct(">qqq")
_DISTRUST = b"distrust"
_CHECK_LOG = b"check-log"


class SnapshotEntry(NamedTuple):
    """One snapshot set: the recordings of the service and of the consensus module at one log position."""

    log_position: int
    leadership_term_id: int
    term_base_log_position: int
    timestamp: int
    service_recording_id: int
    module_recording_id: int
    is_valid: bool


@dataclass(frozen=True)
class StoredState:
    candidate_term_id: int
    log_recording_id: int
    terms: list[tuple[int, int]]
    snapshots: list[SnapshotEntry]
    distrust: Distrust
    check_log: bool
    """Damage was met: the next start reads all of the log."""

    @property
    def is_empty(self) -> bool:
        """Nothing was ever stored: a new member, or one whose folder was wiped."""
        return self.candidate_term_id == NULL_VALUE and self.log_recording_id == NULL_VALUE and not self.distrust


class StateStore:
    """Keys `vote`, `log`, `distrust`, `check-log`, `term/<id>`, `snapshot/<position>`; integers big-endian, to sort."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def load(self) -> StoredState:
        """Everything there is. Raises StorageDamagedError where it cannot be understood."""
        try:
            return self._load()
        except (struct.error, ValueError) as error:
            raise StorageDamagedError(f"the store of votes and terms is damaged: {error}") from error

    def _load(self) -> StoredState:
        vote = self._store.get(_VOTE)
        log = self._store.get(_LOG)
        distrust = self._store.get(_DISTRUST)
        return StoredState(
            candidate_term_id=_VOTE_ROW.unpack(vote)[0] if vote else NULL_VALUE,
            log_recording_id=_I64.unpack(log)[0] if log else NULL_VALUE,
            terms=[
                (_I64.unpack(key[len(_TERM) :])[0], _I64.unpack(value)[0])
                for key, value in sorted(self._store.items(_TERM))
            ],
            snapshots=[self._snapshot(key, value) for key, value in sorted(self._store.items(_SNAPSHOT))],
            distrust=Distrust(distrust[0]) if distrust else Distrust.NONE,
            check_log=self._store.get(_CHECK_LOG) == b"\1",
        )

    @staticmethod
    def _snapshot(key: bytes, value: bytes) -> SnapshotEntry:
        term, base, timestamp, service_id, module_id, is_valid = _SNAPSHOT_ROW.unpack(value)
        position = _I64.unpack(key[len(_SNAPSHOT) :])[0]
        return SnapshotEntry(position, term, base, timestamp, service_id, module_id, is_valid)

    def put_candidate_term(self, candidate_term_id: int, log_position: int, timestamp_ms: int) -> None:
        with self._store.transaction() as txn:
            txn.put(_VOTE, _VOTE_ROW.pack(candidate_term_id, log_position, timestamp_ms))

    def put_log_recording(self, recording_id: int) -> None:
        with self._store.transaction() as txn:
            txn.put(_LOG, _I64.pack(recording_id))

    def put_distrust(self, distrust: Distrust) -> None:
        """What this member has lost, until it may vote again."""
        with self._store.transaction() as txn:
            txn.put(_DISTRUST, bytes([distrust]))

    def put_check_log(self, check_log: bool) -> None:
        """Whether the next start is to read all of the log; nothing is written where that is known."""
        if self._store.get(_CHECK_LOG) == bytes([check_log]):
            return
        with self._store.transaction() as txn:
            txn.put(_CHECK_LOG, bytes([check_log]))

    def put_term(self, leadership_term_id: int, base_position: int) -> None:
        """Adds a row in place of any with a term or a base at or above its own."""
        doomed = [
            key
            for key, value in self._store.items(_TERM)
            if _I64.unpack(key[len(_TERM) :])[0] >= leadership_term_id or _I64.unpack(value)[0] >= base_position
        ]
        with self._store.transaction() as txn:
            for key in doomed:
                txn.delete(key)
            txn.put(_TERM + _I64.pack(leadership_term_id), _I64.pack(base_position))

    def truncate_terms(self, position: int) -> None:
        """Forgets every term whose base is at or past `position`: its records are gone from the log."""
        doomed = [key for key, value in self._store.items(_TERM) if _I64.unpack(value)[0] >= position]
        with self._store.transaction() as txn:
            for key in doomed:
                txn.delete(key)

    def put_snapshot(self, entry: SnapshotEntry) -> None:
        row = _SNAPSHOT_ROW.pack(*entry[1:])
        with self._store.transaction() as txn:
            txn.put(_SNAPSHOT + _I64.pack(entry.log_position), row)

    def close(self) -> None:
        self._store.close()


def open_state_store(storage: Storage, path: str, now_ms: int, *, is_expected: bool) -> tuple[StateStore, str | None]:
    """The store in a file, and how an earlier one was lost, or None. One that cannot be read is moved aside, and a new
    one is made; `is_expected`: this is not the first start in this folder. Raises StorageError."""
    loss = "is gone" if is_expected and not storage.exists(path) else None
    try:
        store = StateStore(storage.open_metadata(path))
        try:
            store.load()
        except BaseException:
            store.close()
            raise
    except StorageDamagedError:
        kept = f"{path}.damaged-{now_ms}"
        storage.rename(path, kept)
        storage.remove(f"{path}-lock")
        return StateStore(storage.open_metadata(path)), f"was damaged and is kept as {kept}"
    return store, loss
