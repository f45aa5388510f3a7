"""The service's side of the control streams to its consensus module (cluster-consensus.md §12)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.streams import CONTROL_CHANNEL, TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, service_stream
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.runtime.native.cluster_time import TimeUnit
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.publication import ExclusivePublication
    from ordo.transport.streams.subscription import Subscription

HOLD_CONTROL = 1
"""Something waits for the control stream."""
POLL_LIMIT = 10
TEXT_BYTES_MAX = 300


def _cut(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]


class ControlHandler(Protocol):
    """The requests that the consensus module makes of its services."""

    def on_termination_position(self, log_position: int, ack_required: bool) -> None: ...

    def on_request_ack(self, log_position: int) -> None: ...

    def on_record_order(self, log_position: int, order: int, text: bytes) -> None:
        """Receive the decision about a record that the service failed at, or is not to execute."""


class ContainerControl:
    """The control streams of a container.

    It sends in order and never loses a message: what cannot be sent at once waits.

    The container executes no further record while something waits, so what waits is what one callback asked for.
    """

    is_open = False
    _publication: ExclusivePublication
    _subscription: Subscription
    _handler: ControlHandler

    def __init__(self, loop: ContainerLoop, service_id: int) -> None:
        """Take the `loop` that is held back while something waits."""
        self._loop = loop
        self._service_id = service_id
        self._next_ack_id = 0
        self._waiting: deque[bytes] = deque()

    def open(self, client: TransportClient, cluster_id: int) -> None:
        """Add the streams; nothing is sent or polled before."""
        self._publication = client.add_exclusive_publication(
            CONTROL_CHANNEL, service_stream(TO_MODULE_STREAM_ID, cluster_id, self._service_id)
        )
        self._subscription = client.add_subscription(
            CONTROL_CHANNEL, service_stream(TO_SERVICE_STREAM_ID, cluster_id, self._service_id)
        )
        self.is_open = True

    @property
    def blocked(self) -> bool:
        return bool(self._waiting)

    def send(self, message: bytes) -> None:
        """Send a message, or have it wait, and the loop with it."""
        if self._waiting or self._publication.offer(message) <= 0:
            self._waiting.append(message)
            self._loop.hold |= HOLD_CONTROL
            self._loop.ask_for_tick()
        self._loop.note_written()

    def release(self) -> None:
        """Let the loop go on when nothing waits any more."""
        if not self._waiting:
            self._loop.hold &= ~HOLD_CONTROL

    def flush(self) -> int:
        """Send what waits as far as there is room, and return the number of messages."""
        count = 0
        while self._waiting and self._publication.offer(self._waiting[0]) > 0:
            self._waiting.popleft()
            count += 1
        return count

    def send_time_unit(self, unit: TimeUnit) -> None:
        """Say in which unit the deadlines of timers are from here on."""
        self.send(ordo_codecs.SERVICE_TIME.encode(service_id=self._service_id, time_unit=unit))

    def send_ack(self, log_position: int, timestamp: int, relevant_id: int = NULL_VALUE) -> None:
        """Send an ack; acks are numbered from 0 over the life of the service."""
        self.send(
            codecs.SERVICE_ACK.encode(
                log_position=log_position,
                timestamp=timestamp,
                ack_id=self._next_ack_id,
                relevant_id=relevant_id,
                service_id=self._service_id,
            )
        )
        self._next_ack_id += 1

    def send_snapshot_begun(self, log_position: int, session_id: int) -> None:
        """Report that the service goes on while its snapshot of this position is written, in this session."""
        self.send(
            ordo_codecs.SNAPSHOT_BEGUN.encode(
                log_position=log_position, service_id=self._service_id, session_id=session_id
            )
        )

    def send_snapshot_digest(self, log_position: int, digest: bytes) -> None:
        """Send the digest of the snapshot that the next ack refers to."""
        self.send(
            ordo_codecs.SNAPSHOT_DIGEST.encode(log_position=log_position, service_id=self._service_id, digest=digest)
        )

    def send_snapshot_failure(self, log_position: int, text: str) -> None:
        """Say why the next ack has no part of the snapshot of this position."""
        self.send(
            ordo_codecs.SNAPSHOT_FAILURE.encode(log_position=log_position, service_id=self._service_id, text=_cut(text))
        )

    def send_state_hash(self, log_position: int, digest: bytes) -> None:
        """Send the hash of the service's state at a StateHashEvent."""
        self.send(ordo_codecs.STATE_HASH.encode(log_position=log_position, service_id=self._service_id, digest=digest))

    def send_state_kept(self, log_position: int, recording_id: int) -> None:
        """Report the recording of the state at which the service is halted; NULL_VALUE for none."""
        self.send(
            ordo_codecs.STATE_KEPT.encode(
                log_position=log_position, recording_id=recording_id, service_id=self._service_id
            )
        )

    def send_failure(self, log_position: int, error: str, text: str, *, is_held: bool) -> None:
        """Report that the service has stopped at a record."""
        self.send(
            ordo_codecs.SERVICE_FAILURE.encode(
                log_position=log_position, is_held=int(is_held), error=_cut(error), text=_cut(text)
            )
        )

    def send_service_message(self, payload: bytes) -> None:
        header = codecs.SESSION_MESSAGE_HEADER.encode(
            leadership_term_id=NULL_VALUE, cluster_session_id=self._service_id, timestamp=0
        )
        self.send(header + payload)

    @property
    def service_message_bytes_max(self) -> int:
        """The longest payload of `send_service_message`."""
        return int(self._publication.max_message_length) - codecs.SESSION_HEADER_LENGTH_BYTES

    def poll(self, handler: ControlHandler) -> int:
        """Handle the messages of the consensus module, and return their number."""
        self._handler = handler
        return int(self._subscription.poll_messages(self._on_message, POLL_LIMIT))

    def _on_message(self, message: bytes, _header: object) -> None:
        found = ordo_codecs.decode_any(message)
        if found is None:
            return
        table, values = found
        if table is codecs.SERVICE_TERMINATION_POSITION:
            self._handler.on_termination_position(values.log_position, values.ack_required == 1)
        elif table is codecs.REQUEST_SERVICE_ACK:
            self._handler.on_request_ack(values.log_position)
        elif table is ordo_codecs.RECORD_ORDER:
            self._handler.on_record_order(values.log_position, values.order, values.text)

    def close(self) -> None:
        self._publication.close()
        self._subscription.close()
