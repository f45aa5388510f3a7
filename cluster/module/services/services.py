"""The services of one member as its consensus module sees them: one to ten, each in its own container.

Each service executes the committed log by itself and may be behind or ahead of the others. What they ask for is kept
apart by service id (timers, messages into the log); what they report, ordo.cluster.module.services.service_reports
takes.

Service 0 alone answers requests and queries, publishes feeds and knows the durable consumers (docs/SERVICES.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.services.service_link import ServiceLink
from ordo.cluster.module.sessions.service_messages import ServiceMessages
from ordo.cluster.module.sessions.timers import ClusterTimers
from ordo.cluster.wire import codecs
from ordo.cluster.wire.streams import MAIN_SERVICE_ID
from ordo.sequencer.hosts import ServiceHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.services.service_link import ServiceReporter
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.state.host import AppendingHost
    from ordo.runtime.native.cluster_time import TimeUnit
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient


class Services(ServiceHost):
    """The links, timers and messages of the services; handles their messages by service id."""

    def __init__(
        self, host: AppendingHost, sessions: OpenSessions, count: int, set_alarm: Callable[[int | None], None]
    ) -> None:
        """Take the member's parts; `set_alarm` takes the time of a leader's next timer, or None."""
        self._host = host
        self.set_alarm = set_alarm
        self._sessions = sessions
        self._count = count
        self._links: list[ServiceLink] = []
        self.timers = ClusterTimers(count)
        self.messages = ServiceMessages(count)

    def open(self, client: TransportClient, sequencer: Sequencer, cluster_id: int, reporter: ServiceReporter) -> None:
        """Listen to the services, and to tools on the stream of service 0. `reporter` handles their reports."""
        self._links = [ServiceLink(client, sequencer, self, reporter, cluster_id, one) for one in range(self._count)]

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
        """Handle the messages that the services have sent; called with every slow tick."""
        for link in self._links:
            link.flush()

    # -- the leader ----------------------------------------------------------------------------------------------------

    def fire_timers(self) -> None:
        """Append a TimerEvent for each timer that is due; for the leader only."""
        host, now = self._host, self._host.cluster_time
        is_done = self.timers.fire_due(
            now,
            lambda correlation_id: host.append(
                codecs.TIMER_EVENT.encode(
                    leadership_term_id=host.leadership_term_id, correlation_id=correlation_id, timestamp=now
                )
            ),
        )
        # One that found no room in the log is fired by a later slow tick.
        self.set_alarm(self.timers.next_deadline if is_done else None)

    def append_messages(self) -> None:
        """Append the service messages to the log; for the leader only."""
        host = self._host

        def append(session_id: int, payload: bytes) -> bool:
            header = codecs.SESSION_MESSAGE_HEADER.encode(
                leadership_term_id=host.leadership_term_id, cluster_session_id=session_id, timestamp=host.cluster_time
            )
            return host.append(header + payload)

        self.messages.append_pending(append)

    def lose_leadership(self) -> None:
        self.timers.lose_leadership()
        self.set_alarm(None)
        self.messages.lose_leadership()

    # -- from the services ---------------------------------------------------------------------------------------------

    def on_service(self, service_id: int, message: bytes) -> None:
        self._links[service_id].on_message(message)

    def on_schedule_timer(self, service_id: int, correlation_id: int, deadline: int) -> None:
        self.timers[service_id].schedule(correlation_id, deadline)
        self._reset_alarm()

    def on_unit(self, service_id: int, unit: TimeUnit) -> None:
        """Note that the deadlines of a service's timers are in this unit from now on."""
        self.timers[service_id].on_unit(unit)
        self._reset_alarm()

    def on_cancel_timer(self, service_id: int, correlation_id: int) -> None:
        self.timers[service_id].cancel(correlation_id)

    def on_timer_executed(self, service_id: int, correlation_id: int, timestamp: int) -> None:
        self.timers[service_id].on_service_executed(correlation_id, timestamp)
        self._reset_alarm()

    def _reset_alarm(self) -> None:
        if self._host.is_leader:
            self.set_alarm(self.timers.next_deadline)

    def on_close_session(self, service_id: int, session_id: int, detail: str = "") -> None:
        if self._host.is_leader:
            self._sessions.close(session_id, codecs.CloseReason.SERVICE_ACTION, detail)

    def on_service_message(self, service_id: int, payload: bytes) -> None:
        self.messages[service_id].enqueue(payload)
        if self._host.is_leader:
            self.append_messages()
