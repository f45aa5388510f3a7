"""The end of a replication that changes from the source's replay to the live stream (archive.md A9)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ordo.archive.archive import Archive
from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import Reply
from ordo.archive.control.recordings import RecordingRequests
from ordo.archive.control.session import ControlSession
from ordo.archive.protocol.codes import RecordingSignal
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.archive.recorder import Recording
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.transport.streams.subscription import Subscription

POLL_INTERVAL_NS = 20_000_000
JOIN_WINDOW_BYTES_MAX = 32 << 20
BOTH_TRANSPORTS = 2


class JoinState(Enum):
    """The state of the change to a live stream."""

    CATCHING_UP = "the replay is not near the end of the source's recording yet"
    ADDING = "the driver is asked for the live stream's transport"
    JOINING = "replay and live stream come in together, until the end of the source's recording is reached"
    REMOVING = "the driver is asked to remove the replay's transport"
    JOINED = "only the live stream comes in"
    SOURCE_STOPPED = "the source is not recorded any more: its replay goes to its end"


class LiveJoin:
    """The change of one recording from a replay of its source to the live stream, on one subscription.

    `ask(call, on_reply)` asks the source's archive; one question at a time. Errors of the driver go to `on_failure`.
    """

    def __init__(
        self,
        driver: DriverRequests,
        subscription: Subscription,
        recording: Recording,
        source_id: int,
        replay_destination: str,
        live_destination: str,
        ask: Callable[[Call[Any], Callable[[Reply], None]], None],
        on_failure: Callable[[Any], None],
    ) -> None:
        self.state = JoinState.CATCHING_UP
        self._driver = driver
        self._subscription = subscription
        self._recording = recording
        self._source_id = source_id
        self._replay_destination = replay_destination
        self._live_destination = live_destination
        self._ask = ask
        self._on_failure = on_failure
        self._is_asking = False
        self._next_poll_ns = 0
        self._source_position = NULL_POSITION

    @property
    def is_joined(self) -> bool:
        return self.state is JoinState.JOINED

    def work(self, now_ns: int) -> None:
        """Take the next step, if there is one."""
        if self.state not in (JoinState.CATCHING_UP, JoinState.JOINING):
            return
        if self._source_position != NULL_POSITION:
            self._compare()
        if not self._is_asking and now_ns >= self._next_poll_ns:
            self._is_asking = True
            self._next_poll_ns = now_ns + POLL_INTERVAL_NS
            self._ask(control_requests.recording_position(self._source_id), self._on_position)

    def _on_position(self, reply: Reply) -> None:
        self._is_asking = False
        if reply.error is not None:
            self._on_failure(reply.error)
        elif reply.relevant_id == NULL_POSITION:
            self.state = JoinState.SOURCE_STOPPED
        else:
            self._source_position = reply.relevant_id

    def _compare(self) -> None:
        image, position = self._recording.image, self._recording.written_position
        distance = self._source_position - position
        if self.state is JoinState.CATCHING_UP:
            if distance <= min(image.term_length // 4, JOIN_WINDOW_BYTES_MAX):
                self.state = JoinState.ADDING
                self._driver.add_receive_destination(
                    self._subscription, self._live_destination, self._on_added, self._on_failure
                )
        elif distance <= 0 and image.active_transport_count >= BOTH_TRANSPORTS:
            self.state = JoinState.REMOVING
            self._driver.remove_receive_destination(
                self._subscription, self._replay_destination, self._on_removed, self._on_failure
            )

    def _on_added(self, _: int) -> None:
        self.state = JoinState.JOINING
        self._source_position = NULL_POSITION  # one that the source says from now on

    def _on_removed(self, _: int) -> None:
        self.state = JoinState.JOINED


class JoinedRecording:
    """A recording that a replication has left to the live stream; clients stop it as one that they started."""

    def __init__(
        self,
        owner: RecordingRequests,
        archive: Archive,
        session: ControlSession,
        replication_id: int,
        subscription: Subscription,
        recording: Recording,
    ) -> None:
        self.key = f"replication:{replication_id}"
        self.channel = self.original_channel = subscription.channel
        self.stream_id = subscription.stream_id
        self.subscription_id = subscription.registration_id
        self.recordings = [recording]
        self._owner = owner
        self._archive = archive
        self._session = session
        self._replication_id = replication_id
        self._subscription = subscription
        recording.on_stop = self._on_stop

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        self.recordings.clear()
        responses = self._session.responses
        if error is not None:
            responses.send_error(self._replication_id, error)
        responses.send_signal(
            self._replication_id,
            recording.recording_id,
            self.subscription_id,
            recording.durable_position,
            RecordingSignal.STOP,
        )
        self.stop()

    def stop(self) -> None:
        """End the recording, which blocks for its sync, and the subscription. Idempotent."""
        self._owner.remove(self)
        for recording in list(self.recordings):
            self._archive.stop(recording)
        self._subscription.close()
