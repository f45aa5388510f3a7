"""What the data folder of one stopped member has of the cluster's log.

The folder is only read: the member's torn end, if a crash left one, is found as its next start would find it, and stays
where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.inspection.recording_inspection import list_recordings
from ordo.archive.segments.catalog import RecordingDescriptor, RecordingState
from ordo.archive.segments.checkpoints import Checkpoints
from ordo.archive.segments.reader import RecordingReader
from ordo.archive.segments.recovery import find_end
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.snapshot_copy import CheckedSnapshot, check_snapshot
from ordo.backup.survey import Survey
from ordo.cluster.admin.member_store import open_stored
from ordo.cluster.module.state.commit_note import read_noted_position
from ordo.cluster.module.state.folder_rows import NO_START, Owner, Start, describe_rejoining
from ordo.cluster.module.state.peer_notes import Point, read_notes
from ordo.cluster.wire.log_identity import Origin, find_origin
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead
from ordo.runtime.errors import ArchiveError, ClusterError, OrdoError, StorageError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE
from ordo.sequencer.log_terms import read_terms

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordedMessage
    from ordo.cluster.module.state.state_store import SnapshotEntry, StoredState
    from ordo.cluster.settings.config import NodeSettings

STRETCH_BYTES = 1 << 20
"""The log is compared in stretches between multiples of this position."""
DIGEST_BYTES = 8


class Stretch(NamedTuple):
    """The messages that begin at or behind `from_position` and before `to_position`, as one digest."""

    from_position: int
    to_position: int
    digest: str


@dataclass
class Holding:
    """What one member has. Positions in bytes, times in ms of cluster time."""

    member_id: int
    cluster_id: int
    owner: Owner | None
    """The member that the folder names; None for one of a release that did not name it."""
    origin: Origin | None
    """The identity of the cluster; None while the member knew none."""
    voters: list[int]
    learners: list[int]
    """By the newest configuration of the log; by the configuration file where the log has none."""
    terms: list[tuple[int, int]]
    """(term id, base position), ascending."""
    start_position: int
    end_position: int
    """Where its last whole message ends."""
    committed_position: int
    """Up to here it knew the log to be committed; beyond its end where a part of its log is lost."""
    timestamp_ms: int
    """The time of its newest record."""
    snapshots: dict[int, str]
    """Digests of its whole snapshots, by position."""
    distrust: Distrust
    """What it knew itself to have lost."""
    start: Start
    """Its last start."""
    seen_starts: dict[int, Start]
    """The newest start of each other member that it had admitted."""
    seen_points: dict[int, Point]
    """Term and position up to which it saw that other members had the log."""
    damage: str = ""
    """Why the log ends where it does, if not in order."""
    leads: dict[int, Lead] = field(default_factory=dict)
    """Who led terms of `terms`, by term, as far as that is known."""
    stretches: list[Stretch] = field(default_factory=list)
    """From the snapshot on that a start would begin from."""
    successor: int = 0
    """The standby that goes on, since the log has ended for it (`ordo standby switch`); 0: none."""

    @property
    def last_term_id(self) -> int:
        return self.terms[-1][0] if self.terms else NULL_VALUE

    @property
    def rank(self) -> tuple[int, int]:
        """Which of two logs has more, as elections have it: the later term, then the higher position."""
        return self.last_term_id, self.end_position

    @property
    def is_intact(self) -> bool:
        """Whether it has all that it ever acknowledged, as far as it knows."""
        return not self.distrust.is_loss and not self.damage


@dataclass
class Findings:
    """What a folder's log and snapshots say, beside the holding: what a new epoch is made of."""

    holding: Holding
    state: StoredState
    survey: Survey
    """At the holding's end."""
    log: RecordingDescriptor | None


class Recordings:
    """The recordings of an archive folder, read without changing anything."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._found = {one.recording_id: one for one in list_recordings(directory, storage=storage)}

    def find(self, recording_id: int) -> RecordingDescriptor | None:
        return self._found.get(recording_id)

    def reader(self, recording_id: int, position: int | None = None) -> RecordingReader:
        """Return a reader from a position on. Raises ArchiveError if there is no such recording."""
        found = self._found.get(recording_id)
        if found is None:
            raise ArchiveError(f"{self._directory} has no recording {recording_id}")
        return RecordingReader(self._storage, self._directory, found, position)

    def end_of(self, recording: RecordingDescriptor) -> tuple[int, str]:
        """Return where a recording's last whole frame ends, and why, where that is not in order."""
        if not recording.is_active:
            damage = "" if recording.state is RecordingState.VALID else "its log is damaged behind that"
            return recording.stop_position, damage
        checkpoint = Checkpoints.load(self._storage, self._directory).get(recording.recording_id, NULL_POSITION)
        found = find_end(self._storage, self._directory, recording, checkpoint)
        return found.stop_position, str(found.found) if found.is_damaged else ""


