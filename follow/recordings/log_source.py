"""One node as the source of a log reader: a session with its archive, and a replay of its log, or of a topic.

A backup has a node's snapshots replayed in the same way, and records what comes instead of polling it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.codes import REFUSALS, ErrorCode
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.archive.protocol.own_codecs import FIND_LOG_PLACE, PlaceKind, is_set
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Log
from ordo.cluster.wire.streams import LOG_STREAM_ID, topic_of
from ordo.follow.recordings.live_stream import LivePatience, LiveStream
from ordo.follow.recordings.log_proof import LogProof
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, OrdoError
from ordo.transport.client.client import TransportClient
from ordo.transport.control.commands import IPC_IDENTITY
from ordo.transport.frame_layout import FRAME_ALIGNMENT
from ordo.transport.streams.image import Header, Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri, udp

REPLAY_STREAM_ID = 140
RETRY_INTERVAL_NS = 50_000_000
RECORDED_AGAIN = {"rcv_wnd": 2 << 20, "so_rcvbuf": 4 << 20}
"""How much may be on its way to a backup or standby, as to a follower: the default holds up one that is far away."""


class SourceState(Enum):
    """The state of a source."""

    CONNECTING = "a session with the node's archive is being opened"
    FINDING = "the archive is asked for the recording of the log"
    PROVING = "the archive is asked whose log it was where the reader is"
    MEASURING = "the archive is asked how far the log is committed"
    READY = "the log is there; nothing is replayed yet"
    SUBSCRIBING = "the driver is asked for the subscription"
    STARTING = "the archive is asked for a replay"
    REPLAYING = "entries come"
    ENDED = "over; `reason` says why"


UNANSWERED = (SourceState.CONNECTING, SourceState.FINDING, SourceState.MEASURING, SourceState.PROVING)


class LogSource:
    """Opens a session, finds the log, and replays it from `begin`'s position on. Never waits: `work` every duty cycle.

    Once READY, `start_position` and `end_position` say what the node has, in bytes. Whatever goes wrong ends it, with a
    `reason`; `is_too_old` when the node does not have the position any more.
    """

    is_beyond = False
    """The node's log ends before the position that was asked for, as far as it has said last."""

    def __init__(
        self,
        client: TransportClient,
        settings: ArchiveClientSettings,
        now_ns: int,
        *,
        recording_id: int | None = None,
        stream_id: int | None = REPLAY_STREAM_ID,
        topic: str | None = None,
        record_filter: Mapping[str, str] | None = None,
        patience: LivePatience | None = None,
        cluster: KnownCluster | None = None,
    ) -> None:
        """`recording_id`: another recording than the log; `topic`: that of a topic of the feeds.

        `stream_id`: that of the replay; None: that of the recording, where it is recorded again. `record_filter`:
        what the archive is to leave out, as parameters of the replay's channel (`ordo.follow.entries.record_filter`).
        `patience`: of a reader that goes over to the stream that the node's readers share; None: it keeps its own
        replay. `cluster`: the one that the node must be of, for which it has the error then; None: any. Raises
        TransportError, ChannelError.
        """
        self.address = settings.control_channel
        self.state = SourceState.CONNECTING
        self.reason = ""
        self.is_too_old = False
        self.has_nothing = False
        """The node has no such recording, or none yet."""
        self.is_leader = False
        """The node writes the log: it records what its own driver sends. False, too, when the log is hidden."""
        self.error: OrdoError | None = None
        """What the archive, or the driver, has ended it with."""
        self.is_between_frames = True
        """False when no frame begins at the position that was asked for."""
        self.descriptor: RecordingDescriptor | None = None
        """The recording of the log, once it was found."""
        self.start_position = -1
        self.end_position = -1
        self.position = -1
        self._client = client
        self._settings = settings
        self._driver = DriverRequests(client)
        self._session = ArchiveSession(client, settings, now_ns)
        self._length: int | None = None
        self._stream_id = stream_id
        self._topic = topic
        self._record_filter = dict(record_filter or {})
        self._recording_id = -1 if recording_id is None else recording_id
        self._reply: Reply | None = None
        self._on_reply: Callable[[Reply], None] = lambda _: None
        self._adding: DriverRequest | None = None
        self._subscription: Subscription | None = None
        self._image: Image | None = None
        self._replay_id = -1
        self._retry_ns = self._image_deadline_ns = 0
        self._patience = patience
        self._proof = LogProof(self._session, cluster or KnownCluster(), self.address)
        self._live: LiveStream | None = None
        self._has_caught_up = False

    @property
    def has_answered(self) -> bool:
        """Whether the node has answered where its recording begins and ends."""
        return self.state not in UNANSWERED

    @property
    def limit_position(self) -> int | None:
        """What is behind it may be of another cluster, until the node says whose log it has; None: no limit."""
        return self._proof.cluster.find_limit(self._proof.told)

    @property
    def told(self) -> Log | None:
        """Which cluster's log the node has, as it said last."""
        return self._proof.told

    @property
    def is_unproven(self) -> bool:
        """The node cannot show that what was read is a beginning of its log, and will not be able to."""
        return self._proof.is_impossible

    @property
    def is_refused(self) -> bool:
        """The node does not let this client read, and would not the next time."""
        return isinstance(self.error, ArchiveError) and self.error.code in REFUSALS

    @property
    def is_damaged(self) -> bool:
        """Its archive has refused to send what is there, as it does with frames that are damaged."""
        error = self.error
        is_answer = isinstance(error, ArchiveError) and not isinstance(error, ArchiveTimeoutError)
        return is_answer and error.code == ErrorCode.GENERIC  # type: ignore[union-attr]

    @property
    def is_ended(self) -> bool:
        return self.state is SourceState.ENDED

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes an answer, whose resource must be closed when it comes."""
        return self._driver.is_pending or self._session.is_pending

    # --- steps --------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        if self.is_ended:
            return self._driver.work() + self._session.work(now_ns)
        work_count = self._driver.work() + self._session.work(now_ns)
        if self._session.error is not None:
            self._end_with(self._session.error)
        elif self.state is SourceState.CONNECTING and self._session.is_connected:
            self.state = SourceState.FINDING
            self._ask(self._find_recording(), self._on_recordings)
        elif self._reply is not None and self._reply.is_done:
            reply, self._reply = self._reply, None
            self._on_reply(reply)
        elif self._session.late_errors:
            self._end_with(self._session.late_errors.popleft()[1])
        elif self.state is SourceState.SUBSCRIBING:
            self._start_when_bound(now_ns)
        elif self.state is SourceState.REPLAYING and self._image is None and not self.is_live:
            self._find_image(now_ns)
        elif self._patience is not None and self.state is SourceState.REPLAYING:
            self._attend_live(self._patience, now_ns)
        return work_count

    def _ask(self, call: Call[Any], on_reply: Callable[[Reply], None]) -> None:
        try:
            self._reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
            self._on_reply = on_reply
        except OrdoError as error:
            self._end_with(error)

    def _find_recording(self) -> Call[Any]:
        if self._topic is not None:
            return control_requests.list_recordings()
        is_log = self._recording_id == -1
        return (
            control_requests.list_recordings(stream_id=LOG_STREAM_ID) if is_log else self._find_one(self._recording_id)
        )

    def _find_one(self, recording_id: int) -> Call[Any]:
        return control_requests.list_recordings(from_recording_id=recording_id, count=1)

    def _on_recordings(self, reply: Reply) -> None:
        """Choose the newest recording of the stream, which is the log or the topic."""
        if reply.error is not None:
            self._end_with(reply.error)
            return
        if not self._proof.cluster.admits(self._proof.told, self.address):
            self.end("is of another cluster")
            return
        self.is_leader = self._writes_log(reply.items)
        items = [one for one in reply.items if self._topic is None or self._is_topic(one)]
        if not items:
            what = "log" if self._topic is None else f"topic {self._topic}"
            self.has_nothing = True
            self.end(f"has no {what} yet")
            return
        newest = control_requests.descriptor_of(items[-1])
        if self._recording_id not in (-1, newest.recording_id):
            self.end(f"has no recording {self._recording_id} any more")
            return
        self.descriptor = newest
        if self._stream_id is None:
            self._stream_id = newest.stream_id
        self._recording_id, self.start_position = newest.recording_id, newest.start_position
        if self._proof.is_early:
            self._measure()  # it may come to where the reader is: then
        else:
            self._prove(self._measure)

    def _measure(self) -> None:
        self.state = SourceState.MEASURING
        self._ask(control_requests.max_recorded_position(self._recording_id), self._on_measured)

    # --- whose log it is ----------------------------------------------------------------------------------------------

    def _prove(self, go_on: Callable[[], None]) -> None:
        """Ask the node whose log it was where the reader is, if that is in doubt, and go on where it is this log."""
        try:
            reply, reason = self._proof.ask()
        except OrdoError as error:
            self._end_with(error)
            return
        if reason:
            self.end(reason)
        elif reply is None:
            go_on()
        else:
            self.state = SourceState.PROVING
            self._reply, self._on_reply = reply, lambda answer: self._on_proof(answer, go_on)

    def _on_proof(self, reply: Reply, go_on: Callable[[], None]) -> None:
        if reply.error is not None:
            self._end_with(reply.error)
        elif reason := self._proof.judge(reply):
            self.end(reason)
        else:
            go_on()

    @staticmethod
    def _writes_log(items: Sequence[Any]) -> bool:
        found = [control_requests.descriptor_of(item) for item in items]
        logs = [one for one in found if one.stream_id == LOG_STREAM_ID]
        return bool(logs) and logs[-1].is_active and logs[-1].source_identity == IPC_IDENTITY

    def _is_topic(self, item: Any) -> bool:
        return topic_of(control_requests.descriptor_of(item).original_channel) == self._topic

    def _on_measured(self, reply: Reply) -> None:
        if reply.error is not None:
            self._end_with(reply.error)
            return
        self.end_position = reply.relevant_id
        self.state = SourceState.READY

    def ask_place(self, kind: PlaceKind, value: int) -> Reply | None:
        """Ask a node that is READY where its log has a number or a time; the reply has a LogPlace, or an error.

        None where the node has no index, or cannot be asked.
        """
        told = self._session.log_identity
        if told is None or not is_set(told.has_index):
            return None
        try:
            return self._session.request(FIND_LOG_PLACE, kind=kind, value=value)
        except OrdoError:
            return None

    def measure(self) -> Reply | None:
        """Ask a node that is read how far its log is committed now: its reply says so as `relevant_id`.

        None where the node cannot be asked now. A reply of a node that is left does not come.
        """
        if self.state is not SourceState.REPLAYING:
            return None
        call = control_requests.max_recorded_position(self._recording_id)
        try:
            return self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
        except OrdoError as error:
            self._end_with(error)
            return None

    def begin(self, position: int, length_bytes: int | None = None) -> None:
        """Replay from a position on, where an entry begins; call once, when READY.

        The log is followed for ever, or for `length_bytes`: `rewind` allows another one then.
        """
        assert self.state is SourceState.READY
        if position < self.start_position:
            self.is_too_old = True
            self.end(f"has the log from position={self.start_position} on only")
            return
        cluster = self._proof.cluster
        if cluster.is_behind(self._proof.told):
            self.end(f"does not say yet that it is of the cluster with identity {cluster.origin}")
            return
        self.position = position
        self._length = length_bytes
        self.state = SourceState.SUBSCRIBING
        response = ChannelUri.parse(self._settings.response_channel).endpoint
        assert response is not None and self._stream_id is not None
        self._adding = self._driver.add_subscription(
            udp(endpoint=response._replace(port=0), **({} if self._stream_id == REPLAY_STREAM_ID else RECORDED_AGAIN)),
            self._stream_id,
            self._on_subscription,
            lambda error: self.end(str(error)),
            lambda _: None,
        )

    def rewind(self) -> None:
        """Give up a replay of `length_bytes`, which the archive ends by itself. READY again."""
        assert self.state is SourceState.REPLAYING and self._length is not None and self._subscription is not None
        self._subscription.close()
        self._subscription = self._image = None
        self._retry_ns = 0
        self.state = SourceState.READY

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription

    def _start_when_bound(self, now_ns: int) -> None:
        if self._subscription is None or self._subscription.resolved_endpoint is None or now_ns < self._retry_ns:
            return
        endpoint = ChannelUri.parse(self._settings.response_channel).endpoint
        assert endpoint is not None and self._stream_id is not None
        port = int(self._subscription.resolved_endpoint.rpartition(":")[2])
        channel = udp(endpoint=endpoint._replace(port=port), **self._record_filter)
        self._retry_ns = now_ns + RETRY_INTERVAL_NS
        self.state = SourceState.STARTING
        self._ask(
            control_requests.start_replay(
                self._recording_id,
                channel,
                self._stream_id,
                position=self.position,
                length=self._length,
                limit_counter_id=None,
            ),
            self._on_started,
        )

    def _on_started(self, reply: Reply) -> None:
        """Handle the start: a node whose log ends before the position refuses it until it has caught up.

        It is asked how far it is.
        """
        error = reply.error
        if isinstance(error, ArchiveError) and self._is_of_position(error):
            if self.position > self.end_position:
                self._ask(control_requests.max_recorded_position(self._recording_id), self._on_measured_again)
            else:
                self.is_between_frames = False
                self.end(str(error))
        elif error is not None:
            self._end_with(error)
        else:
            self._replay_id = reply.relevant_id
            self._image_deadline_ns = reply.deadline_ns
            if self._proof.is_unsaid:
                self._ask(self._find_one(self._recording_id), lambda _: self._prove(self._replay))  # it may know by now
            else:
                self._prove(self._replay)

    def _replay(self) -> None:
        """Take what comes: it goes on with what was read."""
        self._proof.cluster.adopt(self._proof.told, self.address)
        self.state = SourceState.REPLAYING

    def _is_of_position(self, error: ArchiveError) -> bool:
        """Return whether the archive refused because of the position; for one between frames it has no such code."""
        return error.code == ErrorCode.INVALID_POSITION or self.position % FRAME_ALIGNMENT != 0

    def _on_measured_again(self, reply: Reply) -> None:
        if reply.error is not None:
            self._end_with(reply.error)
            return
        self.end_position = reply.relevant_id
        self.is_beyond = self.position > self.end_position
        self.state = SourceState.SUBSCRIBING

    def _find_image(self, now_ns: int) -> None:
        assert self._subscription is not None
        session_id = (self._replay_id & 0xFFFFFFFF) - ((self._replay_id & 0x80000000) << 1)
        self._image = self._subscription.image_by_session_id(session_id)
        if self._image is None:
            if now_ns >= self._image_deadline_ns:
                self.end("its replay did not arrive")
        elif self._image.join_position != self.position:
            self.end(f"its replay began at position={self._image.join_position}, asked for was {self.position}")

    # --- the stream that readers share --------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether entries come from the stream that the node sends to all its readers alike."""
        return self._live is not None and self._live.is_live

    def _attend_live(self, patience: LivePatience, now_ns: int) -> None:
        """Ask for the shared stream once the replay has caught up; leave the node, and so its stream, if too slow."""
        live = self._live
        if live is None:
            if self._has_caught_up and self._length is None and now_ns >= patience.due_ns:
                patience.note_begin(now_ns)
                self._join_live(now_ns)
            return
        was_live = live.is_live
        live.work(self._position_read, now_ns)
        if live.is_live and not was_live:
            patience.note_begin(now_ns)
            self._drop_replay()
        elif live.is_ended:
            patience.note_end(now_ns)
            self._live, self._has_caught_up = None, False
            if was_live:
                self.end(live.reason)

    def _join_live(self, now_ns: int) -> None:
        try:
            self._live = LiveStream(
                self._session,
                self._driver,
                self._recording_id,
                self._settings.response_channel,
                now_ns,
            )
        except OrdoError as error:
            self._end_with(error)

    @property
    def _position_read(self) -> int:
        """No message that begins below it is still to come by the replay."""
        image = self._image
        is_between = image is not None and image.is_between_messages
        return max(self.position, image.position) if is_between and image is not None else self.position

    def _drop_replay(self) -> None:
        """Drop the own replay: the shared stream has all that follows."""
        assert self._subscription is not None
        self._subscription.close()
        self._subscription = self._image = None
        self._ask(control_requests.stop_replay(self._replay_id), lambda _: None)

    @property
    def image(self) -> Image | None:
        """The image that is read: of this source's replay, or of the stream that readers share.

        None until it exists.
        """
        if self.state is not SourceState.REPLAYING:
            return None
        return self._live.image if self._live is not None and self._live.is_live else self._image

    # --- entries ------------------------------------------------------------------------------------------------------

    def poll(self, handler: Callable[[int, bytes], object], limit: int) -> int:
        """Call `handler(position, record)` for what has come, at most `limit` fragments; return how many.

        With a filter, `position` goes on over what the archive left out.
        """
        image = self.image
        if image is None:
            return 0

        def on_record(record: bytes, header: Header) -> None:
            if header.position > self.position:
                self.position = header.position
                handler(header.position, record)

        has_ended = image.is_closed or image.is_end_of_stream
        count = image.poll_messages(on_record, limit)
        if self._record_filter and image.is_between_messages:
            self.position = max(self.position, image.position)
        self._has_caught_up = self._has_caught_up or (count == 0 and self.position >= self.end_position)
        if count == 0 and has_ended:
            self.end("its replay ended")
        return count

    def poll_block(self, handler: Callable[[int, memoryview], object], limit_bytes: int) -> int:
        """Call `handler(position, frames)` once for whole frames, as the log has them; return their bytes.

        `position` is that of the first frame, and the view is readable inside the call only.
        """
        image = self._image
        if self.state is not SourceState.REPLAYING or image is None:
            return 0
        begin = self.position
        has_ended = image.is_closed or image.is_end_of_stream
        count = image.block_poll(lambda frames, _session_id, _term_id: handler(begin, frames), limit_bytes)
        self.position += count
        if count == 0 and has_ended:
            self.end("its replay ended")
        return count

    def _end_with(self, error: OrdoError) -> None:
        self.error = error
        self.end(str(error))

    def end(self, reason: str) -> None:
        """End this source for a reason of its own, or of its reader."""
        if not self.is_ended:
            self.reason = reason
            self.close()

    def close(self) -> None:
        """Give up session and replay. Idempotent."""
        self.state = SourceState.ENDED
        if self._adding is not None:
            self._adding.abandon()
            self._adding = None
        if self._subscription is not None:
            self._subscription.close()
        if self._live is not None:
            self._live.end("the node is left")
            self._live = None
        self._image = None
        self._session.close()
