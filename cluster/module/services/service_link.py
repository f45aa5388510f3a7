"""The control streams between a consensus module and one service container (cluster-consensus.md §12).

Tools of this machine that ask about the members use the same two streams.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.streams import CONTROL_CHANNEL, TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, service_stream
from ordo.runtime.errors import ClusterError

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.runtime.sbe import Message
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient

SERVICE_REPORTS = (
    ordo_codecs.SERVICE_FAILURE,
    ordo_codecs.SERVICE_VERSIONS,
    ordo_codecs.SERVICE_LACK,
    ordo_codecs.SERVICE_SCHEMA,
    ordo_codecs.SERVICE_TIME,
    ordo_codecs.CONSUMERS_HOLD,
    ordo_codecs.FEED_OPEN,
    ordo_codecs.STATE_HASH,
    ordo_codecs.STATE_KEPT,
    ordo_codecs.SNAPSHOT_FAILURE,
)


class ServiceRequests(Protocol):
    """The requests that services make of their consensus module; each names the service that makes it."""

    def on_schedule_timer(self, service_id: int, correlation_id: int, deadline: int) -> None: ...

    def on_cancel_timer(self, service_id: int, correlation_id: int) -> None: ...

    def on_timer_executed(self, service_id: int, correlation_id: int, timestamp: int) -> None:
        """Note that the service has executed a TimerEvent of the log."""

    def on_close_session(self, service_id: int, session_id: int, detail: str = "") -> None:
        """Close a session. `detail` tells the client why, when it is not the service's own wish."""

    def on_service_message(self, service_id: int, payload: bytes) -> None: ...


class ServiceReporter(Protocol):
    """Takes what services report of themselves, and the questions of tools."""

    def on_service_ack(self, service_id: int, log_position: int, timestamp: int, relevant_id: int) -> None: ...

    def on_snapshot_begun(self, service_id: int, log_position: int, session_id: int) -> None:
        """Note that the service's state of this position is captured.

        The snapshot is written in this session meanwhile.
        """

    def on_snapshot_digest(self, service_id: int, log_position: int, digest: bytes) -> None:
        """Receive the digest of the snapshot that the next ack refers to."""

    def on_service_report(self, service_id: int, table: Message, values: object) -> None:
        """Handle one of SERVICE_REPORTS from the service's container."""

    def answer_question(self, table: Message, values: object) -> bytes | None:
        """Return the answer to a tool's question; None when it comes through `ServiceLink.answer`, or not at all."""


class ServiceLink:
    """The link to one service. Acks are numbered by the service; a gap or a repetition is an error."""

    def __init__(
        self,
        client: TransportClient,
        sequencer: Sequencer,
        requests: ServiceRequests,
        reporter: ServiceReporter,
        cluster_id: int = 0,
        service_id: int = 0,
    ) -> None:
        self._requests = requests
        self._reporter = reporter
        self._service_id = service_id
        self._unsent: deque[bytes] = deque()
        self._next_ack_id = 0
        self._publication = client.add_exclusive_publication(
            CONTROL_CHANNEL, service_stream(TO_SERVICE_STREAM_ID, cluster_id, service_id)
        )
        self._subscription = client.add_subscription(
            CONTROL_CHANNEL,
            service_stream(TO_MODULE_STREAM_ID, cluster_id, service_id),
            on_available_image=lambda image: sequencer.add_service_image(image, service_id),
            on_unavailable_image=sequencer.remove_service_image,
        )

    def on_message(self, message: bytes) -> None:
        found = ordo_codecs.decode_any(message)
        if found is None:
            return
        table, values = found
        if table is codecs.SESSION_MESSAGE_HEADER:
            self._requests.on_service_message(self._service_id, message[codecs.SESSION_HEADER_LENGTH_BYTES :])
        elif table is codecs.SCHEDULE_TIMER:
            self._requests.on_schedule_timer(self._service_id, values.correlation_id, values.deadline)
        elif table is codecs.CANCEL_TIMER:
            self._requests.on_cancel_timer(self._service_id, values.correlation_id)
        elif table is ordo_codecs.TIMER_EXECUTED:
            self._requests.on_timer_executed(self._service_id, values.correlation_id, values.timestamp)
        elif table is codecs.CLOSE_SESSION:
            self._requests.on_close_session(self._service_id, values.cluster_session_id)
        elif table is ordo_codecs.DISCONNECT_SESSION:
            self._requests.on_close_session(self._service_id, values.cluster_session_id, values.detail)
        elif table is codecs.SERVICE_ACK:
            self._on_ack(values)
        elif table is ordo_codecs.SNAPSHOT_BEGUN:
            self._reporter.on_snapshot_begun(self._service_id, values.log_position, values.session_id)
        elif table is ordo_codecs.SNAPSHOT_DIGEST:
            self._reporter.on_snapshot_digest(self._service_id, values.log_position, values.digest)
        elif table in SERVICE_REPORTS:
            self._reporter.on_service_report(self._service_id, table, values)
        else:
            self.answer(self._reporter.answer_question(table, values))

    def send(self, message: bytes) -> None:
        """Send to the service; what cannot be sent now is sent in order by `flush`."""
        self._unsent.append(message)
        self.flush()

    def flush(self) -> None:
        while self._unsent and self._publication.offer(self._unsent[0]) > 0:
            self._unsent.popleft()

    def answer(self, message: bytes | None) -> None:
        """Send to a tool. An answer that cannot be sent is dropped: the tool times out and asks again."""
        if message is not None:
            self._publication.offer(message)

    def _on_ack(self, ack: records.ServiceAck) -> None:
        if ack.ack_id != self._next_ack_id:
            raise ClusterError(f"service ack out of sequence: ack_id={ack.ack_id} expected={self._next_ack_id}")
        self._next_ack_id += 1
        self._reporter.on_service_ack(self._service_id, ack.log_position, ack.timestamp, ack.relevant_id)

    def terminate(self, log_position: int) -> None:
        """Tell the service to end once it has executed the log to `log_position`."""
        self.send(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=log_position, ack_required=1))

    def close(self) -> None:
        self._publication.close()
        self._subscription.close()