def examine(config: NodeSettings, storage: Storage | None = None) -> Findings:
    """Read a stopped member's folder.

    Raises StorageInUseError while it runs, StorageMissingError when it has never run, ClusterError where the folder has
    nothing that can be used, or is being made a standby's.
    """
    storage = storage or FileStorage(open_lmdb)
    with open_stored(config, storage) as store:  # before the lock: it says what is missing where there is no folder
        pass
    with storage.lock_directory(str(config.node.data_dir)), open_stored(config, storage) as store:
        state, rows = store.load(), store.folder
        if rows.rejoining is not None:
            raise ClusterError(describe_rejoining(str(config.node.data_dir)))
        before = rows.recovering
        directory = str(config.cluster_dir)
        starts = rows.peers()
        holding = Holding(
            member_id=config.node.member_id,
            cluster_id=config.cluster.cluster_id,
            owner=rows.owner,
            origin=rows.origin,
            voters=sorted(one.id for one in config.member_list),
            learners=[],
            terms=list(state.terms),
            start_position=state.log_base_position,
            end_position=state.log_base_position,
            committed_position=read_noted_position(storage, directory) if before is None else before.committed_position,
            timestamp_ms=0,
            snapshots={},
            distrust=state.distrust,
            start=rows.start,
            seen_starts={one: start for one, start in starts.items() if start != NO_START},
            seen_points=read_notes(storage, directory, starts),
        )
        return _read_folder(config, storage, holding, state, None if before is None else before.log_position)


def _read_folder(
    config: NodeSettings, storage: Storage, holding: Holding, state: StoredState, limit_position: int | None
) -> Findings:
    """`limit_position`: where the log ended before a recovery that was interrupted."""
    recordings = Recordings(storage, str(config.archive_dir))
    log = None if state.log_recording_id == NULL_VALUE else recordings.find(state.log_recording_id)
    if log is None and state.log_recording_id != NULL_VALUE:
        holding.damage = f"the archive has no recording {state.log_recording_id}, which was the log"
    end_position = state.log_base_position
    if log is not None:
        holding.start_position = log.start_position
        end_position, holding.damage = recordings.end_of(log)
        if limit_position is not None and end_position >= limit_position:
            end_position, holding.damage = limit_position, ""
    entry, checked = _choose_snapshot(recordings, holding, state, end_position)
    survey = Survey(holding.start_position)
    if entry is not None and checked is not None:
        survey, said = Survey.of_snapshot(checked.module, entry.timestamp), checked.module.identity
        if holding.origin is None and said is not None:
            holding.origin = Origin(said.identity, said.position)
    elif holding.start_position > 0:
        raise ClusterError(
            f"member {holding.member_id} has no whole snapshot that its log continues, from position="
            f"{holding.start_position} to {end_position}: nothing can be made of this folder alone"
        )
    if log is not None:
        _read_log(recordings, log, holding, survey, end_position)
        holding.origin = holding.origin or _first_origin(recordings, log)
    holding.end_position, holding.timestamp_ms = survey.position, time_ms(survey.timestamp)
    holding.successor = survey.successor
    if holding.committed_position > end_position:
        holding.damage = holding.damage or "it lacks a part of what it knew to be committed"
    else:  # what is committed of a message that is not whole was executed by nobody
        holding.committed_position = min(holding.committed_position, survey.position)
    if survey.configuration is not None:
        members = survey.configuration.ids()
        holding.voters, holding.learners = sorted(members.voter_ids), sorted(members.learner_ids)
    holding.terms = [row for row in survey.terms if row[1] < max(survey.position, 1)]
    leads = state.leads | survey.leads
    holding.leads = {term_id: leads[term_id] for term_id, _ in holding.terms if term_id in leads}
    return Findings(holding, state, survey, log)


def _choose_snapshot(
    recordings: Recordings, holding: Holding, state: StoredState, end_position: int
) -> tuple[SnapshotEntry | None, CheckedSnapshot | None]:
    """Check all snapshots that the log continues; return the newest whole one."""
    newest: tuple[SnapshotEntry | None, CheckedSnapshot | None] = None, None
    for entry in sorted(one for one in state.snapshots if one.is_valid):
        if not holding.start_position <= entry.log_position <= end_position:
            continue
        try:
            checked = check_snapshot(recordings, entry)
        except (OrdoError, StorageError):
            continue
        if checked.digest == state.digests.get(entry.log_position, checked.digest):
            holding.snapshots[entry.log_position] = checked.digest.hex()
            newest = entry, checked
    return newest


def _read_log(
    recordings: Recordings, log: RecordingDescriptor, holding: Holding, survey: Survey, end_position: int
) -> None:
    """Read the log from the snapshot on, up to its end or its first damage."""
    first_position = survey.position
    digests = _Digests(first_position)
    try:
        for message in recordings.reader(log.recording_id, first_position).messages(end_position):
            survey.add(message)
            digests.add(message)
    except (OrdoError, StorageError) as error:
        holding.damage = error.message
    holding.stretches = digests.finish(survey.position)
    if survey.position > first_position:
        _, told_position = read_terms(recordings.reader(log.recording_id, first_position), survey.position)
        holding.committed_position = max(holding.committed_position, told_position)


def _first_origin(recordings: Recordings, log: RecordingDescriptor) -> Origin | None:
    """Return the cluster that the first record of a log names, where the log still has it."""
    if log.start_position > 0:
        return None
    try:
        first = next(iter(recordings.reader(log.recording_id, 0).messages()), None)
    except (ArchiveError, StorageError):
        return None
    return None if first is None else find_origin(first.payload)


class _Digests:
    """Digests of the messages between multiples of STRETCH_BYTES: the same positions at all members."""

    def __init__(self, position: int) -> None:
        self._from_position = position
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._found: list[Stretch] = []

    def add(self, message: RecordedMessage) -> None:
        boundary = message.start_position - message.start_position % STRETCH_BYTES
        if boundary > self._from_position:
            self._close(boundary)
        self._hash.update(message.position.to_bytes(8, "little"))
        self._hash.update(message.payload)

    def _close(self, position: int) -> None:
        self._found.append(Stretch(self._from_position, position, self._hash.hexdigest()))
        self._from_position = position
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def finish(self, position: int) -> list[Stretch]:
        if position > self._from_position:
            self._close(position)
        return self._found
