"""Follows a recorded stream: replayed from a position, then live, and replayed again where the live stream was lost.

Replay and live stream have the same positions (archive.md A8.1, A8.5), so that a message that was handed out from one
of them is recognised in the other. Session id and position alone do not say that a live stream is the recorded one: a
publisher may begin anew with the session id of the last one; nor does an id say that an archive's recording is the one
that was read before. `recording_identity.py` compares the rest. The clock is handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.client.recording_identity import difference_of, identity_of, shown
from ordo.archive.client.replay import REPLAY_STREAM_ID_DEFAULT, RecordedMessage, Replay
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import ErrorCode, is_final
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError, OrdoError, OtherRecordingError, UnknownRecordingError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.client.client import TransportClient
from ordo.transport.frame_layout import FRAME_ALIGNMENT
from ordo.transport.streams.image import Header, Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

RETRY_INTERVAL_NS = 100_000_000
JOIN_TIMEOUT_NS = 1_000_000_000
"""How long a replay may take to reach the place where the live stream was joined."""
BEYOND_PATIENCE_NS = 3_000_000_000
"""How long the end of a recording may be below the position to begin at."""
Handler = Callable[[RecordedMessage], object]


class StreamFollower:
    """A follower of one recording of one archive, and of the channel on which its stream is live.

    `work` every duty cycle, then `poll`.

    `position` is where the next message begins; it moves with each message, before the message is handed out, and what
    ends at or below it is not handed out again. Whatever goes wrong is tried again, with the reason in `problem`; what
    no second try can mend ends it with an `error`.
    """

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        recording_id: int,
        channel: str,
        stream_id: int,
        *,
        position: int | Literal["live"] | None,
        silence_ns: int,
        on_change: Callable[[bool], object],
        identity: str | None = None,
    ) -> None:
        """Prepare to follow; `position`: bytes, None for the recording's start; `identity`: of the recording it is in.

        `silence_ns`: after this time without a message the archive is asked whether it has more than the live
        stream gave. `on_change(is_live)`. Raises ChannelError.
        """
        self.recording_id = recording_id
        self.identity = identity
        """Which recording is read; None: the one that the archive has, once it has said so."""
        self.position = None if position == "live" else position
        self.is_live = False
        self.error: OrdoError | None = None
        self.problem = ""
        self._starts_live = position == "live"
        self._client = client
        self._settings = settings
        self._channel = _untethered(channel)
        self._stream_id = stream_id
        self._replay_stream_id = REPLAY_STREAM_ID_DEFAULT + (stream_id == REPLAY_STREAM_ID_DEFAULT)
        """The stream id of replays, another than the stream's own: over IPC, readers and recorders of the stream would
        get the replay as well."""
        self._silence_ns = silence_ns
        self._on_change = on_change
        self._driver = DriverRequests(client)
        self._session: ArchiveSession | None = None
        self._closing: list[ArchiveSession] = []
        self._reply: Reply | None = None
        self._on_reply: Callable[[Reply], None] = lambda _: None
        self._descriptor: RecordingDescriptor | None = None
        self._replay: Replay | None = None
        self._adding: DriverRequest | None = None
        self._subscription: Subscription | None = None
        self._image: Image | None = None
        self._handler: Handler = lambda _: None
        self._now_ns = self._retry_ns = self._join_ns = 0
        self._silent_since_ns: int | None = None
        self._recorded_position = self._known_end = NULL_VALUE
        self._join_floor_position = 0
        self._has_looked = self._has_read = self._has_refused = False
        self._beyond_since_ns: int | None = None
        self._difference = ""
        """What was wrong with the live stream that was found last, if it was not the recorded one."""

    # --- duty cycle ---------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """Run one duty cycle: session, replay, live stream.

        Returns the count of things done. Raises nothing: see `error`.
        """
        self._now_ns = now_ns
        work_count = self._driver.work() + sum(session.work(now_ns) for session in self._closing)
        self._closing = [session for session in self._closing if session.is_pending]
        if self.error is not None:
            return work_count
        work_count += self._attend_session(now_ns)
        if self._replay is not None:
            work_count += self._replay.work(now_ns)
            self._attend_replay(self._replay)
        if self._is_joining:
            self._attend_join()
        if self.is_live:
            self._attend_silence()
        elif self._replay is None and not self._is_joining and now_ns >= self._retry_ns and self._has_refused:
            self._ask(control_requests.max_recorded_position(self.recording_id), self._on_end_known)
        elif self._replay is None and not self._is_joining and now_ns >= self._retry_ns:
            self._ask(control_requests.describe_recording(self.recording_id), self._on_described)
        return work_count

    def _attend_session(self, now_ns: int) -> int:
        """Keep a session with the archive, also while the stream is live."""
        session = self._session
        if session is None:
            if now_ns < self._retry_ns:
                return 0
            try:
                session = self._session = ArchiveSession(self._client, self._settings, now_ns)
            except OrdoError as error:
                self._try_again(error)
                return 0
        work_count = session.work(now_ns)
        if session.error is not None:
            self._drop_session()
            self._try_again(session.error)
        elif self._reply is not None and self._reply.is_done:
            reply, self._reply = self._reply, None
            self._on_reply(reply)
        return work_count

    def _ask(self, call: Call[Any], on_reply: Callable[[Reply], None]) -> None:
        """Send the next request, one at a time, once the session exists."""
        if self._session is None or not self._session.is_connected or self._reply is not None:
            return
        try:
            self._reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
            self._on_reply = on_reply
        except OrdoError as error:
            self._try_again(error)

    def _try_again(self, error: OrdoError) -> None:
        """Note the error, and retry a little later, unless that could not help."""
        if is_final(error):
            self._fail(error)
        self.problem = str(error)
        self._retry_ns = self._now_ns + RETRY_INTERVAL_NS

    def _fail(self, error: OrdoError) -> None:
        self.error = error
        self.close()

    # --- replay -------------------------------------------------------------------------------------------------------

    def _on_described(self, reply: Reply) -> None:
        if reply.error is not None or not reply.items:
            unknown = UnknownRecordingError(f"no recording {self.recording_id}", code=ErrorCode.UNKNOWN_RECORDING)
            self._try_again(reply.error or unknown)
            return
        descriptor = control_requests.descriptor_of(reply.items[0])
        if not self._is_same(identity_of(descriptor)):
            return
        self._descriptor = descriptor
        if self.position is None and self._starts_live:
            self._ask_to_join()
            return
        position = self.position = descriptor.start_position if self.position is None else self.position
        if position < descriptor.start_position:
            self._fail(
                ArchiveError(
                    f"recording {self.recording_id} begins at position={descriptor.start_position} now: what it had at "
                    f"position={position} was deleted",
                    code=ErrorCode.INVALID_POSITION,
                )
            )
        elif position % FRAME_ALIGNMENT:  # archives refuse it without a code that says so
            self._fail(
                ArchiveError(
                    f"position={position} is not a multiple of {FRAME_ALIGNMENT}: give one that a message had",
                    code=ErrorCode.INVALID_POSITION,
                )
            )
        elif self._is_over:
            self._on_over(descriptor.stop_position)
        elif self._session is not None:
            self._begin_replay(self._session, position)

    def _is_same(self, identity: str) -> bool:
        """Return whether this is the recording that was read so far: another archive may have its address by now."""
        self.identity = self.identity or identity
        if self.identity == identity:
            return True
        where = self._settings.control_channel
        self._fail(
            OtherRecordingError(
                f"recording {self.recording_id} of the archive at {where} is another one (identity {shown(identity)}) "
                f"than what was read before (identity {shown(self.identity)}): give the archive that has that one, or "
                "begin anew without its position",
                code=ErrorCode.UNKNOWN_RECORDING,
            )
        )
        return False

    def _begin_replay(self, session: ArchiveSession, position: int) -> None:
        self._has_looked = False
        try:
            self._replay = Replay(
                session, self.recording_id, now_ns=self._now_ns, position=position, stream_id=self._replay_stream_id
            )
        except OrdoError as error:
            self._try_again(error)

    @property
    def _is_over(self) -> bool:
        """Whether all of a stopped recording is handed out, as far as the archive has said."""
        descriptor = self._descriptor
        if descriptor is None or descriptor.stop_position == NULL_VALUE:
            return False
        return self.position is None or self.position >= descriptor.stop_position

    def _on_over(self, stop_position: int) -> None:
        """Check once whether another stream has replaced this one; wait for the recording to be extended."""
        if self.position is not None and self.position > stop_position:
            self._note_beyond(stop_position)
            if self.error is not None:
                return
        if self._has_looked:
            self._try_again(ArchiveError(f"recording {self.recording_id} was stopped at {stop_position}"))
            return
        self._has_looked = True
        self._join_floor_position = stop_position
        self._subscribe()

    def _attend_replay(self, replay: Replay) -> None:
        if not replay.is_done:
            return
        self._replay = None
        self._leave_live("")
        error = replay.error or ArchiveError(f"the replay of recording {self.recording_id} has ended")
        is_refused = isinstance(error, ArchiveError) and error.code == ErrorCode.INVALID_POSITION
        if is_refused and not self._is_recorded:  # it may be recorded yet: how far the archive is, is asked
            self.problem = str(error)
            self._has_refused = True
            self._retry_ns = self._now_ns + RETRY_INTERVAL_NS
        else:
            self._try_again(error)

    @property
    def _is_recorded(self) -> bool:
        """Whether the archive is known to have recorded what comes before the position."""
        return self.position is not None and self.position <= self._known_end

    def _on_end_known(self, reply: Reply) -> None:
        """Handle the end of the recording after a refusal; a position inside a record fails at the next attempt."""
        self._has_refused = False
        if reply.error is not None:
            self._try_again(reply.error)
            return
        self._known_end = reply.relevant_id
        if self._is_recorded:
            self._beyond_since_ns = None
        else:
            self._note_beyond(reply.relevant_id)

    def _note_beyond(self, end_position: int) -> None:
        """Wait for a while at a position beyond the recording: live messages may be recorded late."""
        if self._has_read:
            return
        if self._beyond_since_ns is None:
            self._beyond_since_ns = self._now_ns
        elif self._now_ns - self._beyond_since_ns >= BEYOND_PATIENCE_NS:
            self._fail(
                ArchiveError(
                    f"position={self.position} is beyond the end of recording {self.recording_id}, which is position="
                    f"{end_position}: begin there or below",
                    code=ErrorCode.INVALID_POSITION,
                )
            )

    def _poll_replay(self, replay: Replay, limit: int) -> int:
        count = replay.poll(self._on_message, limit)
        self._pass_padding(replay.position)
        is_at_end = count < limit
        if is_at_end and not self._is_joining and self._now_ns >= self._join_ns:
            self._ask_to_join()
        return count

    def _pass_padding(self, position: int) -> None:
        """Move on to the end of a term of which only padding is left: no message reaches beyond it."""
        assert self._descriptor is not None and self.position is not None
        if position > self.position and position % self._descriptor.term_length == 0:
            self.position = position

    # --- live stream --------------------------------------------------------------------------------------------------

    @property
    def _is_joining(self) -> bool:
        has_asked = self._adding is not None or self._subscription is not None
        return has_asked and not self.is_live

    def _ask_to_join(self) -> None:
        """Ask how far the recording goes, before joining the live stream.

        The stream is at least as far wherever it is joined after that.
        """
        self._ask(control_requests.max_recorded_position(self.recording_id), self._on_join_floor)

    def _on_join_floor(self, reply: Reply) -> None:
        if reply.error is not None:
            self._try_again(reply.error)
        elif not self.is_live and not self._is_joining:
            self._join_floor_position = reply.relevant_id
            self._subscribe()

    def _subscribe(self) -> None:
        """Ask for the live stream, which is taken once the replay has reached the place where it begins."""
        self._join_ns = self._now_ns + JOIN_TIMEOUT_NS
        self._adding = self._driver.add_subscription(
            self._channel, self._stream_id, self._on_subscription, self._on_no_subscription, lambda _: None
        )

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription

    def _on_no_subscription(self, error: OrdoError) -> None:
        self._adding = None
        self._fail(error)

    def _attend_join(self) -> None:
        """Go live where replay and live stream meet; leave the live stream if the replay is too slow for it."""
        subscription, descriptor = self._subscription, self._descriptor
        if subscription is None or descriptor is None:
            return
        if self._image is None:
            self._find_image(subscription, descriptor.session_id)
        image = self._image
        if image is None:
            return
        difference = difference_of(image, descriptor, self._join_floor_position)
        if difference or self._is_over:
            self._leave_stranger(image, difference)
            return
        if self.position is None:
            self.position = image.join_position
        if image.is_closed:
            self._leave_live("the live stream ended before it was reached")
        elif self.position >= image.join_position:
            self._go_live()
        elif self._now_ns >= self._join_ns:
            self._leave_live(f"the replay did not reach the live stream at position={image.join_position} in time")

    def _find_image(self, subscription: Subscription, session_id: int) -> None:
        """Find the image of the live stream.

        A replay goes on for as long as it is not there; without a replay, the session may be another by now.
        """
        self._image = subscription.image_by_session_id(session_id)
        if self._image is not None:
            self._join_ns = self._now_ns + JOIN_TIMEOUT_NS
        elif self._replay is None and self._now_ns >= self._join_ns:
            self._leave_live(f"no live stream of session {session_id} in {self._channel}")

    def _leave_stranger(self, image: Image, difference: str) -> None:
        """Leave a live stream that is not the recorded one: an error, once all of the recording is handed out.

        Until then the archive has what is due. It is found twice, with the archive asked in between: a recording may
        just have been extended. A stream that has ended is no longer in anybody's place.
        """
        what = f"the live stream of session {image.session_id} in {self._channel}"
        is_there = not image.is_closed and not image.is_end_of_stream
        is_wrong = bool(difference and self._difference) and self._is_over and is_there
        self._difference = difference
        self._has_looked = self._has_looked and not difference
        if not is_wrong:
            stopped = f"recording {self.recording_id} was stopped"
            self._leave_live(f"{what} is not the one that was recorded: {difference}" if difference else stopped)
            return
        self._fail(
            OtherRecordingError(
                f"{what} is not the one of recording {self.recording_id}, which has ended: {difference}; "
                "a publisher began anew with the same session id: read the recording of its new stream",
                code=ErrorCode.INVALID_EXTENSION,
            )
        )

    def _go_live(self) -> None:
        self._silent_since_ns = None
        self._difference = ""
        self.is_live = True
        if self._replay is not None:
            self._replay.close()
            self._replay = None
        self._on_change(True)

    def _leave_live(self, reason: str) -> None:
        """Leave the live stream; what follows comes from the archive."""
        if self._adding is not None:
            self._adding.abandon()
        if self._subscription is not None:
            self._subscription.close()
        self._adding = self._subscription = self._image = None
        self._join_ns = self._now_ns + JOIN_TIMEOUT_NS
        self.problem = reason or self.problem
        if self.is_live:
            self.is_live = False
            self._on_change(False)

    def _poll_live(self, image: Image, limit: int) -> int:
        is_closed = image.is_closed
        count = image.poll_messages(self._on_live_message, limit)
        if count > 0:
            self._silent_since_ns = None
        elif is_closed or image.is_end_of_stream:
            self._leave_live(f"the live stream was lost at position={self.position}")
        elif self._silent_since_ns is None:
            self._silent_since_ns = self._now_ns
            self._recorded_position = NULL_VALUE
        return count

    def _attend_silence(self) -> None:
        """Leave a live stream that is silent while the archive has more, because it has a gap that is never filled.

        That happens to a receiver that was too slow for a stream whose sender does not wait for it. Asked is twice, so
        that a message on its way is waited for.
        """
        if self._silent_since_ns is None or self._now_ns - self._silent_since_ns < self._silence_ns:
            return
        assert self.position is not None
        if self._recorded_position > self.position:
            self._leave_live(f"the live stream stands still at position={self.position}")
        else:
            self._ask(control_requests.max_recorded_position(self.recording_id), self._on_recorded)

    def _on_recorded(self, reply: Reply) -> None:
        if reply.error is not None:
            self._try_again(reply.error)
        elif self._silent_since_ns is not None:
            self._silent_since_ns = self._now_ns
            self._recorded_position = reply.relevant_id

    # --- messages -----------------------------------------------------------------------------------------------------

    def poll(self, handler: Handler, limit: int) -> int:
        """Call `handler(message)` for what has come, at most `limit` fragments; return how many."""
        self._handler = handler
        if self.is_live and self._image is not None:
            return self._poll_live(self._image, limit)
        return 0 if self._replay is None else self._poll_replay(self._replay, limit)

    def _on_message(self, message: RecordedMessage) -> None:
        self._has_read = True
        self.position = message.position
        self._handler(message)

    def _on_live_message(self, payload: bytes, header: Header) -> None:
        assert self.position is not None
        if header.position > self.position:
            self._on_message(RecordedMessage(header.position, payload))

    # --- end ----------------------------------------------------------------------------------------------------------

    def _drop_session(self) -> None:
        if self._replay is not None:
            self._replay.close()
            self._replay = None
        if self._session is not None:
            self._session.close()
            self._closing.append(self._session)
        self._session = self._reply = None

    def close(self) -> None:
        """Give up session, replay and live stream. Idempotent."""
        self._drop_session()
        self._on_change = lambda _: None
        self._leave_live("")


def _untethered(channel: str) -> str:
    """Return the live channel as untethered (transport-wire.md 6.4).

    The stream then never waits for this subscriber, which can go on without it.
    """
    uri = ChannelUri.parse(channel)
    return str(uri if uri.get("tether") else uri.with_params(tether="false"))
