"""The services of one member as its consensus module sees them: one to ten, each in a container of its own.

Each service executes the committed log by itself and may be behind or ahead of the others. What they ask for is kept
apart by service id (timers, messages into the log), what they report is put together where it concerns the member as a
whole:

    hashes     the hash of its state is that of its services' hashes, where all give one
    states     a state that is kept as evidence is kept of all services
    ready      log may be deleted once all services have loaded their snapshots

Service 0 alone answers requests and queries, publishes feeds and knows the durable consumers (docs/SERVICES.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ordo.cluster.module.services.service_link import ServiceLink
from ordo.cluster.module.sessions.service_messages import ServiceMessages
from ordo.cluster.module.sessions.sessions import Leadership
from ordo.cluster.module.sessions.timers import ClusterTimers
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.sessions.ingress_notice import encode_failure
from ordo.cluster.wire.snapshots.snapshot_digest import combine
from ordo.cluster.wire.streams import MAIN_SERVICE_ID
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.sequencer.hosts import ServiceHost

if TYPE_CHECKING:
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
    from ordo.cluster.module.state.termination import Termination
    from ordo.cluster.module.upkeep.upkeep import Upkeep
    from ordo.cluster.wire import records
    from ordo.runtime.native.clock import Clock
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient

HASHES_KEPT = 8
"""So many positions at which not all services have given a hash yet are remembered."""


class ServicesHost(Leadership, Protocol):
    """The member whose services they are."""

    sessions: OpenSessions
    snapshots: SnapshotTaker
    termination: Termination
    upkeep: Upkeep

    @property
    def is_leader(self) -> bool: ...
    @property
    def cluster_time(self) -> int: ...
    def answer_question(self, table: Message, values: Any) -> bytes | None:
        """Return the answer to a tool's question, or None."""


