"""What a member must remember across a crash, in LMDB: its vote, the term table, the log recording, its snapshots.

Every change is durable when the call returns: a vote in the page cache is not a vote.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from ordo.cluster.module.state.folder_rows import FolderRows
from ordo.cluster.wire.log_identity import Origin
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead
from ordo.runtime.errors import StorageDamagedError
from ordo.runtime.io.storage import MetadataStore, Storage, Transaction
from ordo.runtime.native.sentinels import NULL_VALUE

_VOTE = b"vote"
_LOG = b"log"
_TERM = b"term/"
_LEAD = b"lead/"
_LEAD_ROW = struct.Struct(">ii")
_SNAPSHOT = b"snapshot/"
_I64 = struct.Struct(">q")
_SNAPSHOT_ROW = struct.Struct(">qqqqq?")
_VOTE_ROW = struct.Struct(">qqq")
_DISTRUST = b"distrust"
_CHECK_LOG = b"check-log"
_DIGEST = b"digest/"
_LOG_BASE = b"log-base"
_AGREED = b"agreed"
_SKIP = b"skip/"
_SKIP_WISH = b"skip-wish/"
_EVIDENCE = b"evidence/"
_EVIDENCE_ROW = struct.Struct(">qq")
_EVIDENCE_MORE = struct.Struct(">qqqB")
EVIDENCE_MAX = 2
"""So many snapshots that differed are kept."""
_SKIP_ROW = struct.Struct(">qq")


class SnapshotEntry(NamedTuple):
    """One snapshot: the recordings of the services and of the consensus module at one log position."""

    log_position: int
    leadership_term_id: int
    term_base_log_position: int
    timestamp: int
    service_recording_id: int
    module_recording_id: int
    is_valid: bool
    more_recording_ids: tuple[int, ...] = ()
    """The recordings of the services 1, 2, ...; `service_recording_id` is that of service 0."""

    @property
    def service_recording_ids(self) -> tuple[int, ...]:
        """The recordings of all services, by service id."""
        return self.service_recording_id, *self.more_recording_ids

    @property
    def recording_ids(self) -> tuple[int, ...]:
        """The recordings of the services, then the module's."""
        return *self.service_recording_ids, self.module_recording_id


class Evidence(NamedTuple):
    """A recorded state of this member that is not a quorum's: something was executed otherwise."""

    log_position: int
    """The position of the state: that of a snapshot, or where the service was halted."""
    found_position: int
    """Where the digests differed: a snapshot's, or those of the hashes of states."""
    since_position: int
    """Up to here this member had the others' state; -1: nobody knows."""
    service_recording_id: int
    module_recording_id: int
    """-1 where the service's state alone is kept."""
    length_bytes: int
    """The length of the recordings; 0: an earlier release did not write it down."""
    own_digest: bytes
    their_digest: bytes
    more_recording_ids: tuple[int, ...] = ()
    """The recordings of the services 1, 2, ...; `service_recording_id` is that of service 0."""

    @property
    def service_recording_ids(self) -> tuple[int, ...]:
        """The recordings of all services, by service id."""
        return self.service_recording_id, *self.more_recording_ids

    @property
    def recording_ids(self) -> tuple[int, ...]:
        """The recordings of the services, then the module's, if there is one."""
        found = (*self.service_recording_ids, self.module_recording_id)
        return tuple(one for one in found if one != NULL_VALUE)

    def describe(self) -> dict[str, int | str]:
        """Return the evidence for operators, as JSON has it."""
        return {**self._asdict(), "own_digest": self.own_digest.hex(), "their_digest": self.their_digest.hex()}


class Epoch(NamedTuple):
    """What a log is made by that goes on as another cluster's."""

    base_position: int
    """Up to here it is the former cluster's."""
    end_position: int
    terms: list[tuple[int, int]]
    """(term id, base position) of the former cluster."""
    term_id: int
    """The first one of the new cluster; it begins at `base_position`."""
    timestamp_ms: int
    origin: Origin


class Skip(NamedTuple):
    """A record of the log that is left out, by a committed SkipEvent of the log."""

    log_position: int
    """Where the record ends."""
    skip_position: int
    """Where the SkipEvent ends."""
    timestamp: int
    """Cluster time of the SkipEvent."""
    text: bytes
    """What the services said of it."""


