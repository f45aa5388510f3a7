"""What the log says of sessions: they open, name who makes requests in them, mark their messages, and close."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, REFUSALS_LEVEL, REQUEST_ID_LEVEL, SEQUENCE_LEVEL
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.service_api.service import CloseReason

if TYPE_CHECKING:
    from ordo.cluster.container.execution import ServiceExecution
    from ordo.cluster.container.role import ContainerRole
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.cluster.container.tables.consumers import ContainerConsumers
    from ordo.cluster.container.tables.message_numbers import MessageNumbers
    from ordo.cluster.wire import records


class LogSessions:
    """Executes the log's records of sessions."""

    length_bytes_max = 0
    """The longest request that the log takes."""

    def __init__(
        self,
        loop: ContainerLoop,
        execution: ServiceExecution,
        role: ContainerRole,
        numbers: MessageNumbers,
        consumers: ContainerConsumers,
    ) -> None:
        self._loop = loop
        self._execution = execution
        self._role = role
        self._numbers = numbers
        self._consumers = consumers

    def on_open(self, event: records.SessionOpenEvent, position: int) -> None:
        session = self._loop.add_session(
            event.cluster_session_id, event.response_stream_id, event.response_channel, event.encoded_principal
        )
        self._role.connect(session, partial(self._execution.invoke, "on_session_open", True, session, event.timestamp))

    def on_close(self, event: records.SessionCloseEvent, position: int) -> None:
        session = self._loop.remove_session(event.cluster_session_id)
        if session is None:
            self.on_unknown(event.cluster_session_id)
            return
        self._numbers.close(session)
        self._consumers.close(session.id, position)
        self._role.disconnect(session)
        reason = CloseReason(event.close_reason)
        self._execution.invoke("on_session_close", True, session, event.timestamp, reason)

    def on_unknown(self, session_id: int) -> None:
        """Record that the log has something of a session that is not open."""
        error = ClusterError(f"log: record of a session that is not open: session_id={session_id}")
        self._execution.record_error(error)

    def on_identity(self, event: records.OpenIdentity, position: int) -> None:
        loop = self._loop
        session = loop.sessions.get(event.cluster_session_id)
        if session is None:
            return
        status, identity = loop.requests.open(
            ordo_codecs.join_identity(event),
            session.encoded_principal,
            event.incarnation,
            event.known_position,
            position,
            event.timestamp,
        )
        answer = ordo_codecs.IDENTITY_OPENED.encode(
            leadership_term_id=loop.leadership_term_id,
            cluster_session_id=session.id,
            timestamp=event.timestamp,
            incarnation=event.incarnation,
            open_position=identity.open_position if identity is not None else NULL_POSITION,
            number=identity.number if identity is not None else 0,
            confirmed=identity.confirmed if identity is not None else 0,
            status=status,
            length_bytes_max=self.length_bytes_max,
            takes_ids=loop.requests.ids.is_in_force,
            takes_output_ids=loop.requests.ids.takes_outputs,
        )
        session.send_event(answer)  # where it is lost, the client asks again

    def on_level(self, event: records.LevelEvent, position: int) -> None:
        """Do what a protocol level brings, from here on: ids of requests and outputs, messages' numbers, refusals."""
        ids = self._loop.requests.ids
        if event.level >= REQUEST_ID_LEVEL:
            ids.is_in_force = True
        if event.level >= OUTPUT_ID_LEVEL:
            ids.takes_outputs = True
        if event.level >= SEQUENCE_LEVEL:
            self._loop.sequence.keep(position)
            self._loop.note_place_next()
        if event.level >= REFUSALS_LEVEL:
            self._consumers.table.counts_refusals = True

    def on_mark(self, mark: records.MessageMark, position: int) -> None:
        session = self._loop.sessions.get(mark.cluster_session_id)
        if session is not None and mark.number > 0:
            answer = ordo_codecs.MESSAGES_MARKED.encode(
                leadership_term_id=self._loop.leadership_term_id,
                cluster_session_id=session.id,
                timestamp=mark.timestamp,
                log_position=position,
                **self._numbers.mark(session, mark),
            )
            session.send_event(answer)  # where it is lost, the client marks again
