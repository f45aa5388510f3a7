"""A control session with an archive, from the client's side (archive.md A1.1): requests out, replies in, no waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.archive.channels import answering_channel
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol import codecs, own_codecs
from ordo.archive.protocol.codes import PROTOCOL_VERSION, ErrorCode, RecordingSignal, ResponseCode
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, DecodeError, OrdoError, UnknownRecordingError
from ordo.runtime.sbe import Message, decode_one_of
from ordo.transport.client.client import TransportClient
from ordo.transport.streams.image import Header
from ordo.transport.streams.publication import (
    RESULT_ADMIN_ACTION,
    RESULT_BACK_PRESSURED,
    ExclusivePublication,
    describe_result,
)
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

SIGNALS = frozenset(RecordingSignal)
ITEMS = (
    codecs.RECORDING_DESCRIPTOR,
    codecs.RECORDING_SUBSCRIPTION_DESCRIPTOR,
    *own_codecs.ANSWERS.values(),
)
"""Messages that answer a request, or a part of it, in place of a ControlResponse."""
KEEP_ALIVE_ID = -1
RESPONSES_PER_CYCLE_MAX = 64
QUEUED_ERRORS_MAX = 64
FORGOTTEN_MAX = 64
ARCHIVE_ID_VERSION = 0x010B00


class ClientState(Enum):
    """The state of a control session, seen from the client."""

    ADDING = "the driver is asked for publication and subscription"
    CONNECTING = "the archive's side of the request stream is waited for"
    AWAITING_RESPONSE = "the archive was asked for a session"
    AWAITING_ARCHIVE_ID = "the archive was asked who it is"
    CONNECTED = "requests are taken"
    CLOSED = "over"


class SignalEvent(NamedTuple):
    """What has happened to a recording. `correlation_id` is that of the request that began it. Position in bytes."""

    correlation_id: int
    recording_id: int
    subscription_id: int
    position: int
    signal: RecordingSignal


@dataclass
class Reply:
    """What an archive answers to one request. `is_done` with `error`, or with `relevant_id` and `items`."""

    correlation_id: int
    deadline_ns: int
    what: str
    item_count_max: int = 0
    """How many descriptors a listing asks for; it may end with fewer."""
    item: Message | None = None
    """What a listing lists, or the message that answers the request; None: a ControlResponse does."""
    is_done: bool = False
    relevant_id: int = 0
    error: OrdoError | None = None
    items: list[Any] = field(default_factory=list)

    def fail(self, error: OrdoError) -> None:
        self.error = error
        self.is_done = True


class ArchiveSession:
    """One client's session. `work` every duty cycle; `request` once `is_connected`.

    `on_signal(event)` hears of recordings; errors of requests that were confirmed before, such as a replay that fails
    half way, wait in `late_errors` as (correlation id, error). Raises TransportError, ChannelError.
    """

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        now_ns: int,
        on_signal: Callable[[SignalEvent], object] | None = None,
    ) -> None:
        self.client = client
        self.settings = settings
        self.state = ClientState.ADDING
        self.error: OrdoError | None = None
        self.control_session_id = -1
        self.archive_id = -1
        self.log_identity: Any = None
        """Which cluster's log the archive has, as it said last (LogIdentity); None: it has said nothing of it."""
        self.late_errors: deque[tuple[int, OrdoError]] = deque(maxlen=QUEUED_ERRORS_MAX)
        self.on_signal = on_signal
        self._now_ns = now_ns
        self._deadline_ns = now_ns + settings.message_timeout_ns
        self._replies: dict[int, Reply] = {}
        self._watched: dict[int, OrdoError | None] = {}
        self._forgotten: deque[int] = deque(maxlen=FORGOTTEN_MAX)
        self._publication: ExclusivePublication | None = None
        self._subscription: Subscription | None = None
        self._connect_id = 0
        self.driver = DriverRequests(client)
        """The way to ask the driver for what belongs to this session, such as the subscription of a replay."""
        request_channel, response_channel = settings.channels(
            lambda: client.next_available_session_id(settings.control_stream_id)
        )
        self._open = [
            self.driver.add_subscription(
                response_channel, settings.response_stream_id, self._on_subscription, self._fail, lambda _: None
            )
        ]
        self._request_channel = request_channel
        if not settings.is_answered_alone:
            self._add_publication(request_channel)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self.state is ClientState.CONNECTED

    @property
    def is_closed(self) -> bool:
        return self.state is ClientState.CLOSED

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes a response: go on with `work`, also when the session is closed."""
        return self.driver.is_pending

    def _add_publication(self, channel: str) -> None:
        self._open.append(
            self.driver.add_exclusive_publication(
                channel, self.settings.control_stream_id, self._on_publication, self._fail
            )
        )

    def _on_subscription(self, subscription: Subscription) -> None:
        self._subscription = subscription
        if self.settings.is_answered_alone:
            self._add_publication(answering_channel(self._request_channel, subscription.registration_id))

    def _on_publication(self, publication: ExclusivePublication) -> None:
        self._publication = publication

    def _fail(self, error: OrdoError) -> None:
        """End the session; every open request fails with the same reason."""
        if self.is_closed:
            return
        self.error = error
        for reply in self._replies.values():
            reply.fail(error)
        self.close()

    def close(self) -> None:
        """Close the session with the archive, if it can still be reached, and free its resources. Idempotent."""
        if self.is_closed:
            return
        if self._publication is not None and self.control_session_id >= 0 and not self._publication.is_closed:
            self._publication.offer(codecs.CLOSE_SESSION_REQUEST.encode(control_session_id=self.control_session_id))
        self.state = ClientState.CLOSED
        for request in self._open:
            request.abandon()
        for resource in (self._publication, self._subscription):
            if resource is not None:
                resource.close()
        closed = ArchiveError("the session with the archive is closed; connect again")
        for reply in self._replies.values():
            if not reply.is_done:
                reply.fail(self.error or closed)
        self._replies.clear()

    # --- duty cycle ---------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        self._now_ns = now_ns
        work_count = self.driver.work()
        if self.is_closed:
            return work_count
        if self.state is ClientState.ADDING:
            work_count += self._leave_adding()
        if self.state is ClientState.CONNECTING:
            work_count += self._connect()
        elif self._subscription is not None:
            work_count += self._subscription.poll_messages(self._on_message, RESPONSES_PER_CYCLE_MAX)
        self._check_time(now_ns)
        return work_count

    def _leave_adding(self) -> int:
        if self._publication is None or self._subscription is None:
            return 0
        is_bound = self.settings.is_answered_alone or self._subscription.resolved_endpoint is not None
        if ChannelUri.parse(self._subscription.channel).is_udp and not is_bound:
            return 0
        self.state = ClientState.CONNECTING
        return 1

    def _connect(self) -> int:
        """Ask for a session once the archive listens."""
        assert self._publication is not None
        assert self._subscription is not None
        if not self._publication.is_connected:
            return 0
        self._connect_id = self.client.next_correlation_id()
        message = codecs.AUTH_CONNECT_REQUEST.encode(
            correlation_id=self._connect_id,
            response_stream_id=self.settings.response_stream_id,
            version=PROTOCOL_VERSION,
            response_channel=self._response_channel(self._subscription),
            encoded_credentials=self.settings.read_credentials(),
            client_info=f"name={self.settings.name} implementation={own_codecs.IMPLEMENTATION}",
        )
        if self._publication.offer(message) <= 0:
            return 0
        self.state = ClientState.AWAITING_RESPONSE
        return 1

    @staticmethod
    def _response_channel(subscription: Subscription) -> str:
        """Return the response channel, with the port that the system chose where none was configured."""
        uri = ChannelUri.parse(subscription.channel)
        endpoint = uri.endpoint
        if endpoint is None or endpoint.port != 0 or subscription.resolved_endpoint is None:
            return subscription.channel
        port = int(subscription.resolved_endpoint.rpartition(":")[2])
        return str(uri.with_params(endpoint=endpoint._replace(port=port)))

    def _check_time(self, now_ns: int) -> None:
        if self.state is ClientState.CONNECTED:
            if self._publication is not None and not self._publication.is_connected:
                self._fail(ArchiveError(f"the archive at {self.settings.control_channel} is gone; connect again"))
            for reply in [reply for reply in self._replies.values() if now_ns >= reply.deadline_ns]:
                del self._replies[reply.correlation_id]
                reply.fail(
                    ArchiveTimeoutError(
                        f"{reply.what}: the archive at {self.settings.control_channel} gave no answer within "
                        f"{self.settings.message_timeout_ns // 1_000_000} ms"
                    )
                )
        elif not self.is_closed and now_ns >= self._deadline_ns:
            self._fail(
                ArchiveTimeoutError(
                    f"no session with the archive at {self.settings.control_channel} stream "
                    f"{self.settings.control_stream_id} within {self.settings.message_timeout_ns // 1_000_000} ms "
                    f"(state {self.state.name}); is it running, and can it reach {self.settings.response_channel}?"
                )
            )

    # --- requests -----------------------------------------------------------------------------------------------------

    def request(
        self, message: Message, *, item_count_max: int = 0, via: ExclusivePublication | None = None, **fields: Any
    ) -> Reply:
        """Send a request; the returned Reply receives the answer. Raises ArchiveError if it cannot be sent.

        `via`: another stream to the archive than that of the session.
        """
        if not self.is_connected or self._publication is None:
            raise self.error or ArchiveError("there is no session with the archive; connect first")
        correlation_id = self.client.next_correlation_id()
        payload = message.encode(control_session_id=self.control_session_id, correlation_id=correlation_id, **fields)
        deadline_ns, item = self._now_ns + self.settings.message_timeout_ns, own_codecs.ANSWERS.get(message)
        if item_count_max > 0:
            is_of_streams = message is codecs.LIST_RECORDING_SUBSCRIPTIONS_REQUEST
            item = codecs.RECORDING_SUBSCRIPTION_DESCRIPTOR if is_of_streams else codecs.RECORDING_DESCRIPTOR
        reply = Reply(correlation_id, deadline_ns, message.name, item_count_max, item)
        self._offer(payload, message.name, via)
        self._replies[correlation_id] = reply
        return reply

    def keep_alive(self) -> None:
        """Tell the archive that this client is alive; the archive sends no reply."""
        payload = codecs.KEEP_ALIVE_REQUEST.encode(
            control_session_id=self.control_session_id, correlation_id=KEEP_ALIVE_ID
        )
        self._offer(payload, "KeepAliveRequest")

    def _offer(self, payload: bytes, what: str, via: ExclusivePublication | None = None) -> None:
        """Send a request or fail.

        Requests are small and rare, so a stream without room for one means that the archive does not keep up.
        """
        publication = via or self._publication
        assert publication is not None
        result = RESULT_ADMIN_ACTION
        while result == RESULT_ADMIN_ACTION:
            result = publication.offer(payload)
        if result == RESULT_BACK_PRESSURED:
            raise ArchiveError(f"{what} was not sent: the archive takes no requests now; try again")
        if result <= 0:
            raise ArchiveError(f"{what} was not sent: {describe_result(result)}; connect again")

    # --- replies ------------------------------------------------------------------------------------------------------

    @property
    def is_listing(self) -> bool:
        """Whether a listing is under way; an archive takes one at a time from a session (archive.md A6)."""
        return any(reply.item_count_max > 0 for reply in self._replies.values())

    def watch(self, correlation_id: int) -> None:
        """Keep a late error of this request for `late_error`, and out of `late_errors`, until it is forgotten."""
        self._watched[correlation_id] = None

    def late_error(self, correlation_id: int) -> OrdoError | None:
        """Return the late error of a request that is watched, if there is one."""
        return self._watched.get(correlation_id)

    def forget(self, correlation_id: int) -> None:
        """Forget a watched request, and drop its errors."""
        self._forgotten.append(correlation_id)
        self._replies.pop(correlation_id, None)
        self._watched.pop(correlation_id, None)

    def _on_message(self, payload: bytes, _: Header) -> None:
        """Handle a message. Any program may have sent it, so an invalid one is dropped."""
        try:
            found = decode_one_of(own_codecs.CLIENT_SCHEMAS, payload)
        except DecodeError:
            return
        if found is not None:
            self._on_answer(*found)

    def _on_answer(self, message: Message, value: Any) -> None:
        if message is codecs.CONTROL_RESPONSE and self.state is ClientState.AWAITING_RESPONSE:
            self._on_connect_response(value)
        elif message is codecs.CHALLENGE and self.state is ClientState.AWAITING_RESPONSE:
            self._on_challenge(value)
        elif message is own_codecs.LOG_IDENTITY:
            if value.session_id == self.control_session_id:
                self.log_identity = value
        elif getattr(value, "control_session_id", None) != self.control_session_id:
            return
        elif message is codecs.CONTROL_RESPONSE:
            self._on_response(value)
        elif message in ITEMS:
            self._on_item(message, value)
        elif message is codecs.RECORDING_SIGNAL_EVENT:
            self._on_signal_event(value)

    def _on_connect_response(self, response: records.ControlResponse) -> None:
        if response.correlation_id != self._connect_id:
            return
        if response.code != ResponseCode.OK:
            self._fail(
                ArchiveError(
                    f"the archive at {self.settings.control_channel} refused the session: {response.error_message}",
                    code=response.relevant_id,
                )
            )
            return
        self.control_session_id = response.control_session_id
        self._become_connected(asks_archive_id=response.version >= ARCHIVE_ID_VERSION)

    def _become_connected(self, *, asks_archive_id: bool) -> None:
        """Send a keepalive in the new session, since the archive repeats its answer until it hears the client.

        If that cannot be sent, the session ends.
        """
        self.state = ClientState.CONNECTED
        try:
            if asks_archive_id:
                self._connect_id = self.request(codecs.ARCHIVE_ID_REQUEST).correlation_id
                self.state = ClientState.AWAITING_ARCHIVE_ID
            else:
                self.keep_alive()
        except ArchiveError as error:  # the archive went in the same moment
            self._fail(error)

    def _on_challenge(self, challenge: records.Challenge) -> None:
        """Answer a challenge.

        The session is then awaited under the answer's correlation id; a repeated challenge has the old one.
        """
        if challenge.correlation_id != self._connect_id or self._publication is None:
            return
        correlation_id = self.client.next_correlation_id()
        answer = codecs.CHALLENGE_RESPONSE.encode(
            control_session_id=challenge.control_session_id,
            correlation_id=correlation_id,
            encoded_credentials=self.settings.answer(challenge.encoded_challenge),
        )
        if self._publication.offer(answer) > 0:
            self._connect_id = correlation_id

    def _on_response(self, response: records.ControlResponse) -> None:
        reply = self._replies.get(response.correlation_id)
        if reply is None:
            if response.code == ResponseCode.ERROR:
                self._on_late_error(response.correlation_id, _error_of(response, ""))
            return
        del self._replies[response.correlation_id]
        if response.code == ResponseCode.ERROR:
            reply.fail(_error_of(response, f"{reply.what}: "))
        elif response.code == ResponseCode.RECORDING_UNKNOWN and reply.item_count_max == 0:
            reply.fail(
                UnknownRecordingError(
                    f"{reply.what}: no recording {response.relevant_id}", code=ErrorCode.UNKNOWN_RECORDING
                )
            )
        reply.relevant_id = response.relevant_id
        reply.is_done = True
        if self.state is ClientState.AWAITING_ARCHIVE_ID and response.correlation_id == self._connect_id:
            self.archive_id = response.relevant_id
            self._become_connected(asks_archive_id=False)

    def _on_late_error(self, correlation_id: int, error: OrdoError) -> None:
        if correlation_id in self._watched:
            self._watched[correlation_id] = error
        elif correlation_id not in self._forgotten:
            self.late_errors.append((correlation_id, error))

    def _on_item(self, message: Message, value: Any) -> None:
        reply = self._replies.get(value.correlation_id)
        if reply is None:
            return
        if message is not reply.item:
            del self._replies[value.correlation_id]
            reply.fail(
                ArchiveError(f"{reply.what}: the archive answers with a {message.name}, which is no answer to it")
            )
            return
        reply.items.append(value)
        reply.deadline_ns = self._now_ns + self.settings.message_timeout_ns
        if len(reply.items) >= reply.item_count_max:
            reply.is_done = True
            del self._replies[value.correlation_id]

    def _on_signal_event(self, value: records.RecordingSignalEvent) -> None:
        if self.on_signal is not None and value.signal in SIGNALS:
            signal = RecordingSignal(value.signal)
            self.on_signal(
                SignalEvent(value.correlation_id, value.recording_id, value.subscription_id, value.position, signal)
            )


def _error_of(response: records.ControlResponse, prefix: str) -> ArchiveError:
    """Return the archive's own error text, with the code it gave."""
    kind = UnknownRecordingError if response.relevant_id == ErrorCode.UNKNOWN_RECORDING else ArchiveError
    return kind(f"{prefix}{response.error_message or 'the archive refused'}", code=response.relevant_id)
