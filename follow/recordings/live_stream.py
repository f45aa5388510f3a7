"""The stream of a node's log that all its readers share, as one of them joins it and leaves it again.

A reader that has caught up by a replay of its own asks the node for the stream, goes on with the replay until that has
reached the place where the stream begins for it, and then reads the stream. The sender waits for no reader: one that is
more than CHECK_INTERVAL_NS behind, or has lost what is sent to nobody again, leaves the stream for a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.control.live_replays import LIVE_STREAM_ID
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.runtime.errors import OrdoError
from ordo.transport.streams.image import Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri, udp

CHECK_INTERVAL_NS = 1_000_000_000
"""The node is asked so often how far its log is; a reader that is not there by the next time is too slow."""
JOIN_TIMEOUT_NS = 2_000_000_000
NAK_DELAY_NS = 1_000_000
"""What one reader asks for is sent again to all of them: less often than in a stream of its own."""

PAUSE_NS_MIN = 1_000_000_000
PAUSE_NS_MAX = 64_000_000_000


class LivePatience:
    """When a reader asks for the shared stream again, whichever node it reads: later each time it had to leave soon."""

    def __init__(self) -> None:
        self.due_ns = 0
        self._pause_ns = PAUSE_NS_MIN
        self._began_ns = 0

    def note_begin(self, now_ns: int) -> None:
        """Note that the reader asks for the stream, or is live."""
        self._began_ns = now_ns

    def note_end(self, now_ns: int) -> None:
        """Note that the reader has left the stream, or has not got it."""
        lasted_ns = now_ns - self._began_ns
        self.due_ns = now_ns + self._pause_ns
        self._pause_ns = PAUSE_NS_MIN if lasted_ns >= PAUSE_NS_MAX else min(2 * self._pause_ns, PAUSE_NS_MAX)


class LiveState(Enum):
    """The state of a shared stream, as a reader sees it; each name says what the reader waits for."""

    SUBSCRIBING = "the driver's subscription"
    ASKING = "the archive's answer"
    JOINING = "the stream, and the replay that is to reach it"
    LIVE = "nothing: entries come"
    ENDED = "nothing more; `reason` says why"


class LiveStream:
    """Made by a reader that has caught up at `position`; `work` every duty cycle with its newest position."""

    def __init__(
        self,
        session: ArchiveSession,
        driver: DriverRequests,
        recording_id: int,
        response_channel: str,
        now_ns: int,
    ) -> None:
        """`session`: connected; the stream ends with it. Raises TransportError."""
        self.state = LiveState.SUBSCRIBING
        self.reason = ""
        self.image: Image | None = None
        self._session = session
        self._recording_id = recording_id
        self._deadline_ns = now_ns + JOIN_TIMEOUT_NS
        self._check_ns = 0
        self._expected_position = 0
        """Where the node's log ended when it was asked last."""
        self._replay_id = -1
        self._reply: Reply | None = None
        self._on_reply: Callable[[Reply], None] = lambda _: None
        self._subscription: Subscription | None = None
        endpoint = ChannelUri.parse(response_channel).endpoint
        assert endpoint is not None
        self._endpoint = endpoint
        channel = udp(endpoint=endpoint._replace(port=0), nak_delay=f"{NAK_DELAY_NS}ns")
        self._adding: DriverRequest | None = driver.add_subscription(
            channel, LIVE_STREAM_ID, self._on_subscription, self._fail, lambda _: None
        )

    @property
    def is_live(self) -> bool:
        return self.state is LiveState.LIVE

    @property
    def is_ended(self) -> bool:
        return self.state is LiveState.ENDED

    def work(self, position: int, now_ns: int) -> int:
        """One duty cycle of a reader that has read up to `position`; the count of things done."""
        before = self.state
        if self.is_ended:
            return 0
        if self._reply is not None and self._reply.is_done:
            reply, self._reply = self._reply, None
            self._on_reply(reply)
        elif self.state is LiveState.SUBSCRIBING:
            self._ask_when_bound()
        elif self.state is LiveState.JOINING:
            self._join(position, now_ns)
        elif self.is_live:
            self._check(position, now_ns)
        if not self.is_live and now_ns >= self._deadline_ns:
            self.end(f"waited in vain for {self.state.value}")
        return int(self.state is not before)

    def _ask(self, call: Call[Any], on_reply: Callable[[Reply], None]) -> None:
        try:
            self._reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
            self._on_reply = on_reply
        except OrdoError as error:
            self._fail(error)

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription

    def _ask_when_bound(self) -> None:
        if self._subscription is None or self._subscription.resolved_endpoint is None:
            return
        port = int(self._subscription.resolved_endpoint.rpartition(":")[2])
        channel = udp(endpoint=self._endpoint._replace(port=port), live="true")
        self.state = LiveState.ASKING
        self._ask(control_requests.start_replay(self._recording_id, channel, LIVE_STREAM_ID), self._on_started)

    def _on_started(self, reply: Reply) -> None:
        if reply.error is not None:
            self._fail(reply.error)
            return
        self._replay_id = reply.relevant_id
        self.state = LiveState.JOINING

    def _join(self, position: int, now_ns: int) -> None:
        """Live once the replay has reached the place where the stream begins for this reader: it has all after that."""
        assert self._subscription is not None
        session_id = (self._replay_id & 0xFFFFFFFF) - ((self._replay_id & 0x80000000) << 1)
        self.image = self.image or self._subscription.image_by_session_id(session_id)
        if self.image is not None and self._has_reached(self.image.join_position, position):
            self.state = LiveState.LIVE
            self._check_ns, self._expected_position = now_ns + CHECK_INTERVAL_NS, position

    def _has_reached(self, join_position: int, position: int) -> bool:
        return position >= join_position

    def _check(self, position: int, now_ns: int) -> None:
        """Leave a reader to its own replay that has not reached the end that the log had at the last check."""
        assert self.image is not None
        position = max(position, self.image.position)
        if now_ns < self._check_ns or self._reply is not None:
            return
        if position < self._expected_position:
            self.end(f"behind the live stream at position={position}, expected was {self._expected_position}")
            return
        self._check_ns = now_ns + CHECK_INTERVAL_NS
        self._ask(control_requests.max_recorded_position(self._recording_id), self._on_checked)

    def _on_checked(self, reply: Reply) -> None:
        if reply.error is not None:
            self._fail(reply.error)
        else:
            self._expected_position = reply.relevant_id

    def _fail(self, error: OrdoError) -> None:
        self.end(str(error))

    def end(self, reason: str) -> None:
        """Leave the stream. Idempotent."""
        if self.is_ended:
            return
        self.state, self.reason = LiveState.ENDED, reason
        if self._adding is not None:
            self._adding.abandon()
        if self._subscription is not None:
            self._subscription.close()
        self.image = None
        if self._replay_id != -1 and self._session.is_connected:
            self._ask(control_requests.stop_replay(self._replay_id), lambda _: None)
