"""The cluster as a service sees it: `ordo.service_api.service.Cluster` over a container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.runtime.errors import ServiceCallError, ServiceError
from ordo.runtime.payloads import to_bytes
from ordo.service_api.cluster import ID_OF_SERVICE
from ordo.service_api.service import ClientSession, Payload, Role, TimeUnit
from ordo.service_api.timers import ServiceTimers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.feeds import ContainerFeeds
    from ordo.cluster.container.streams.loop import ContainerLoop


class ContainerCluster:
    """The cluster that a service sees. Every request to the consensus module passes one guard, `check_allowed`."""

    def __init__(
        self,
        loop: ContainerLoop,
        control: ContainerControl,
        feeds: ContainerFeeds,
        member_id: int,
        idle: Callable[[], None],
    ) -> None:
        """Take `idle`, which runs the transport while a callback waits."""
        self._loop = loop
        self._control = control
        self._feeds = feeds
        self._idle = idle
        self._offers = 0
        self.member_id = member_id
        self.time_unit: TimeUnit | None = None
        self.timers = ServiceTimers()

    @property
    def role(self) -> Role:
        return Role.LEADER if self._loop.is_leading else Role.FOLLOWER

    @property
    def log_position(self) -> int:
        return self._loop.log_position

    @property
    def time(self) -> int:
        return self._loop.time

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        sessions = self._loop.sessions
        return [sessions[session_id] for session_id in sorted(sessions)]

    def get_client_session(self, session_id: int) -> ClientSession | None:
        return self._loop.sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        self._loop.check_allowed("close_client_session")
        session = self._loop.sessions.get(session_id)
        if session is None:
            raise ServiceError(f"unknown session: session_id={session_id}; only open sessions can be closed")
        if not session.is_closing:
            session.is_closing = True
            self._control.send(codecs.CLOSE_SESSION.encode(cluster_session_id=session_id))
        return True

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self._loop.check_allowed("schedule_timer")
        self.timers.schedule(correlation_id, deadline)
        self._control.send(codecs.SCHEDULE_TIMER.encode(correlation_id=correlation_id, deadline=deadline))
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        self._loop.check_allowed("cancel_timer")
        self.timers.cancel(correlation_id)
        self._control.send(codecs.CANCEL_TIMER.encode(correlation_id=correlation_id))
        return True

    def fire_timer(self, correlation_id: int, timestamp: int) -> bool:
        """Return whether a TimerEvent of the log is for the service. The consensus module applies the same rule."""
        self._control.send(ordo_codecs.TIMER_EXECUTED.encode(correlation_id=correlation_id, timestamp=timestamp))
        return self.timers.fire(correlation_id, timestamp)

    def take_time_unit(self, unit: TimeUnit) -> TimeUnit | None:
        """Go on in the unit of the log's time from this record on; return the former one, if it was another."""
        former, self.time_unit = self.time_unit, unit
        if former in (None, unit):
            return None
        self.timers.rescale(former, unit)
        self._control.send_time_unit(unit)
        return former

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        self._loop.check_allowed("offer")
        if id is not None:
            raise ServiceCallError(ID_OF_SERVICE)
        message = to_bytes(payload, "what cluster.offer is given")
        bytes_max = self._control.service_message_bytes_max
        if len(message) > bytes_max:
            raise ServiceError(f"service message of {len(message)} bytes; at most {bytes_max} are allowed")
        self._control.send_service_message(message)
        self._offers += 1
        return self._offers

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        if not self._loop.answers:
            raise ServiceError(f"topic {topic!r}: service 0 alone publishes feeds; send it a message (Cluster.offer)")
        return self._feeds.publish(topic, payload, *more)

    def idle(self) -> None:
        self._idle()
