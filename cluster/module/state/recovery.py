"""The recovery plan: what a member starts from, namely its store, its newest intact snapshot and the end of its log.

What is damaged or missing is left out, and what that means for its vote is made durable before anything else follows
from it (consensus.handlers.trust): the member starts with what is good, and gets the rest from its leader. Nothing is
deleted
here; a damaged tail goes when a leader has been found that the log is copied from. docs/ARCHITECTURE.md, Repair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import RecordingState
from ordo.cluster.module.sessions.service_messages import ServiceMessages
from ordo.cluster.module.sessions.sessions import OpenSessions
from ordo.cluster.module.sessions.timers import ClusterTimers, merge_timers
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.state_store import Skip, SnapshotEntry, StateStore
from ordo.cluster.wire import codecs
from ordo.cluster.wire.levels import FIRST_LEVEL
from ordo.cluster.wire.log_identity import LogIdentity, Origin, find_origin, read_origins
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead
from ordo.consensus.state.settings import DurableState
from ordo.runtime.errors import ArchiveError, ClusterError, DecodeError, SnapshotError, StorageError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.sequencer.log_terms import read_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ordo.archive.archive import Archive
    from ordo.archive.segments.recovery import Damage
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.settings import ModuleSettings

NO_LIMIT = 2**63 - 1
LEADS_SOUGHT = 100
"""How many of the newest terms have their first records read at a start, where the lead is not stored."""
SNAPSHOT_FAULTS = (ArchiveError, DecodeError, ClusterError, SnapshotError)


class Recovery:
    """The recovery plan of a member. `findings` are lines for its error log: what was lost, and how it is recovered.

    Raises ClusterError when what is stored does not fit together, or when nobody can give back what was lost.
    """

    def __init__(
        self,
        archive: Archive,
        store: StateStore,
        config: ModuleSettings,
        *,
        is_single: bool = False,
        lost_state: str | None = None,
        known_position: int = 0,
    ) -> None:
        """Recover.

        `is_single`: there is no other member. `lost_state`: how an earlier store was lost, if it was. `known_position`:
        the commit position that this member had noted.
        """
        self._archive, self._store, self._config = archive, store, config
        self._is_single = is_single
        self.findings: list[str] = []
        self.state = store.load()
        self.distrust = self.state.distrust
        self.log_recording_id = self.state.log_recording_id
        self._check_state(lost_state)
        self.append_position = self._find_log_end()
        self.snapshot: SnapshotEntry | None = None
        self.contents: module_snapshot.ModuleSnapshot | None = None
        self.service_timers: list[Sequence[tuple[int, int]]] = []
        """Keyed by service: the versions of the snapshot."""
        self._choose_start()
        self._check_log()
        self._forget_snapshots()
        self.known_position = min(known_position, self.append_position)
        self._check_end(known_position)
        store.truncate_terms(self.append_position)
        self.terms = [(term, base) for term, base in self.state.terms if base < self.append_position]
        if self.append_position > self._log_start:
            self._read_log()
        self._find_leads()
        if self.distrust and not self.findings:
            self.findings.append("this member still lacks what it lost before an earlier start: it does not vote yet")

    # -- what was lost -------------------------------------------------------------------------------------------------

    def _lose(self, distrust: Distrust, finding: str) -> None:
        """Note durably, before anything follows from it, that something this member had to keep is lost."""
        if self._is_single:
            raise ClusterError(
                f"{finding}: this cluster has no other member that could have it; restore the data folder from a copy"
            )
        self.findings.append(
            f"{finding}: this member does not vote until it has everything from its leader; if no other member can "
            "lead, see `ordo cluster trust --help`"
        )
        if distrust & ~self.distrust:
            self.distrust |= distrust
            self._store.put_distrust(self.distrust)

    def _check_state(self, lost_state: str | None) -> None:
        """Check that store and log recording belong together.

        Without its stored vote this member may have promised anything.
        """
        everything = Distrust.LOG | Distrust.VOTE
        logs = [one.recording_id for one in self._archive.recordings() if one.stream_id == LOG_STREAM_ID]
        if self._is_single and (lost_state is not None or self.distrust & Distrust.VOTE):
            self._refuse_alone(logs, f"the store of votes and terms {lost_state or 'was lost before an earlier start'}")
        if lost_state is not None:
            self._lose(everything, f"the store of votes and terms {lost_state}")
        elif self.state.is_empty and self._config.rejoin:
            self._lose(everything, "this member rejoins with an empty folder")
        is_rebased = self.state.log_base_position > 0
        if self.log_recording_id == NULL_VALUE and logs and self.distrust & Distrust.VOTE and not is_rebased:
            self._take_log(logs[-1])
        elif self.log_recording_id != NULL_VALUE and self.log_recording_id not in logs:
            self._lose(Distrust.LOG, f"the archive has no recording {self.log_recording_id}, which was the log")
            self._take_log(NULL_VALUE)

    def _refuse_alone(self, logs: list[int], finding: str) -> None:
        """End the only member of a cluster, whose store is lost, without leaving an empty one that knows of no log.

        With that the next start would begin another log beside it. What is noted here lets every start end like this
        one, until the folder is restored, or the log is gone on with as it is.
        """
        self._store.put_distrust(self.distrust | Distrust.LOG | Distrust.VOTE)
        if self.log_recording_id == NULL_VALUE and logs:
            self._take_log(logs[-1])
        raise ClusterError(
            f"{finding}: this cluster has no other member that could have it; restore the data folder from a copy, or "
            "go on with the log as it is (`ordo cluster trust --help`)"
        )

    def _take_log(self, recording_id: int) -> None:
        self._store.put_log_recording(recording_id)
        self.log_recording_id = recording_id

    def _find_log_end(self) -> int:
        if self.log_recording_id == NULL_VALUE:
            return self.state.log_base_position
        descriptor = self._archive.descriptor(self.log_recording_id)
        if descriptor.state is not RecordingState.VALID:
            self._lose(
                Distrust.LOG,
                f"the log (recording {descriptor.recording_id}) is damaged below what this member has acknowledged, "
                f"good up to position={descriptor.stop_position}",
            )
        return int(descriptor.stop_position)

    def _check_log(self) -> None:
        """Give up the log after the first damage; a snapshot from before it is enough to continue."""
        if self.log_recording_id == NULL_VALUE:
            return
        reads_all = self._config.check_log or self.state.check_log
        while damage := self._find_damage(None if reads_all else self.log_position):
            self._lose(Distrust.LOG, f"{damage.error.message}; the log is good up to position={damage.good_position}")
            self._archive.condemn(self.log_recording_id, damage.good_position)
            self.append_position = damage.good_position
            self._choose_start()
        if self.state.check_log:
            self._store.put_check_log(False)

    def _check_end(self, known_position: int) -> None:
        """Check that the log has all that was known to be committed.

        Without syncs the system may have lost some of it.
        """
        if known_position <= self.append_position or Distrust.LOG in self.distrust:
            return
        finding = (
            f"the log ends at position={self.append_position}, and was committed up to {known_position}: what was "
            "acknowledged in between is gone from this disk"
        )
        if self._is_single or self._config.is_unsynced:
            self.findings.append(finding)
        else:
            self._lose(Distrust.LOG, finding)

    def _find_damage(self, from_position: int | None) -> Damage | None:
        if self.log_recording_id == NULL_VALUE:
            return None
        return self._archive.find_damage(self.log_recording_id, from_position)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    @property
    def _log_start(self) -> int:
        if self.log_recording_id == NULL_VALUE:
            return self.state.log_base_position
        return int(self._archive.descriptor(self.log_recording_id).start_position)

    def _choose_start(self) -> None:
        """Choose a snapshot that the log continues, or the beginning of the log.

        A log that begins above 0 without such a snapshot is of no use, and is given up.
        """
        self._choose_snapshot(self._log_start, self.append_position)
        if self.snapshot is None and self._log_start > 0:
            self._give_up_log()

    def _choose_snapshot(self, lowest: int, highest: int) -> None:
        """Return the newest whole snapshot from `lowest` to `highest`, the end of the log.

        One beyond that shows that the log is too short.
        """
        self.snapshot = self.contents = None
        for entry in sorted(self.state.snapshots, reverse=True):
            if not entry.is_valid or entry.log_position < lowest:
                continue
            if entry.log_position > highest:
                self._note_missing_log(entry.log_position)
                continue
            self.contents = self._load_snapshot(entry)
            if self.contents is not None:
                self.snapshot = entry
                return

    def _give_up_log(self) -> None:
        """Begin after the newest whole snapshot, wherever the log ended, or with nothing.

        The rest comes from other members.

        The recording stays until the log has another one.
        """
        self._lose(
            Distrust.LOG,
            f"the log begins at position={self._log_start}, and there is no whole snapshot from there to its end at "
            f"{self.append_position}",
        )
        self._choose_snapshot(0, NO_LIMIT)
        self._store.rebase(self.log_position)
        self.log_recording_id = NULL_VALUE
        self.append_position = self.log_position
        self.state = replace(self.state, log_recording_id=NULL_VALUE, log_base_position=self.log_position)

    def _forget_snapshots(self) -> None:
        """Forget the snapshots whose recordings the archive has no more, as after an older copy of its folder.

        Their numbers will be those of other recordings, which would be told of, and deleted, in their place.
        """
        forgotten = self._store.forget_lost([one.recording_id for one in self._archive.recordings()])
        if forgotten:
            self.findings.append(f"the archive has not all recordings of the snapshots at {forgotten}: forgotten")

    def _note_missing_log(self, snapshot_position: int) -> None:
        if Distrust.LOG not in self.distrust:
            self._lose(
                Distrust.LOG,
                f"the log ends at position={self.append_position}, below the snapshot at {snapshot_position}: "
                "a piece of it is missing",
            )

    def _load_snapshot(self, entry: SnapshotEntry) -> module_snapshot.ModuleSnapshot | None:
        """Return the module's part, when it and the services' parts are whole and of one state.

        Else mark it as damaged.
        """
        self._check_services(entry)
        try:
            contents = module_snapshot.decode(
                message.payload for message in self._archive.reader(entry.module_recording_id, None).messages()
            )
            services = [self._read_service(recording_id) for recording_id in entry.service_recording_ids]
            check_parts(contents, services)
            name_principals(contents, services[0])
            _check_skips(contents, self.state.skips)
        except SNAPSHOT_FAULTS as error:
            self.findings.append(
                f"the snapshot at log position {entry.log_position} cannot be used; an older one, or the whole log, is "
                f"used instead: {error.message}"
            )
            self._store.put_snapshot(entry._replace(is_valid=False))
            self.state.snapshots.remove(entry)
            return None
        self._check(contents, entry)
        self.service_timers = [service.timers for service in services]
        return contents

    def _read_service(self, recording_id: int) -> container_snapshot.ServiceSnapshot:
        """Return the container's state in a service's part, after reading the whole part. Raises SNAPSHOT_FAULTS."""
        reader = self._archive.reader(recording_id, None)
        service = container_snapshot.decode(container_snapshot.payloads(reader.messages()))
        reader.skip_messages()
        return service

    def _check_services(self, entry: SnapshotEntry) -> None:
        """Raise ClusterError where the snapshot is not of the services that this member is to run."""
        found, expected = len(entry.service_recording_ids), self._config.service_count
        if found != expected:
            raise ClusterError(
                f"the snapshot at log position {entry.log_position} is of {found} service(s), and this member is to "
                f"run {expected}: a cluster has the same services for as long as its log lives ([[services]])"
            )

    def _check(self, contents: module_snapshot.ModuleSnapshot, entry: SnapshotEntry) -> None:
        if contents.point.log_position != entry.log_position:
            raise ClusterError(
                f"snapshot: log_position={contents.point.log_position}, the store says {entry.log_position}"
            )

    # -- terms ---------------------------------------------------------------------------------------------------------

    def _read_log(self) -> None:
        """Add terms that were recorded but not stored: a crash between the two leaves the row to be found again.

        Below the snapshot as well: a member that had lost its log, and with it the rows, may have got it again up to
        there and crashed before it had read any of it.

        A record tells how far its leader knew the log to be committed: so far it is committed in every log that has
        the record, whichever leader that was, and whatever has become of the record (docs/CONSENSUS.md).
        """
        for row in () if self.contents is None else self.contents.terms:
            self._add_term(*row)
        reader = self._archive.reader(self.log_recording_id, self.log_position)
        terms, told_position = read_terms(reader, self.append_position)
        for row in terms:
            self._add_term(*row)
        # A loss of power may take the note; the leaders' own statements are in the log. Without syncs it takes the log
        # as well, of each member another part, and the members go on with what is left.
        if not self._config.is_unsynced:
            self.known_position = max(self.known_position, told_position)

    def _find_leads(self) -> None:
        """Store the leads of the newest terms where only their first records have them, as after an earlier release."""
        here = dict(self.terms)
        self.leads = {term_id: lead for term_id, lead in self.state.leads.items() if term_id in here}
        found = {}
        for term_id, base_position in self.terms[-LEADS_SOUGHT:]:
            lead = None if term_id in self.leads else self._read_lead(term_id, base_position)
            if lead is not None:
                found[term_id] = lead
        if found:
            self._store.put_leads(found)
            self.leads |= found

    def _add_term(self, leadership_term_id: int, base_position: int) -> None:
        if not self.terms or leadership_term_id > self.terms[-1][0]:
            self._store.put_term(leadership_term_id, base_position)
            self.terms.append((leadership_term_id, base_position))

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def log_position(self) -> int:
        """The position where execution begins."""
        return self.snapshot.log_position if self.snapshot is not None else 0

    @property
    def log_timestamp(self) -> int:
        """The cluster time at `log_position`; 0 at the beginning of the log."""
        return self.snapshot.timestamp if self.snapshot is not None else 0

    @property
    def level(self) -> int:
        """The protocol level of the log at `log_position`."""
        return FIRST_LEVEL if self.contents is None else self.contents.level

    @property
    def log_identity(self) -> LogIdentity | None:
        """Return the identity of the cluster that the log below `log_position` names."""
        return None if self.contents is None else self.contents.identity

    @property
    def has_log(self) -> bool:
        """Whether there is a log, besides the snapshot, however empty; a fetched snapshot comes without one."""
        return self.log_recording_id != NULL_VALUE

    @property
    def first_origin(self) -> Origin | None:
        """Return the cluster that the log's first record names; None if that record is gone, or may be uncommitted."""
        if self.log_recording_id == NULL_VALUE or self._log_start > 0 or self.log_position == 0:
            return None
        try:
            first = next(iter(self._archive.reader(self.log_recording_id, 0).messages()), None)
        except (ArchiveError, StorageError):
            return None  # damage below the snapshot is nothing that a start looks for
        return None if first is None else find_origin(first.payload)

    @property
    def past_origins(self) -> list[Origin]:
        """Return what the log says where it was gone on with as another cluster's; fewer where it is damaged."""

        def records(base_position: int) -> Iterator[tuple[int, bytes]]:
            reader = self._archive.reader(self.log_recording_id, base_position)
            return ((one.position, one.payload) for one in reader.messages())

        if self.log_recording_id == NULL_VALUE:
            return []
        try:
            return read_origins(self.terms, self._log_start, records)
        except (ArchiveError, StorageError):
            return []  # damage below the snapshot is nothing that a start looks for

    def durable_state(self) -> DurableState:
        """Return the state that consensus starts from."""
        named = None if self.contents is None or self._config.is_standby else self.contents.configuration
        return DurableState(
            self.state.candidate_term_id,
            self.terms,
            self.append_position,
            self.log_position,
            None if named is None else named.ids(),
            self.distrust,
            self.known_position,
            self.leads,
        )

    def _read_lead(self, term_id: int, base_position: int) -> Lead | None:
        """Return who led a term by its first record; None if that is gone, or damaged below the snapshot."""
        if self.log_recording_id == NULL_VALUE or base_position < self._log_start:
            return None
        try:
            first = next(iter(self._archive.reader(self.log_recording_id, base_position).messages()), None)
        except (ArchiveError, StorageError):
            return None
        found = None if first is None else codecs.decode(first.payload)
        if found is None or found[0] is not codecs.NEW_LEADERSHIP_TERM_EVENT or found[1].leadership_term_id != term_id:
            return None
        return Lead(found[1].leader_member_id, found[1].log_session_id)

    def introduce_members(self, contacts: Contacts) -> None:
        """Introduce the members of the snapshot's configuration."""
        named = None if self.contents is None else self.contents.configuration
        for member in () if named is None else (*named.voters, *named.learners):
            contacts.learn(member)

    def restore(self, sessions: OpenSessions, timers: ClusterTimers, service_messages: ServiceMessages) -> None:
        contents = self.contents
        if contents is None:
            return
        for session in contents.sessions:
            sessions.restore(session)
        sessions.next_session_id = max(sessions.next_session_id, contents.next_session_id)
        timers.begin(contents.point.time_unit)
        for service_id, of_service in enumerate(self.service_timers):
            for correlation_id, deadline in of_service:
                timers[service_id].schedule(correlation_id, deadline)
        for one in contents.trackers:
            service_messages[one.service_id].restore(one.next_session_id, one.log_session_id, one.pending)