@dataclass(frozen=True)
class StoredState:
    candidate_term_id: int
    log_recording_id: int
    terms: list[tuple[int, int]]
    snapshots: list[SnapshotEntry]
    distrust: Distrust
    check_log: bool
    """Damage was met: the next start reads all of the log."""
    log_base_position: int = 0
    """Where the log begins while there is no recording of it: after a snapshot that the member starts from."""
    digests: dict[int, bytes] = field(default_factory=dict)
    """Digests of snapshots (`cluster.wire.snapshots.snapshot_digest`) by position; missing for older ones."""
    agreed: tuple[int, bytes] = (NULL_VALUE, b"")
    """Position and digest of the newest snapshot that a quorum of voters was seen to hold alike."""
    skips: dict[int, Skip] = field(default_factory=dict)
    """Records that are left out, by their position."""
    skip_wishes: frozenset[int] = frozenset()
    """Positions of records that an operator wants to be left out; the service waits before them."""
    leads: dict[int, Lead] = field(default_factory=dict)
    """Who led terms of `terms`, by term; missing for those that an earlier release stored, or a snapshot names."""

    @property
    def is_empty(self) -> bool:
        """True when nothing was ever stored: a new member, or one whose folder was wiped."""
        has_log = self.log_recording_id != NULL_VALUE or self.log_base_position > 0
        return self.candidate_term_id == NULL_VALUE and not has_log and not self.distrust


