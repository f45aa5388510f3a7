"""What a member starts from: its store, its newest whole snapshot, and the end of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.catalog import RecordingState
from cluster import snapshots
from cluster.sequencer import find_terms
from cluster.service_messages import PendingServiceMessages
from cluster.sessions import NULL_VALUE, OpenSessions
from cluster.state_store import SnapshotEntry, StateStore
from cluster.timers import TimerService
from consensus.config import DurableState
from runtime.errors import ClusterError

if TYPE_CHECKING:
    from archive.archive import Archive
    from cluster.config import ModuleConfig
    from cluster.contacts import Contacts


class Recovery:
    """The recovery plan of a member. Raises ClusterError when what is stored does not fit together."""

    def __init__(self, archive: Archive, store: StateStore, config: ModuleConfig) -> None:
        self.state = store.load()
        self.append_position = 0
        if self.state.log_recording_id != NULL_VALUE:
            descriptor = archive.descriptor(self.state.log_recording_id)
            if descriptor.state is not RecordingState.VALID:
                raise ClusterError(
                    f"log recording {descriptor.recording_id} is damaged below what this member has acknowledged "
                    f"(good up to position={descriptor.stop_position}): it must not vote with it; "
                    "wipe this member's data folder and let it catch up from the others"
                )
            self.append_position = descriptor.stop_position
        store.truncate_terms(self.append_position)
        self.terms = [(term, base) for term, base in self.state.terms if base < self.append_position]
        if self.append_position > 0:
            self._add_unstored_terms(archive, store)
        self.snapshot: SnapshotEntry | None = self._newest_snapshot()
        self.contents: snapshots.ModuleSnapshot | None = None
        if self.snapshot is not None:
            reader = archive.reader(self.snapshot.module_recording_id, 0)
            self.contents = snapshots.decode(message.payload for message in reader.messages())
            self._check(self.contents, self.snapshot, config)

    def _add_unstored_terms(self, archive: Archive, store: StateStore) -> None:
        """A crash between recording a term's first record and storing its row leaves the row to be found again."""
        base = self.terms[-1][1] if self.terms else 0
        reader = archive.reader(self.state.log_recording_id, base)
        for term_id, base_position in find_terms(reader, self.append_position):
            if not self.terms or term_id > self.terms[-1][0]:
                store.put_term(term_id, base_position)
                self.terms.append((term_id, base_position))

    def _newest_snapshot(self) -> SnapshotEntry | None:
        valid = [entry for entry in self.state.snapshots if entry.is_valid]
        if not valid:
            return None
        newest = max(valid)
        if newest.log_position > self.append_position:
            raise ClusterError(
                f"snapshot at log_position={newest.log_position} is past the end of the log at {self.append_position}: "
                "a piece of the log is missing; wipe this member's data folder and let it catch up from the others"
            )
        return newest

    @staticmethod
    def _check(contents: snapshots.ModuleSnapshot, entry: SnapshotEntry, config: ModuleConfig) -> None:
        point = contents.point
        if point.log_position != entry.log_position:
            raise ClusterError(f"snapshot: log_position={point.log_position}, the store says {entry.log_position}")
        if point.app_version >> 16 != config.app_version >> 16:
            raise ClusterError(
                f"snapshot: app_version={point.app_version >> 16}.x is not compatible with this node's "
                f"{config.app_version >> 16}.x: the major parts must be equal"
            )

    @property
    def log_position(self) -> int:
        """Where execution begins."""
        return self.snapshot.log_position if self.snapshot is not None else 0

    def durable_state(self) -> DurableState:
        """What consensus starts from."""
        named = None if self.contents is None else self.contents.configuration
        return DurableState(
            self.state.candidate_term_id,
            self.terms,
            self.append_position,
            self.log_position,
            None if named is None else named.ids(),
        )

    def introduce_members(self, contacts: Contacts) -> None:
        """The members of the snapshot's configuration."""
        named = None if self.contents is None else self.contents.configuration
        for member in () if named is None else (*named.voters, *named.learners):
            contacts.learn(member)

    def restore(self, sessions: OpenSessions, timers: TimerService, service_messages: PendingServiceMessages) -> None:
        contents = self.contents
        if contents is None:
            return
        for session in contents.sessions:
            sessions.restore(session)
        sessions.next_session_id = max(sessions.next_session_id, contents.next_session_id)
        for correlation_id, deadline in contents.timers:
            timers.schedule(correlation_id, deadline)
        service_messages.restore(contents.next_service_session_id, contents.log_service_session_id, contents.pending)
