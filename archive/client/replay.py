"""Replays that come to the client that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from ordo.archive.client import control_requests
from ordo.archive.client.connection import ArchiveLink
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.protocol.driver_requests import DriverRequest
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, OrdoError
from ordo.runtime.polled_items import PolledMessages
from ordo.transport.streams.image import Header, Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri, udp

FRAGMENTS_PER_POLL = 256
BYTES_PER_PASS = 1024 * 1024
PARK_NS = 1_000_000
REPLAY_STREAM_ID_DEFAULT = 30
REASON_TIMEOUT_NS = 1_000_000_000
"""How long to wait for the archive's reason for breaking off a replay, which comes in another stream than messages."""


class RecordedMessage(NamedTuple):
    """One message of a recording. `position` is that of the byte after it."""

    position: int
    payload: bytes


class ReplayState(Enum):
    """The state of a replay, as the client sees it; each name says what the client waits for."""

    MEASURING = "where the recording begins"
    SUBSCRIBING = "its own port"
    STARTING = "the archive's consent"
    JOINING = "the replay's stream"
    OPEN = "messages"
    ENDING = "where the recording ends"
    BROKEN_OFF = "the archive's reason"
    ENDED = "nothing"


class Replay:
    """A replay of one recording to a subscription of this client. Never waits: `work` every duty cycle, then `poll`.

    ENDED when the archive has sent everything, or with an `error`: where the archive breaks it off, its reason, after
    the messages before that, or ArchiveTimeoutError when it gives none. `position` is that of the next byte, -1 while
    it is not known; `length` None follows a live recording, and ends at the stop of another.
    """

    def __init__(
        self,
        session: ArchiveSession,
        recording_id: int,
        *,
        now_ns: int,
        position: int | None = None,
        length: int | None = None,
        stream_id: int = REPLAY_STREAM_ID_DEFAULT,
    ) -> None:
        """Prepare a replay; `position` None: where the recording begins.

        `session` is connected. Raises ArchiveError.
        """
        self.recording_id = recording_id
        self.position = -1 if position is None else position
        self.error: OrdoError | None = None
        self._reason: OrdoError | None = None
        self._session = session
        self._length = length
        self._end_position: int | None = None
        self._stream_id = stream_id
        self._now_ns = now_ns
        self._deadline_ns = now_ns + session.settings.message_timeout_ns
        self._handler: Callable[[RecordedMessage], object] = lambda _: None
        self._reply: Reply | None = None
        self._start_id: int | None = None
        self._replay_session_id = -1
        self._adding: DriverRequest | None = None
        self._subscription: Subscription | None = None
        self._image: Image | None = None
        self.state = ReplayState.MEASURING
        if position is None:
            self._ask(control_requests.start_position(recording_id))
        else:
            self._subscribe()

    @property
    def is_open(self) -> bool:
        return self.state is ReplayState.OPEN

    @property
    def is_done(self) -> bool:
        """Whether everything that was asked for was handed out."""
        return self.state is ReplayState.ENDED

    # --- steps --------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """Run one duty cycle, after the session's; return the count of steps taken. Raises nothing: see `error`."""
        before, self._now_ns = self.state, now_ns
        if self.is_done:
            return 0
        self._take_reason()
        if self._session.error is not None:
            self._fail(self._session.error)
        elif self._reason is not None and not self.is_open:
            self._fail(self._reason)
        elif self._reply is not None and self._reply.is_done:
            self._on_reply(self._reply)
        elif self.state is ReplayState.SUBSCRIBING:
            self._start_when_bound()
        elif self.state is ReplayState.JOINING:
            self._find_image()
        if not (self.is_open or self.is_done) and now_ns >= self._deadline_ns:
            self._on_deadline()
        return int(self.state is not before)

    def _take_reason(self) -> None:
        """Take the archive's reason for ending the replay; what it sent before may still arrive."""
        if self._start_id is not None and self._reason is None:
            self._reason = self._session.late_error(self._start_id)
            if self._reason is not None:
                self._deadline_ns = self._now_ns + REASON_TIMEOUT_NS

    def _on_deadline(self) -> None:
        what = f"the replay of recording {self.recording_id}"
        if self.state is ReplayState.BROKEN_OFF:
            text = f"{what} was broken off at position={self.position}, and the archive does not say why; ask again"
        else:
            text = f"{what} waited in vain for {self.state.value}"
        self._fail(ArchiveTimeoutError(text))

    def _ask(self, call: Call[Any]) -> None:
        self._reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)

    def _on_reply(self, reply: Reply) -> None:
        self._reply = None
        if reply.error is not None:
            self._fail(reply.error)
        elif self.state is ReplayState.MEASURING:
            self.position = reply.relevant_id
            self._subscribe()
        elif self.state is ReplayState.ENDING:
            if reply.relevant_id == self.position:
                self._end()
            else:
                self._break_off()
        else:
            self._replay_session_id = reply.relevant_id
            self.state = ReplayState.JOINING

    def _subscribe(self) -> None:
        self.state = ReplayState.SUBSCRIBING
        self._end_position = None if self._length is None else self.position + self._length
        response = ChannelUri.parse(self._session.settings.response_channel)
        is_ipc = response.is_ipc or response.endpoint is None
        channel = "aeron:ipc" if is_ipc else udp(endpoint=response.endpoint._replace(port=0))  # type: ignore[union-attr]
        self._adding = self._session.driver.add_subscription(
            channel, self._stream_id, self._on_subscription, self._fail, lambda _: None
        )

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription

    def _start_when_bound(self) -> None:
        """Ask for the replay once the system has chosen the port that it is to come to."""
        subscription = self._subscription
        if subscription is None:
            return
        channel = ChannelUri.parse(subscription.channel)
        if channel.is_udp and channel.endpoint is not None:
            if subscription.resolved_endpoint is None:
                return
            port = int(subscription.resolved_endpoint.rpartition(":")[2])
            channel = channel.with_params(endpoint=channel.endpoint._replace(port=port))
        self.state = ReplayState.STARTING
        try:
            self._ask(
                control_requests.start_replay(
                    self.recording_id, str(channel), self._stream_id, position=self.position, length=self._length
                )
            )
        except OrdoError as error:
            self._fail(error)
        else:
            if self._reply is not None:
                self._start_id = self._reply.correlation_id
                self._session.watch(self._start_id)

    def _find_image(self) -> None:
        assert self._subscription is not None
        session_id = (self._replay_session_id & 0xFFFFFFFF) - ((self._replay_session_id & 0x80000000) << 1)
        image = self._subscription.image_by_session_id(session_id)
        if image is None:
            return
        if not self._begins_as_asked(image):
            begins = f"the replay of recording {self.recording_id} begins at position={image.join_position}"
            self._fail(ArchiveError(f"{begins}, {self.position} was asked for: do not trust this archive"))
            return
        self._image = image
        self.state = ReplayState.OPEN

    def _begins_as_asked(self, image: Image) -> bool:
        return image.join_position == self.position

    # --- messages -----------------------------------------------------------------------------------------------------

    def poll(self, handler: Callable[[RecordedMessage], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler(message)` for what has come, at most `limit` fragments; return how many."""
        self._handler = handler
        return self._take(lambda image: image.poll_messages(self._on_message, limit))

    def pass_over(self) -> int:
        """Consume messages without decoding them, to check that they can all be sent; return their bytes."""
        return self._take(lambda image: image.block_poll(lambda *_: None, BYTES_PER_PASS))

    def _take(self, take: Callable[[Image], int]) -> int:
        if not self.is_open or self._image is None:
            return 0
        image = self._image
        is_closed = image.is_closed
        count = take(image)
        self.position = max(self.position, image.position)
        if self._end_position is not None and self.position >= self._end_position:
            self._end()
        elif count == 0 and (is_closed or image.is_end_of_stream or self._is_over):
            self._on_end_of_stream(is_due=self._end_position is None and not image.is_revoked)
        return count

    def _on_message(self, payload: bytes, header: Header) -> None:
        self._handler(RecordedMessage(header.position, payload))

    # --- end ----------------------------------------------------------------------------------------------------------

    def _fail(self, error: OrdoError) -> None:
        self.error = error
        self.close()

    def close(self) -> None:
        """End the replay; the archive ends by itself what it cannot be told about. Idempotent."""
        if self.is_done:
            return
        is_running = self._replay_session_id != -1
        self._end()
        if is_running and self._session.is_connected:
            with suppress(OrdoError):
                self._ask(control_requests.stop_replay(self._replay_session_id))

    @property
    def _is_over(self) -> bool:
        """Whether the archive has said why it ended the replay, and no message can be in flight.

        It said so long enough ago.
        """
        return self._reason is not None and self._now_ns >= self._deadline_ns

    def _on_end_of_stream(self, *, is_due: bool) -> None:
        """End once everything that was sent is handed out. `is_due`: it may be the end of the recording."""
        self._leave_stream()
        if self._reason is not None:
            self._fail(self._reason)
        elif is_due and self._session.is_connected:
            self._find_end()
        else:
            self._break_off()

    def _find_end(self) -> None:
        self.state = ReplayState.ENDING
        self._deadline_ns = self._now_ns + self._session.settings.message_timeout_ns
        try:
            self._ask(control_requests.stop_position(self.recording_id))
        except OrdoError as error:
            self._fail(error)

    def _break_off(self) -> None:
        self.state, self._deadline_ns = ReplayState.BROKEN_OFF, self._now_ns + REASON_TIMEOUT_NS

    def _end(self) -> None:
        self.state = ReplayState.ENDED
        self._leave_stream()
        if self._start_id is not None:
            self._session.forget(self._start_id)

    def _leave_stream(self) -> None:
        if self._adding is not None:
            self._adding.abandon()
        if self._subscription is not None:
            self._subscription.close()
        self._image = None


class ReplayStream(Closing):
    """Subscription and replay of one recording, from a position on. Raises as `ArchiveClient.start_replay`.

    `poll` hands messages out; `is_done` when the archive has sent everything. `position` is that of the next byte.
    """

    def __init__(self, link: ArchiveLink, replay: Replay) -> None:
        """Wait until the replay exists."""
        self.recording_id = replay.recording_id
        self._link = link
        self._replay = replay
        self._polled: PolledMessages[RecordedMessage] = PolledMessages(None)
        self._is_closed = False
        try:
            while not replay.is_open:
                if self._work() == 0:
                    link.transport.park(PARK_NS)
                self._raise_error()
        except BaseException:
            self.close()
            raise
        self._polled = PolledMessages(replay.position)

    @property
    def position(self) -> int:
        """The position after the delivered messages, in bytes."""
        position = self._polled.position(self._replay.position)
        assert position is not None, "a replay that is open began somewhere"
        return position

    @property
    def is_done(self) -> bool:
        """Whether everything that was asked for was handed out."""
        return self._replay.is_done and (self._is_closed or not self._polled)

    def _work(self) -> int:
        with self._link.transport.use:
            work_count = self._link.work()
            return work_count + self._replay.work(self._link.transport.clock.now())

    def _raise_error(self) -> None:
        if self._replay.error is not None:
            raise self._replay.error
        self._link.raise_errors()

    def poll(self, handler: Callable[[RecordedMessage], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler(message)` for what has come, at most `limit` fragments; return how many."""
        if self._polled:
            self._link.check_open()
            return self._polled.hand_out(handler, limit)
        return self._take(lambda: self._replay.poll(handler, limit))

    def pass_over(self) -> int:
        """Consume messages without decoding them, to check that they can all be sent; return their bytes."""
        return self._take(self._replay.pass_over)

    def _take(self, take: Callable[[], int]) -> int:
        if self._replay.is_done:
            return 0
        self._link.check_open()
        with self._link.transport.use:
            self._work()
            self._raise_error()
            count = take()
        self._raise_error()
        return count

    def messages(self) -> Iterator[RecordedMessage]:
        """Yield every message until the replay's end, waiting for them.

        Ends once this stream or its client is closed.
        """
        while not self.is_done and not self._has_ended:
            self._link.transport.use.check()
            if self._polled:
                yield self._polled.take()
                continue
            try:
                if self.poll(self._polled.append) == 0 and not self.is_done:
                    self._link.transport.park(PARK_NS)
            except OrdoError:
                if not self._has_ended:  # meanwhile, by another thread
                    raise

    @property
    def _has_ended(self) -> bool:
        return self._is_closed or self._link.transport.is_closed

    def close(self) -> None:
        """End the replay; another one can continue at its `position`. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.transport.use.end(self._end)

    def _end(self) -> None:
        self._replay.close()
        if not self._link.transport.is_closed:
            self._link.work()