class StateStore:
    """The rows of `state.mdb`, where a member keeps what must survive a crash.

    The keys are `vote`, `log`, `log-base`, `distrust`, `check-log`, `agreed`, `term/<id>`, `lead/<term id>`,
    `snapshot/<position>`, `digest/<position>`, `skip/<position>`, `skip-wish/<position>` and `evidence/<position>`;
    integers in keys are big-endian, so that they sort.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.folder = FolderRows(store)

    def load(self) -> StoredState:
        """Load all rows. Raises StorageDamagedError if they cannot be decoded."""
        try:
            return self._load()
        except (struct.error, ValueError) as error:
            raise StorageDamagedError(f"the store of votes and terms is damaged: {error}") from error

    def _load(self) -> StoredState:
        vote = self._store.get(_VOTE)
        log = self._store.get(_LOG)
        distrust = self._store.get(_DISTRUST)
        base = self._store.get(_LOG_BASE)
        agreed = self._store.get(_AGREED)
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
            log_base_position=_I64.unpack(base)[0] if base else 0,
            agreed=(_I64.unpack(agreed[:8])[0], agreed[8:]) if agreed else (NULL_VALUE, b""),
            digests={_I64.unpack(key[len(_DIGEST) :])[0]: value for key, value in self._store.items(_DIGEST)},
            skips={skip.log_position: skip for skip in (_skip(*row) for row in self._store.items(_SKIP))},
            skip_wishes=frozenset(_I64.unpack(key[len(_SKIP_WISH) :])[0] for key, _ in self._store.items(_SKIP_WISH)),
            leads=self._load_leads(),
        )

    def _load_leads(self) -> dict[int, Lead]:
        rows = self._store.items(_LEAD)
        leads = {_I64.unpack(key[len(_LEAD) :])[0]: Lead(*_LEAD_ROW.unpack(value)) for key, value in rows}
        return {term_id: lead for term_id, lead in leads.items() if self._store.get(_TERM + _I64.pack(term_id))}

    @staticmethod
    def _snapshot(key: bytes, value: bytes) -> SnapshotEntry:
        term, base, timestamp, service_id, module_id, is_valid = _SNAPSHOT_ROW.unpack_from(value)
        position = _I64.unpack(key[len(_SNAPSHOT) :])[0]
        more = _unpack_ids(value[_SNAPSHOT_ROW.size :])
        return SnapshotEntry(position, term, base, timestamp, service_id, module_id, is_valid, more)

    def put_candidate_term(self, candidate_term_id: int, log_position: int, timestamp_ms: int) -> None:
        with self._store.transaction() as txn:
            txn.put(_VOTE, _VOTE_ROW.pack(candidate_term_id, log_position, timestamp_ms))

    def put_log_recording(self, recording_id: int) -> None:
        with self._store.transaction() as txn:
            txn.put(_LOG, _I64.pack(recording_id))
            txn.delete(_LOG_BASE)

    def put_distrust(self, distrust: Distrust) -> None:
        """Store what this member has lost, until it may vote again."""
        with self._store.transaction() as txn:
            txn.put(_DISTRUST, bytes([distrust & ~Distrust.STATE]))

    def put_check_log(self, check_log: bool) -> None:
        """Return whether the next start is to read all of the log; nothing is written where that is known."""
        if self._store.get(_CHECK_LOG) == bytes([check_log]):
            return
        with self._store.transaction() as txn:
            txn.put(_CHECK_LOG, bytes([check_log]))

    def put_term(self, leadership_term_id: int, base_position: int, lead: Lead | None = None) -> None:
        """Add a row in place of any with a term or a base at or above its own, with who led the term, if known."""
        doomed = [
            key
            for key, value in self._store.items(_TERM)
            if _I64.unpack(key[len(_TERM) :])[0] >= leadership_term_id or _I64.unpack(value)[0] >= base_position
        ]
        with self._store.transaction() as txn:
            _delete_terms(txn, doomed)
            txn.put(_TERM + _I64.pack(leadership_term_id), _I64.pack(base_position))
            if lead is not None:
                txn.put(_LEAD + _I64.pack(leadership_term_id), _LEAD_ROW.pack(*lead))

    def put_leads(self, leads: dict[int, Lead]) -> None:
        """Add who led terms that are there."""
        with self._store.transaction() as txn:
            for term_id, lead in leads.items():
                txn.put(_LEAD + _I64.pack(term_id), _LEAD_ROW.pack(*lead))

    def truncate_terms(self, position: int) -> None:
        """Forget every term whose base is at or past `position`, because its records are no longer in the log."""
        doomed = [key for key, value in self._store.items(_TERM) if _I64.unpack(value)[0] >= position]
        with self._store.transaction() as txn:
            _delete_terms(txn, doomed)

    def put_snapshot(self, entry: SnapshotEntry, digest: bytes | None = None) -> None:
        """Add or replace an entry; the digest that is stored stays where none is given."""
        with self._store.transaction() as txn:
            _put_snapshot(txn, entry, digest)

    def begin_epoch(self, epoch: Epoch) -> None:
        """Make the log the one of a new epoch, in one transaction; nothing is known of other members any more."""
        with self._store.transaction() as txn:
            self._cut_off(txn, epoch.base_position)
            for term_id, base_position in (*epoch.terms, (epoch.term_id, epoch.base_position)):
                txn.put(_TERM + _I64.pack(term_id), _I64.pack(base_position))
            txn.put(_VOTE, _VOTE_ROW.pack(epoch.term_id, epoch.end_position, epoch.timestamp_ms))
            self.folder.begin_epoch(txn, epoch.origin)

    def become_standby(self, log_position: int) -> None:
        """Make the folder a standby's whose log ends at a position, in one transaction."""
        with self._store.transaction() as txn:
            self._cut_off(txn, log_position)
            self.folder.become_standby(txn, log_position)

    def _cut_off(self, txn: Transaction, position: int) -> None:
        """Know nothing of a log behind a position, and distrust nothing before it."""
        _delete_terms(txn, [key for key, value in self._store.items(_TERM) if _I64.unpack(value)[0] >= position])
        for key, value in self._store.items(_SNAPSHOT):
            entry = self._snapshot(key, value)
            if entry.log_position > position:
                _put_snapshot(txn, entry._replace(is_valid=False), None)
        self._forget_behind(txn, position)
        txn.put(_DISTRUST, bytes([Distrust.NONE]))

    def _forget_behind(self, txn: Transaction, position: int) -> None:
        """Remove what was agreed on behind a position, and what is not in the log up to there: skips, and wishes."""
        state = self._load()
        for skip in state.skips.values():
            if skip.skip_position > position:
                txn.delete(_SKIP + _I64.pack(skip.log_position))
        for wished_position in state.skip_wishes:
            if wished_position > position:
                txn.delete(_SKIP_WISH + _I64.pack(wished_position))
        if state.agreed[0] > position:
            txn.delete(_AGREED)

    def rows(self) -> list[tuple[bytes, bytes]]:
        """Return all rows as they are, for evidence."""
        return self._store.items()

    def put_agreed(self, log_position: int, digest: bytes) -> None:
        """Note permanently that a quorum of voters holds this snapshot, whatever becomes of their disks."""
        with self._store.transaction() as txn:
            txn.put(_AGREED, _I64.pack(log_position) + digest)

    def remove_snapshot(self, log_position: int) -> None:
        """Remove an entry; its recordings may be deleted afterwards."""
        with self._store.transaction() as txn:
            txn.delete(_SNAPSHOT + _I64.pack(log_position))
            txn.delete(_DIGEST + _I64.pack(log_position))

    def put_skip(self, skip: Skip) -> None:
        """Store that a record is left out, permanently, and remove the operator's request for it."""
        with self._store.transaction() as txn:
            row = _SKIP_ROW.pack(skip.skip_position, skip.timestamp) + skip.text
            txn.put(_SKIP + _I64.pack(skip.log_position), row)
            txn.delete(_SKIP_WISH + _I64.pack(skip.log_position))

    def put_skip_wish(self, log_position: int) -> None:
        """Store an operator's request to leave a record out, for when this member runs again."""
        with self._store.transaction() as txn:
            txn.put(_SKIP_WISH + _I64.pack(log_position), b"")

    def remove_skip_wish(self, log_position: int) -> None:
        with self._store.transaction() as txn:
            txn.delete(_SKIP_WISH + _I64.pack(log_position))

    def rebase(self, log_position: int) -> None:
        """Note that the log starts again after a snapshot at `log_position` (0: empty).

        The recording so far is given up.
        """
        with self._store.transaction() as txn:
            _delete_terms(
                txn, [key for key, value in self._store.items(_TERM) if _I64.unpack(value)[0] >= log_position]
            )
            txn.delete(_LOG)
            txn.put(_LOG_BASE, _I64.pack(log_position))

    def install(self, entry: SnapshotEntry, digest: bytes, terms: list[tuple[int, int]]) -> None:
        """Take a snapshot of another member to begin from, with the terms that its log had up to there."""
        with self._store.transaction() as txn:
            _delete_terms(txn, [key for key, _ in self._store.items(_TERM)])
            for term_id, base_position in terms:
                txn.put(_TERM + _I64.pack(term_id), _I64.pack(base_position))
            _put_snapshot(txn, entry, digest)
            txn.delete(_LOG)
            txn.put(_LOG_BASE, _I64.pack(entry.log_position))
            txn.put(_AGREED, _I64.pack(entry.log_position) + digest)

    def replace_snapshots(self, entry: SnapshotEntry, digest: bytes, from_position: int) -> None:
        """Replace all own snapshots from a position on by one of another member; the log stays."""
        with self._store.transaction() as txn:
            for key, value in self._store.items(_SNAPSHOT):
                found = self._snapshot(key, value)
                if found.log_position >= from_position:
                    _put_snapshot(txn, found._replace(is_valid=False), b"")
            _put_snapshot(txn, entry, digest)
            txn.put(_AGREED, _I64.pack(entry.log_position) + digest)

    def put_evidence(self, evidence: Evidence, bytes_max: int) -> list[int]:
        """Store a snapshot that differed from the others', and forget the oldest beyond the limits.

        Returns the recordings of what is forgotten.
        """
        known = self.list_evidence()
        others = [one for one in known if one.log_position != evidence.log_position]
        replaced = [one for one in known if one.log_position == evidence.log_position]
        while others and (
            len(others) >= EVIDENCE_MAX or sum(one.length_bytes for one in others) + evidence.length_bytes > bytes_max
        ):
            replaced.append(others.pop(0))
        with self._store.transaction() as txn:
            for one in replaced:
                txn.delete(_EVIDENCE + _I64.pack(one.log_position))
            txn.put(_EVIDENCE + _I64.pack(evidence.log_position), _pack_evidence(evidence))
        forgotten = {recording_id for one in replaced for recording_id in one.recording_ids}
        return sorted(forgotten - {*evidence.recording_ids})

    def list_evidence(self) -> list[Evidence]:
        """Return the snapshots that are kept because they differed, oldest first. Raises StorageDamagedError."""
        try:
            return [_evidence(*row) for row in sorted(self._store.items(_EVIDENCE))]
        except struct.error as error:
            raise StorageDamagedError(f"the store of votes and terms is damaged: {error}") from error

    def evidence(self) -> set[int]:
        """Return the recordings of snapshots that are kept because they differed."""
        return {recording_id for one in self.list_evidence() for recording_id in one.recording_ids}

    def forget_lost(self, recording_ids: Collection[int]) -> list[int]:
        """Remove snapshots and evidence that name other recordings than these; return their positions.

        The archive gives the numbers of recordings that it has lost to new ones.
        """
        here, forgotten = {*recording_ids}, set[int]()
        with self._store.transaction() as txn:
            for key, value in self._store.items(_SNAPSHOT):
                entry = self._snapshot(key, value)
                if not here.issuperset(entry.recording_ids):
                    txn.delete(key)
                    txn.delete(_DIGEST + _I64.pack(entry.log_position))
                    forgotten.add(entry.log_position)
            for one in self.list_evidence():
                if not here.issuperset(one.recording_ids):
                    txn.delete(_EVIDENCE + _I64.pack(one.log_position))
                    forgotten.add(one.log_position)
        return sorted(forgotten)

    def close(self) -> None:
        self._store.close()


