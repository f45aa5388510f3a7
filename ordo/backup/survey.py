"""What the log of a backup says up to a position: the records that a restored cluster is made by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ordo.cluster.module.versions.version_log import VersionChange
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.cluster.wire.codecs import ClusterAction, find_time_unit
from ordo.cluster.wire.configuration import NamedConfiguration, decode_configuration
from ordo.cluster.wire.levels import FIRST_LEVEL
from ordo.cluster.wire.succession import find_successor
from ordo.consensus.state.messages import Lead
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.cluster_time import TimeUnit, time_ns

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordedMessage
    from ordo.cluster.module.state.module_snapshot import ModuleSnapshot
    from ordo.cluster.wire.records import ClusterActionRequest, ConfigurationEvent


STAMPED = (EntryKind.MESSAGE, EntryKind.SESSION_OPEN, EntryKind.SESSION_CLOSE, EntryKind.TIMER)
"""Entries that say in which term their leader appended them."""


@dataclass
class Survey:
    """A state of the cluster as far as its log tells it, at `position`: that of a snapshot, and what follows."""

    position: int
    timestamp: int = 0
    """Cluster time of the last record."""
    terms: list[tuple[int, int]] = field(default_factory=list)
    """(term id, base position) of every leadership term below."""
    sessions: set[int] = field(default_factory=set)
    """Clients' sessions that are open."""
    versions: list[VersionChange] = field(default_factory=list)
    """What says which version is in force behind it, ascending: the services' parts of the snapshot, and records."""
    skipped: set[int] = field(default_factory=set)
    """Positions of records that are left out."""
    level: int = FIRST_LEVEL
    """Protocol level of the log."""
    configuration: NamedConfiguration | None = None
    """The newest one of the log; None while it has none."""
    leads: dict[int, Lead] = field(default_factory=dict)
    """Who led the terms whose first records were added, by term."""
    is_suspended: bool = False
    """The cluster takes nothing of clients at this position."""
    successor: int = 0
    """The standby that goes on, since the log has ended for it; 0: none."""
    time_unit: TimeUnit = TimeUnit.MILLIS
    """The unit of the log's time."""

    @classmethod
    def of_snapshot(cls, snapshot: ModuleSnapshot, timestamp: int) -> Survey:
        position, service_ids = snapshot.point.log_position, range(len(snapshot.trackers))
        return cls(
            position,
            timestamp,
            list(snapshot.terms),
            {session.id for session in snapshot.sessions},
            [VersionChange(position, snapshot.version_of(one), one) for one in service_ids],
            {skip.log_position for skip in snapshot.skips},
            snapshot.level,
            snapshot.configuration,
            time_unit=snapshot.point.time_unit,
        )

    def versions_of(self, service_id: int) -> list[int]:
        """Versions of a service whose code is needed to execute what follows the snapshot, the one in force last."""
        changes = (one for one in self.versions if one.concerns(service_id) and one.position not in self.skipped)
        return [one.app_version for one in changes]

    def version_of(self, service_id: int) -> int:
        """Return the version of a service that is in force at the end."""
        return (self.versions_of(service_id) or [NO_VERSION])[-1]

    def add(self, message: RecordedMessage) -> None:
        """Add the next record.

        Raises DecodeError; ArchiveError for one that does not follow the others: a stretch that was begun with one
        cluster and continued with another looks like that.
        """
        self.position = message.position
        entry = decode_entry(message.position, message.payload)
        if entry is not None:
            self._check_term(entry)
            self.timestamp = max(self.timestamp, entry.timestamp)
            if entry.kind is not EntryKind.MESSAGE:
                self._note(entry)

    def _check_term(self, entry: LogEntry) -> None:
        term_id = self.terms[-1][0] if self.terms else entry.leadership_term_id
        if entry.kind in STAMPED and entry.leadership_term_id != term_id:
            raise ArchiveError(
                f"the record that ends at position {entry.position} is of term {entry.leadership_term_id}, within term"
                f" {term_id}: this is not the log of one cluster; restore to a position before it"
            )

    def _note(self, entry: LogEntry) -> None:
        if entry.kind is EntryKind.NEW_TERM:
            base = entry.values.term_base_log_position
            self._note_time_unit(entry)
            if not self.terms or entry.leadership_term_id > self.terms[-1][0]:
                self.terms.append((entry.leadership_term_id, base))
                self.leads[entry.leadership_term_id] = Lead(entry.values.leader_member_id, entry.values.log_session_id)
            if base == 0:
                self.versions.append(VersionChange(entry.position, entry.values.app_version))
        elif entry.kind is EntryKind.VERSION:
            self.versions.append(VersionChange.of_event(entry.position, entry.values))
        elif entry.kind is EntryKind.LEVEL:
            self.level = entry.values.level
        elif entry.kind is EntryKind.CONFIGURATION:
            self.configuration = decode_configuration(cast("ConfigurationEvent", entry.values))
        elif entry.kind is EntryKind.SKIP:
            self.skipped.add(entry.values.skipped_position)
        elif entry.kind is EntryKind.CLUSTER_ACTION:
            if entry.values.action in (ClusterAction.SUSPEND, ClusterAction.RESUME):
                self.is_suspended = entry.values.action == ClusterAction.SUSPEND
                self.successor = find_successor(cast("ClusterActionRequest", entry.values))
        elif entry.kind is EntryKind.SESSION_OPEN:
            self.sessions.add(entry.session_id)
        elif entry.kind is EntryKind.SESSION_CLOSE:
            self.sessions.discard(entry.session_id)

    def _note_time_unit(self, entry: LogEntry) -> None:
        unit = find_time_unit(entry.values.time_unit)
        if unit is None:
            raise ArchiveError(f"the record at position {entry.position} has time_unit={entry.values.time_unit}")
        self.time_unit = unit

    def advance(self, messages: Iterable[RecordedMessage], position: int) -> bool:
        """Take the records up to a position; whether one ends there."""
        for message in messages:
            if message.position > position:
                break
            self.add(message)
        return self.position == position

    def advance_to_time(self, messages: Iterable[RecordedMessage], timestamp: int) -> bool:
        """Take the records of a time and before; whether a later one proves that these are all."""
        for message in messages:
            entry = decode_entry(message.position, message.payload)
            if entry is not None and time_ns(entry.timestamp) > time_ns(timestamp):
                return True
            self.add(message)
        return False
