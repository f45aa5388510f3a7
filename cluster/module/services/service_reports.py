"""What the services of one member report of themselves: snapshots, failures, hashes, what their consumers hold.

hashes     the hash of the member's state is that of its services' hashes, where all give one
states     a state that is kept as evidence is kept of all services
ready      log may be deleted once all services have loaded their snapshots
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import combine
from ordo.cluster.wire.streams import MAIN_SERVICE_ID
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
    from ordo.cluster.module.state.termination import Termination
    from ordo.cluster.wire import records
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.sbe import Message

HASHES_KEPT = 8
"""So many positions at which not all services have given a hash yet are remembered."""

ReportHandler = Callable[[int, Any, int], None]
"""Takes the service that reports, the values of its message, and the time in ns."""


class ServiceReports:
    """Passes each report to its handler; combines reports that concern the member as a whole."""

    def __init__(
        self,
        clock: Clock,
        count: int,
        snapshots: SnapshotTaker,
        termination: Termination,
        handlers: Mapping[Message, ReportHandler],
        *,
        answer_question: Callable[[Message, Any], bytes | None],
        on_ready: Callable[[], None],
        on_state_kept: Callable[..., None],
    ) -> None:
        """Take the member's parts.

        `on_ready` is called once all services have loaded their state; `on_state_kept` takes the position and the
        recordings of a state that all of them have kept. `answer_question` answers tools, as `ServiceReporter` has it.
        """
        self._clock = clock
        self._count = count
        self._snapshots = snapshots
        self._termination = termination
        self._handlers = handlers
        self._answer_question = answer_question
        self._on_ready = on_ready
        self._on_state_kept = on_state_kept
        self._ready: set[int] = set()
        self._hashes: dict[int, dict[int, bytes]] = {}
        self._kept: dict[int, tuple[int, int]] = {}

    def answer_question(self, table: Message, values: Any) -> bytes | None:
        return self._answer_question(table, values)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def on_service_ack(self, service_id: int, log_position: int, timestamp: int, relevant_id: int) -> None:
        if relevant_id != NULL_VALUE:  # that of a service that could not start
            self._ready.add(service_id)
            if len(self._ready) == self._count:
                self._on_ready()
        if not self._termination.on_service_ack(service_id, log_position):
            self._snapshots.on_service_ack(service_id, log_position, timestamp, relevant_id)

    def on_snapshot_begun(self, service_id: int, log_position: int, session_id: int) -> None:
        self._snapshots.on_service_begun(service_id, log_position, session_id)

    def on_snapshot_digest(self, service_id: int, log_position: int, digest: bytes) -> None:
        self._snapshots.on_service_digest(service_id, log_position, digest)

    # -- everything else -----------------------------------------------------------------------------------------------

    def on_service_report(self, service_id: int, table: Message, values: Any) -> None:
        """Take one of SERVICE_REPORTS. Raises DecodeError."""
        if table is ordo_codecs.STATE_HASH:
            self._note_hash(service_id, values)
        elif table is ordo_codecs.STATE_KEPT:
            self._note_kept(service_id, values)
        elif table is ordo_codecs.SNAPSHOT_FAILURE:
            text = values.text.decode("utf-8", "replace")
            self._snapshots.on_service_failure(service_id, values.log_position, text)
        elif table is not ordo_codecs.CONSUMERS_HOLD or service_id == MAIN_SERVICE_ID:  # each container has that table
            self._handlers[table](service_id, values, self._clock.now())
            if table is ordo_codecs.SERVICE_LACK:
                self._snapshots.on_service_stands(service_id, values.log_position)

    def _note_hash(self, service_id: int, values: records.StateHash) -> None:
        found = self._hashes.setdefault(values.log_position, {})
        found[service_id] = values.digest
        if len(found) == self._count:
            del self._hashes[values.log_position]
            digest = values.digest if self._count == 1 else combine(*(found[one] for one in sorted(found)))
            of_member = values._replace(digest=digest)
            self._handlers[ordo_codecs.STATE_HASH](MAIN_SERVICE_ID, of_member, self._clock.now())
        elif len(self._hashes) > HASHES_KEPT:
            del self._hashes[min(self._hashes)]

    def _note_kept(self, service_id: int, values: records.StateKept) -> None:
        self._kept[service_id] = values.log_position, values.recording_id
        if len(self._kept) == self._count:
            (position, _), kept = self._kept[MAIN_SERVICE_ID], self._kept
            self._on_state_kept(position, *(kept[one][1] for one in sorted(kept)))
            self._kept = {}
