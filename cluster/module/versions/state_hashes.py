"""Compares the states of services between snapshots, where services give hashes (docs/ARCHITECTURE.md).

    leader    appends a StateHashEvent after so much log, when the log's protocol level has it and its service hashes
    service   gives the hash of its state at that record, on every member, also when it executes the log again
    members   tell each other; what a quorum had is known to each of them, and goes into the log with the next event
    doubt     a member that had another hash takes the state of the others (ordo.cluster.module.versions.state_doubt)

The log has what was agreed, so that a member that comes back after a week, and replays of the log, compare too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordo.cluster.module.snapshots.snapshot_reports import ROWS_MAX, HeldSnapshot, StateReports
from ordo.cluster.module.snapshots.snapshot_schedule import NeededSnapshot
from ordo.cluster.module.state.host import AppendingHost
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import STATE_HASH_LEVEL
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_executor import LogRecord
    from ordo.cluster.module.state.host import Replication
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.module.versions.state_doubt import StateDoubt
    from ordo.cluster.module.versions.versions import Versions
    from ordo.cluster.wire import records
    from ordo.runtime.sbe import Message

AGREED_MAX = 4096
"""So much of what the log says is kept for a service that has not executed so far."""


class StateHashes:
    """One member's state hashes. `agreed_position`: where a quorum was last known to have one state, or -1."""

    def __init__(
        self,
        host: AppendingHost,
        replication: Replication,
        levels: ProtocolLevel,
        versions: Versions,
        doubt: StateDoubt,
        own_id: int,
        every_bytes: int,
        *,
        ask_snapshot: Callable[[], bool],
    ) -> None:
        """Take the member's parts.

        `every_bytes`: 0 for no events. `ask_snapshot` has the cluster take one, and returns False when it cannot.
        """
        self._host = host
        self._core = replication.core
        self._sequencer = replication.sequencer
        self._contacts = replication.contacts
        self._levels = levels
        self._versions = versions
        self._doubt = doubt
        self._own_id = own_id
        self._every_bytes = every_bytes
        self._needed_snapshot = NeededSnapshot(ask_snapshot)
        self._reports = StateReports(own_id)
        self._own: dict[int, bytes] = {}
        self._events: list[int] = []
        """Where the newest events of this member's log end; they need not be committed."""
        self._agreed: dict[int, bytes] = {}
        """From the committed log, for positions that this member's service has not reached."""
        self._told_position = NULL_VALUE
        self._alike_position = NULL_VALUE
        self._differing_position = NULL_VALUE
        """The newest at which a member was seen to have another state than a quorum."""
        self.agreed_position = NULL_VALUE
        self.handlers: dict[Message, Callable[[Any, int], None]] = dict(
            (bind(ordo_codecs.STATE_HASH_REPORT, self._on_report),)
        )

    def start(self, log_position: int) -> None:
        """Begin at `log_position`: that of the snapshot that the member starts from, or 0."""
        self._events.insert(0, log_position)

    # -- the log -------------------------------------------------------------------------------------------------------

    def on_record(self, record: LogRecord) -> None:
        """Note a record of this member's durable log."""
        if record.table is ordo_codecs.STATE_HASH_EVENT:
            self._events = [*self._events, record.position][-ROWS_MAX:]

    def truncate(self, position: int) -> None:
        """Forget what was read beyond `position`, where the log was cut."""
        while len(self._events) > 1 and self._events[-1] > position:
            self._events.pop()

    def execute(self, record: LogRecord) -> None:
        """Execute a committed event, which also has a quorum's state at an earlier one."""
        position, digest = record.values.agreed_position, record.values.agreed_digest
        if position == NULL_VALUE:
            return
        self._told_position = position
        self._agreed[position] = digest
        if len(self._agreed) > AGREED_MAX:
            del self._agreed[min(self._agreed)]
        self._compare(HeldSnapshot(position, digest))

    # -- services and members ------------------------------------------------------------------------------------------

    def on_service_hash(self, values: records.StateHash) -> None:
        """Take the hash that this member's service gives of its state."""
        position = values.log_position
        self._own[position] = values.digest
        if len(self._own) > ROWS_MAX:
            del self._own[min(self._own)]
        if position in self._agreed:
            self._compare(HeldSnapshot(position, self._agreed[position]))

    def _on_report(self, report: records.StateHashReport, now_ns: int) -> None:
        """Take the hash that another member reports. Raises DecodeError."""
        self._reports.note(report.member_id, report.hashes, now_ns)

    def _compare(self, agreed: HeldSnapshot) -> None:
        """Compare a quorum's state with this member's, whose service may not have reached it yet."""
        self.agreed_position = max(self.agreed_position, agreed.log_position)
        own = self._own.get(agreed.log_position)
        if own is None:
            return
        self._agreed = {one: digest for one, digest in self._agreed.items() if one > agreed.log_position}
        if own == agreed.digest:
            self._alike_position = max(self._alike_position, agreed.log_position)
        else:
            self._doubt.on_other_hash(agreed, own, self._alike_position)

    # -- time ----------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int, snapshot: HeldSnapshot | None) -> None:
        """Tell the others, once a second. `snapshot`: the newest that a quorum holds alike."""
        if self._own:
            rows = self._reports.note_own(self._own, now_ns)
            if max(self._own) > self._told_position:
                self._contacts.broadcast(ordo_codecs.STATE_HASH_REPORT.encode(member_id=self._own_id, hashes=rows))
        configuration = self._core.configuration
        found = self._reports.find_quorums(configuration.voter_ids, configuration.quorum_threshold)
        for agreed in found:
            self._compare(agreed)
        self._doubt.tell_dissent(self._reports.find_dissent(configuration.voter_ids, configuration.quorum_threshold))
        self._note_differing(found)
        if self._host.is_leader:
            self._append_due(found[-1] if found else None)
            self._help(snapshot, now_ns)

    def _append_due(self, newest: HeldSnapshot | None) -> None:
        """Ask all services for the hash of their state, and write what was agreed about an earlier one.

        For the leader only.
        """
        is_due = 0 < self._every_bytes <= self._sequencer.append_position - self._events[-1]
        if not is_due or self._levels.newest < STATE_HASH_LEVEL or not self._versions.gives_hashes:
            return
        is_new = newest is not None and newest.log_position > self._told_position
        told = newest if newest is not None and is_new else HeldSnapshot(NULL_VALUE, b"")
        self._host.append(
            ordo_codecs.STATE_HASH_EVENT.encode(
                leadership_term_id=self._host.leadership_term_id,
                timestamp=self._host.cluster_time,
                agreed_position=told.log_position,
                member_id=self._own_id,
                agreed_digest=told.digest,
            )
        )

    def _note_differing(self, found: list[HeldSnapshot]) -> None:
        """Note the members that differ from `found`, which quorums had.

        A member that differs stands still, and has nothing of later positions; after some of them nobody reports where
        it differed any more.
        """
        members = self._core.configuration.member_ids
        for agreed in found:
            if any(self._reports.find_difference(agreed, one) is not None for one in members):
                self._differing_position = max(self._differing_position, agreed.log_position)

    def _help(self, snapshot: HeldSnapshot | None, now_ns: int) -> None:
        """Take a snapshot, as the leader, for a member with another state.

        It needs a quorum's from after the difference.
        """
        if self._differing_position > (snapshot.log_position if snapshot else 0):
            self._needed_snapshot.order(self._differing_position, now_ns)