def check_parts(module: module_snapshot.ModuleSnapshot, services: Sequence[container_snapshot.ServiceSnapshot]) -> None:
    """Raise SnapshotError where the parts of a snapshot are not of one state."""
    if len(module.trackers) != len(services):
        raise SnapshotError(f"the module's part is of {len(module.trackers)} service(s), not of {len(services)}")
    for service_id, service in enumerate(services):
        _check_part(module, service_id, service)
    timers = merge_timers(service.timers for service in services)
    if timers != merge_timers([module.timers]):
        raise SnapshotError(f"the services' parts have timers={timers}, the module's {module.timers}")


def _check_part(
    module: module_snapshot.ModuleSnapshot, service_id: int, service: container_snapshot.ServiceSnapshot
) -> None:
    position = module.point.log_position
    if service.log_position != position:
        raise SnapshotError(f"the service's part is of log_position={service.log_position}, the module's of {position}")
    if service.app_version != (app_version := module.version_of(service_id)):
        raise SnapshotError(
            f"the service's part is of app_version={service.app_version}, the module's of {app_version}"
        )


def name_principals(module: module_snapshot.ModuleSnapshot, service: container_snapshot.ServiceSnapshot) -> None:
    """Add each session's principal, which only the service's part has; without it a client would lose its rights."""
    principals = {one.cluster_session_id: one.encoded_principal for one in service.sessions}
    for session in module.sessions:
        session.encoded_principal = principals.get(session.id, b"")


def _check_skips(module: module_snapshot.ModuleSnapshot, skips: dict[int, Skip]) -> None:
    """Raise SnapshotError where the snapshot's state includes records that have been skipped since."""
    without = {skip.log_position for skip in module.skips}
    of_state = [one for one in sorted(skips) if one <= module.point.log_position and one not in without]
    if of_state:
        raise SnapshotError(f"it was taken before the records at positions {of_state} were left out")
