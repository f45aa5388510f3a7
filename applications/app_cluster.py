"""The cluster as an application's service sees it: a function of the log that was read, and a place for outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ordo.applications.outputs import NULL_SESSION_ID, Output
from ordo.runtime.errors import ServiceCallError, ServiceError
from ordo.runtime.payloads import to_bytes
from ordo.service_api.native import SinkSession
from ordo.service_api.request_ids import check_request_id, digest_request_id
from ordo.service_api.service import NULL_MEMBER_ID, NULL_TERM_ID, ClientSession, OfferResult, Payload, Role, TimeUnit
from ordo.service_api.timers import ServiceTimers


class AppSession(SinkSession):
    """A client's session. What is offered to it is an output that names it as its target."""

    def __init__(
        self,
        session_id: int,
        response_stream_id: int,
        response_channel: str,
        encoded_principal: bytes,
        send: Callable[[AppSession, Payload], int],
    ) -> None:
        super().__init__(session_id, send)
        self.response_stream_id = response_stream_id
        self.response_channel = response_channel
        self.encoded_principal = encoded_principal
        self.is_closing = False
        self._send = send

    def offer(self, payload: Payload) -> int:
        """See ordo.service_api.service.ClientSession."""
        return self._send(self, payload)

    def reply(self, payload: Payload) -> None:
        """See ordo.service_api.service.ClientSession: an output like any other."""
        self._send(self, payload)

    def close(self) -> None:
        """Raise ServiceCallError: sessions belong to the cluster."""
        raise ServiceCallError("session.close: an application cannot close a client's session")


class AppCluster:
    """Sessions, timers, time and outputs of one instance. It is a `ordo.service_api.service.Cluster`."""

    member_id = NULL_MEMBER_ID
    role = Role.LEADER

    def __init__(self) -> None:
        self.log_position = 0
        self.time = 0
        self.leadership_term_id = NULL_TERM_ID
        self.time_unit: TimeUnit | None = None
        self.sessions: dict[int, AppSession] = {}
        self.timers = ServiceTimers()
        self.pending: deque[Output] = deque()
        """Outputs that may not have been executed yet, in order."""
        self.outputs_made = 0
        self._callback = "on_start"
        self._may_call = False
        self._output_index = 0

    # For the executor

    def begin_record(self, position: int, time: int, leadership_term_id: int) -> None:
        """Begin a record; the service's next calls answer it."""
        self.log_position, self.time, self.leadership_term_id = position, time, leadership_term_id
        self._output_index = 0

    def begin_call(self, callback: str, *, may_call: bool) -> None:
        self._callback, self._may_call = callback, may_call

    def end_call(self) -> None:
        self._may_call = False

    def add_session(self, session_id: int, stream_id: int, channel: str, principal: bytes) -> AppSession:
        session = self.sessions[session_id] = AppSession(session_id, stream_id, channel, principal, self._answer)
        return session

    def get_pending(self, number: int) -> Output | None:
        """Return an output that may not have been executed yet, or None."""
        index = number - self.pending[0].number if self.pending else -1
        return self.pending[index] if 0 <= index < len(self.pending) else None

    def withdraw(self, made_before: int) -> None:
        """Take back the outputs since then: their record was refused."""
        while self.outputs_made > made_before:
            self.pending.pop()
            self.outputs_made -= 1

    # Cluster

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        return [self.sessions[session_id] for session_id in sorted(self.sessions)]

    def get_client_session(self, session_id: int) -> ClientSession | None:
        """Return the open session of that id, or None."""
        return self.sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        """Raise ServiceError for an unknown id, ServiceCallError for any other: sessions belong to the cluster."""
        if session_id not in self.sessions:
            raise ServiceError(f"unknown session: session_id={session_id}")
        raise ServiceCallError("close_client_session: an application cannot close a client's session")

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Schedule a timer. It fires before the first record of the log whose time is at or after the deadline."""
        self._check_allowed("schedule_timer")
        self.timers.schedule(correlation_id, deadline)
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        """Drop the timer, if there is one of that id."""
        self._check_allowed("cancel_timer")
        self.timers.cancel(correlation_id)
        return True

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        """Write an output to the log, from where it comes back to the service with `session` None; return its number.

        With an id of the application's choice, 1 to 64 bytes, it is executed, and comes back, only if nothing was
        executed for that id before. Raises ConfigurationError for an id that is not allowed.
        """
        self._check_allowed("offer")
        digest = b"" if id is None else digest_request_id(check_request_id(id))
        return self._write(NULL_SESSION_ID, payload, digest)

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Raise ServiceCallError: feeds belong to the cluster's own service."""
        raise ServiceCallError("publish: an application cannot publish to feeds; its outputs go into the log")

    def idle(self) -> None:
        """Every output is taken at once, so there is nothing to wait for."""

    def _answer(self, session: AppSession, payload: Payload) -> int:
        self._check_allowed("session.offer")
        if session.id not in self.sessions:
            return OfferResult.CLOSED
        return self._write(session.id, payload)

    def _write(self, target_session_id: int, payload: Payload, id_digest: bytes = b"") -> int:
        data = to_bytes(payload, "an output")
        self.outputs_made += 1
        output = Output(self.outputs_made, self.log_position, self._output_index, target_session_id, data, id_digest)
        self._output_index += 1
        self.pending.append(output)
        return self.outputs_made

    def _check_allowed(self, call: str) -> None:
        if not self._may_call:
            raise ServiceCallError(f"{call} is not allowed from {self._callback}; see ordo.service_api.service")