class Services(ServiceHost):
    """The services' links, timers and messages; it handles what they say, by service id."""

    def __init__(self, host: ServicesHost, clock: Clock, count: int) -> None:
        self._host = host
        self._clock = clock
        self._count = count
        self._links: list[ServiceLink] = []
        self._ready: set[int] = set()
        self._hashes: dict[int, dict[int, bytes]] = {}
        self._kept: dict[int, tuple[int, int]] = {}
        self.timers = ClusterTimers(count)
        self.messages = ServiceMessages(count)

    def open(self, client: TransportClient, sequencer: Sequencer, cluster_id: int) -> None:
        """Listen to the services, and to tools on the stream of service 0."""
        self._links = [ServiceLink(client, sequencer, self, cluster_id, one) for one in range(self._count)]

    # -- to the services -----------------------------------------------------------------------------------------------

    def order(self, order: bytes) -> bool:
        """Send a RecordOrder to all services. Return False when it cannot be sent now."""
        for link in self._links:
            link.send(order)
        return bool(self._links)

    def terminate(self, log_position: int) -> bool:
        """Tell all services to end at a position. Return False when they cannot be told now."""
        for link in self._links:
            link.terminate(log_position)
        return bool(self._links)

    def answer(self, message: bytes | None) -> None:
        """Send to a tool of this machine."""
        if self._links:
            self._links[MAIN_SERVICE_ID].answer(message)

    def work(self) -> None:
        """Take what the services have sent; called with every slow tick."""
        for link in self._links:
            link.flush()

    # -- the leader ----------------------------------------------------------------------------------------------------

    def fire_timers(self) -> None:
        """Append a TimerEvent for each timer that is due; for the leader only."""
        host, now = self._host, self._host.cluster_time
        self.timers.fire_due(
            now,
            lambda correlation_id: host.append(
                codecs.TIMER_EVENT.encode(
                    leadership_term_id=host.leadership_term_id, correlation_id=correlation_id, timestamp=now
                )
            ),
        )

    def append_messages(self) -> None:
        """Append what the services have sent; for the leader only."""
        host = self._host

        def append(session_id: int, payload: bytes) -> bool:
            header = codecs.SESSION_MESSAGE_HEADER.encode(
                leadership_term_id=host.leadership_term_id, cluster_session_id=session_id, timestamp=host.cluster_time
            )
            return host.append(header + payload)

        self.messages.append_pending(append)

    def lose_leadership(self) -> None:
        self.timers.lose_leadership()
        self.messages.lose_leadership()

    # -- from the services ---------------------------------------------------------------------------------------------

    def on_service(self, service_id: int, message: bytes) -> None:
        self._links[service_id].on_message(message)

    def on_schedule_timer(self, service_id: int, correlation_id: int, deadline: int) -> None:
        self.timers[service_id].schedule(correlation_id, deadline)

    def on_cancel_timer(self, service_id: int, correlation_id: int) -> None:
        self.timers[service_id].cancel(correlation_id)

    def on_timer_executed(self, service_id: int, correlation_id: int, timestamp: int) -> None:
        self.timers[service_id].on_service_executed(correlation_id, timestamp)

    def on_close_session(self, service_id: int, session_id: int, detail: str = "") -> None:
        if self._host.is_leader:
            self._host.sessions.close(session_id, codecs.CloseReason.SERVICE_ACTION, detail)

    def on_service_message(self, service_id: int, payload: bytes) -> None:
        self.messages[service_id].enqueue(payload)
        if self._host.is_leader:
            self.append_messages()

    def on_service_ack(self, service_id: int, log_position: int, timestamp: int, relevant_id: int) -> None:
        host = self._host
        if relevant_id != NULL_VALUE:  # that of a service that could not start
            self._ready.add(service_id)
            if len(self._ready) == self._count:
                host.upkeep.retention.note_service_ready()
        if not host.termination.on_service_ack(service_id, log_position):
            host.snapshots.on_service_ack(service_id, log_position, timestamp, relevant_id)

    def on_snapshot_begun(self, service_id: int, log_position: int, session_id: int) -> None:
        self._host.snapshots.on_service_begun(service_id, log_position, session_id)

    def on_snapshot_digest(self, service_id: int, log_position: int, digest: bytes) -> None:
        self._host.snapshots.on_service_digest(service_id, log_position, digest)

    def answer_question(self, table: Message, values: Any) -> bytes | None:
        return self._host.answer_question(table, values)

    # -- what services report of themselves ----------------------------------------------------------------------------

    def on_service_report(self, service_id: int, table: Message, values: Any) -> None:
        """Take one of SERVICE_REPORTS. Raises DecodeError."""
        upkeep = self._host.upkeep
        if table is ordo_codecs.STATE_HASH:
            self._note_hash(service_id, values)
        elif table is ordo_codecs.STATE_KEPT:
            self._note_kept(service_id, values)
        elif table is ordo_codecs.SNAPSHOT_FAILURE:
            text = values.text.decode("utf-8", "replace")
            self._host.snapshots.on_service_failure(service_id, values.log_position, text)
        elif table is ordo_codecs.CONSUMERS_HOLD and service_id != MAIN_SERVICE_ID:
            return  # each container has the same table
        else:
            if table is ordo_codecs.SERVICE_FAILURE and not values.is_held:
                self._tell_clients(values)  # first: the member may end with its service
            upkeep.on_service_report(service_id, table, values, self._clock.now())
            if table is ordo_codecs.SERVICE_LACK:
                self._host.snapshots.on_service_stands(service_id, values.log_position)

    def _tell_clients(self, failure: records.ServiceFailure) -> None:
        """Tell clients, as their leader, why their messages are not answered from now on."""
        if not self._host.is_leader:
            return
        text = encode_failure(failure.log_position, failure.error.decode("ascii", "replace"))
        for session in list(self._host.sessions):
            self._host.sessions.notify_now(self._host, session, text)

    def _note_hash(self, service_id: int, values: records.StateHash) -> None:
        found = self._hashes.setdefault(values.log_position, {})
        found[service_id] = values.digest
        if len(found) == self._count:
            del self._hashes[values.log_position]
            digest = values.digest if self._count == 1 else combine(*(found[one] for one in sorted(found)))
            self._report(ordo_codecs.STATE_HASH, values._replace(digest=digest))
        elif len(self._hashes) > HASHES_KEPT:
            del self._hashes[min(self._hashes)]

    def _note_kept(self, service_id: int, values: records.StateKept) -> None:
        self._kept[service_id] = values.log_position, values.recording_id
        if len(self._kept) == self._count:
            (position, _), kept = self._kept[MAIN_SERVICE_ID], self._kept
            self._host.upkeep.doubt.on_state_kept(position, *(kept[one][1] for one in sorted(kept)))
            self._kept = {}

    def _report(self, table: Message, values: Any) -> None:
        self._host.upkeep.on_service_report(MAIN_SERVICE_ID, table, values, self._clock.now())