def _delete_terms(txn: Transaction, keys: Collection[bytes]) -> None:
    """Delete rows of terms, and who led them."""
    for key in keys:
        txn.delete(key)
        txn.delete(_LEAD + key[len(_TERM) :])


def _skip(key: bytes, value: bytes) -> Skip:
    skip_position, timestamp = _SKIP_ROW.unpack_from(value)
    return Skip(_I64.unpack(key[len(_SKIP) :])[0], skip_position, timestamp, value[_SKIP_ROW.size :])


def _pack_evidence(one: Evidence) -> bytes:
    more = _EVIDENCE_MORE.pack(one.found_position, one.since_position, one.length_bytes, len(one.own_digest))
    digests = one.own_digest + one.their_digest
    row = _EVIDENCE_ROW.pack(one.service_recording_id, one.module_recording_id)
    return row + more + digests + _pack_ids(one.more_recording_ids)


def _evidence(key: bytes, value: bytes) -> Evidence:
    """Decode a row of evidence; those of earlier releases have the recordings alone."""
    position, (service_id, module_id) = _I64.unpack(key[len(_EVIDENCE) :])[0], _EVIDENCE_ROW.unpack_from(value)
    more, digests = value[_EVIDENCE_ROW.size :], value[_EVIDENCE_ROW.size + _EVIDENCE_MORE.size :]
    found, since, length_bytes, digest_length = (
        _EVIDENCE_MORE.unpack_from(more) if more else (position, NULL_VALUE, 0, 0)
    )
    own, theirs = digests[:digest_length], digests[digest_length : 2 * digest_length]
    more_ids = _unpack_ids(digests[2 * digest_length :])
    return Evidence(position, found, since, service_id, module_id, length_bytes, own, theirs, more_ids)


def _pack_ids(recording_ids: tuple[int, ...]) -> bytes:
    return b"".join(map(_I64.pack, recording_ids))


def _unpack_ids(row: bytes) -> tuple[int, ...]:
    return tuple(recording_id for (recording_id,) in _I64.iter_unpack(row))


def _snapshot_row(entry: SnapshotEntry) -> bytes:
    return _SNAPSHOT_ROW.pack(*entry[1:7]) + _pack_ids(entry.more_recording_ids)


def _put_snapshot(txn: Transaction, entry: SnapshotEntry, digest: bytes | None) -> None:
    txn.put(_SNAPSHOT + _I64.pack(entry.log_position), _snapshot_row(entry))
    if digest is not None:
        txn.put(_DIGEST + _I64.pack(entry.log_position), digest)


def open_state_store(storage: Storage, path: str, now_ms: int, *, is_expected: bool) -> tuple[StateStore, str | None]:
    """Return the store in a file, and how an earlier one was lost, or None.

    One that cannot be read is moved aside, and a new one is made; `is_expected`: this is not the first start in this
    folder. Raises StorageError.
    """
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
