"""Whether a container's member leads: its service is told, and its sessions have publications while it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.container.streams.egress import EgressPublications
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.service import Role

if TYPE_CHECKING:
    from ordo.cluster.container.execution import ServiceExecution
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop, ContainerSession
    from ordo.runtime.native.clock import Clock
    from ordo.transport.client.client import TransportClient

HOLD_EGRESS = 2
"""Egress publications are being added."""
EGRESS_TIMEOUT_NS = 1_000_000_000


class ContainerRole:
    """The role of one container, and the publications of its sessions.

    Nothing is executed while publications are added, for the service answers in the callback that comes next.
    """

    def __init__(
        self,
        loop: ContainerLoop,
        control: ContainerControl,
        execution: ServiceExecution,
        client: TransportClient,
        clock: Clock,
    ) -> None:
        self._loop = loop
        self._control = control
        self._execution = execution
        self._client = client
        self._clock = clock
        self._egress = EgressPublications(client, execution.record_error)
        self._deadline_ns = 0
        self._continuation: Callable[[], None] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether publications are being added."""
        return self._egress.pending > 0

    def change(self, is_leading: bool, then: Callable[[], None] = lambda: None) -> None:
        """Lead, or follow, from now on; `then` runs when the service has been told."""
        self._loop.set_leading(is_leading)
        sessions = list(self._loop.sessions.values())
        if is_leading:
            for session in sessions:
                session.is_closing = False
        else:
            self._egress.disconnect_all()
        role = Role.LEADER if is_leading else Role.FOLLOWER

        def announce() -> None:
            self._execution.invoke("on_role_change", False, role)
            then()

        self._connect(sessions if is_leading else [], announce)

    def connect(self, session: ContainerSession, then: Callable[[], None]) -> None:
        """Run `then` once a new session has its publication; at once where it is to have none."""
        self._connect([session] if self._loop.is_leading else [], then)

    def _connect(self, sessions: list[ContainerSession], then: Callable[[], None]) -> None:
        """Run `then` once the sessions have their publications; at once when none is missing."""
        self._egress.connect(sessions)
        if not self._egress.pending:
            then()
            return
        self._loop.hold |= HOLD_EGRESS
        self._continuation = then
        # The callbacks of this duty cycle may have taken longer than the timeout: look at the clock again.
        self._deadline_ns = self._clock.now() + EGRESS_TIMEOUT_NS
        self._client.wake_driver()
        self._loop.ask_for_tick()

    def work(self, now_ns: int) -> int:
        """Take up publications that were added, and return the count of things done."""
        if self._loop.hold & HOLD_EGRESS:
            return self._await_egress(now_ns)
        return self._egress.poll() if self._egress.pending else 0

    def _await_egress(self, now_ns: int) -> int:
        self._client.do_work(now_ns)
        work_count = self._egress.poll()
        if self._egress.pending and now_ns < self._deadline_ns:
            return work_count
        self._loop.hold &= ~HOLD_EGRESS
        then, self._continuation = self._continuation, None
        assert then is not None
        then()
        return work_count + 1

    def disconnect(self, session: ContainerSession) -> None:
        """Close the publication of a session, unless others use it too."""
        self._egress.disconnect(session)

    def close(self) -> None:
        self._egress.disconnect_all()

    # Clients

    def give_up(self, session_ids: list[int]) -> None:
        """Disconnect clients that take less than is kept for them, and have the module close their sessions."""
        loop = self._loop
        text = f"too slow: it left more than {loop.egress.session_bytes_max} bytes untaken (egress_buffer)"
        for session_id in session_ids:
            session = loop.sessions.get(session_id)
            if session is not None and loop.is_leading:
                self._egress.disconnect(session)
                self._control.send(ordo_codecs.DISCONNECT_SESSION.encode(cluster_session_id=session_id, detail=text))

    def reject(self, session: ContainerSession, text: str) -> None:
        """Tell a client that its message was rejected."""
        if self._loop.is_leading:
            session.send_event(self.encode_error(session.id, f"rejected at position {self._loop.log_position}: {text}"))

    def encode_error(self, session_id: int, text: str) -> bytes:
        """Return the event that tells a client of an error."""
        return codecs.SESSION_EVENT.encode(
            cluster_session_id=session_id,
            correlation_id=NULL_VALUE,
            leadership_term_id=self._loop.leadership_term_id,
            leader_member_id=self._execution.cluster.member_id,
            code=codecs.EventCode.ERROR,
            version=codecs.CLIENT_PROTOCOL_VERSION,
            detail=text.encode("ascii", "replace").decode(),
        )
