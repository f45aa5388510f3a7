"""The cluster as a service sees it: `ordo.service_api.service.Cluster` over a container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.runtime.errors import ServiceError
from ordo.runtime.payloads import to_bytes
from ordo.service_api.service import ClientSession, Payload, Role, TimeUnit
from ordo.service_api.timers import ServiceTimers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.feeds import ContainerFeeds
    from ordo.cluster.container.streams.loop import ContainerSession


class ClusterHost(Protocol):
    """The container that runs the service."""

    @property
    def is_leading(self) -> bool: ...
    @property
    def answers(self) -> bool:
        """Whether it is the service that answers for all: service 0."""

    @property
    def log_position(self) -> int: ...
    @property
    def time(self) -> int: ...
    @property
    def sessions(self) -> Mapping[int, ContainerSession]: ...
    @property
    def control(self) -> ContainerControl: ...
    @property
    def feeds(self) -> ContainerFeeds: ...
    def check_allowed(self, call: str) -> None:
        """Raise ServiceCallError unless a callback is running that may call the cluster."""

    def on_control_sent(self) -> None:
        """Note that something was sent to the consensus module."""

    def idle(self) -> None:
        """Run the transport while a callback waits."""


class ContainerCluster:
    """The cluster that a service sees. Every request to the consensus module passes one guard, `check_allowed`."""

    def __init__(self, container: ClusterHost, member_id: int) -> None:
        self._container = container
        self._offers = 0
        self.member_id = member_id
        self.time_unit: TimeUnit | None = None
        self.timers = ServiceTimers()

    @property
    def role(self) -> Role:
        return Role.LEADER if self._container.is_leading else Role.FOLLOWER

    @property
    def log_position(self) -> int:
        return self._container.log_position

    @property
    def time(self) -> int:
        return self._container.time

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        sessions = self._container.sessions
        return [sessions[session_id] for session_id in sorted(sessions)]

    def get_client_session(self, session_id: int) -> ClientSession | None:
        return self._container.sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        self._container.check_allowed("close_client_session")
        session = self._container.sessions.get(session_id)
        if session is None:
            raise ServiceError(f"unknown session: session_id={session_id}; only open sessions can be closed")
        if not session.is_closing:
            session.is_closing = True
            self._send(codecs.CLOSE_SESSION.encode(cluster_session_id=session_id))
        return True

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self._container.check_allowed("schedule_timer")
        self.timers.schedule(correlation_id, deadline)
        self._send(codecs.SCHEDULE_TIMER.encode(correlation_id=correlation_id, deadline=deadline))
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        self._container.check_allowed("cancel_timer")
        self.timers.cancel(correlation_id)
        self._send(codecs.CANCEL_TIMER.encode(correlation_id=correlation_id))
        return True

    def fire_timer(self, correlation_id: int, timestamp: int) -> bool:
        """Return whether a TimerEvent of the log is for the service. The consensus module applies the same rule."""
        self._send(ordo_codecs.TIMER_EXECUTED.encode(correlation_id=correlation_id, timestamp=timestamp))
        return self.timers.fire(correlation_id, timestamp)

    def offer(self, payload: Payload) -> int:
        self._container.check_allowed("offer")
        message = to_bytes(payload, "what cluster.offer is given")
        control = self._container.control
        if len(message) > control.service_message_bytes_max:
            raise ServiceError(
                f"service message of {len(message)} bytes; at most {control.service_message_bytes_max} are allowed"
            )
        control.send_service_message(message)
        self._container.on_control_sent()
        self._offers += 1
        return self._offers

    def publish(self, topic: str, payload: Payload) -> int:
        if not self._container.answers:
            raise ServiceError(f"topic {topic!r}: service 0 alone publishes feeds; send it a message (Cluster.offer)")
        return self._container.feeds.publish(topic, payload)

    def idle(self) -> None:
        self._container.idle()

    def _send(self, message: bytes) -> None:
        self._container.control.send(message)
        self._container.on_control_sent()
