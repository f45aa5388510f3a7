"""Replication of recordings from another archive (archive.md A9)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from ordo.archive.archive import Archive
from ordo.archive.channels import answering_channel, answers_requester
from ordo.archive.client import control_requests
from ordo.archive.client.comparison import Comparison
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.live_join import JoinedRecording, LiveJoin
from ordo.archive.control.recordings import RecordingRequests
from ordo.archive.control.session import ControlSession
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import NULL_LENGTH, ErrorCode, RecordingSignal
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.archive.recorder import Recording
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError, OrdoError, UnknownRecordingError
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE
from ordo.transport.client.client import TransportClient
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

    ReplicationOrder = records.ReplicateRequest | records.TaggedReplicateRequest | records.ReplicateRequest2

MESSAGE_TIMEOUT_NS = 10_000_000_000
REPLAY_REQUEST_TERM_LENGTH = 64 * 1024


class ReplicationState(Enum):
    """The state of a replication."""

    CONNECTING = "a session with the source archive is being opened"
    DESCRIBING = "the source is asked for its recording"
    COMPARING = "the source is asked for a message of the part that is here"
    SUBSCRIBING = "the driver is asked for the subscription"
    CONNECTING_REPLAY = "a stream that a replay goes back to is being opened"
    STARTING = "the source is asked for a replay"
    AWAITING_IMAGE = "the replay is waited for"
    RECORDING = "the replay is recorded"
    DONE = "over; is removed"


AWAITING = (ReplicationState.CONNECTING_REPLAY, ReplicationState.AWAITING_IMAGE)


class Replication:
    """A recording that is copied from another archive, for a client that knows it as `replication_id`."""

    def __init__(
        self,
        owner: ReplicationRequests,
        session: ControlSession,
        request: ReplicationOrder,
        replication_id: int,
        now_ns: int,
    ) -> None:
        """Begin a replication. Raises ChannelError, TransportError."""
        self.replication_id = replication_id
        self.state = ReplicationState.CONNECTING
        self._owner = owner
        self._session = session
        self._source_id: int = request.source_recording_id
        self._target_id: int = request.target_recording_id
        self._stop_position: int = getattr(request, "stop_position", NULL_POSITION)
        self._session_id: int = getattr(request, "replication_session_id", NULL_VALUE)
        self._file_io_length_max: int = getattr(request, "file_io_length_max", NULL_VALUE)
        self._channel = owner.replication_channel(getattr(request, "replication_channel", ""))
        self._live_destination: str = request.live_destination
        self._tags = _tags_of(request, replication_id)
        self._source_channel: str = request.source_control_channel
        self._source_stream_id: int = request.source_control_stream_id
        is_ipc = ChannelUri.parse(request.source_control_channel).is_ipc
        own_response = "aeron:ipc" if is_ipc else self._answers_channel
        self._source = ArchiveSession(
            owner.client,
            ArchiveClientSettings(
                control_channel=request.source_control_channel,
                control_stream_id=request.source_control_stream_id,
                response_channel=getattr(request, "source_response_channel", "") or own_response,
                credentials=getattr(request, "encoded_credentials", b""),
                name="replication",
            ),
            now_ns,
        )
        self._source_descriptor: RecordingDescriptor | None = None
        self._reply: Reply | None = None
        self._on_reply: Callable[[Reply], None] = lambda _: None
        self._adding: DriverRequest | None = None
        self._subscription: Subscription | None = None
        self._recording: Recording | None = None
        self._join: LiveJoin | None = None
        self._replay_publication: ExclusivePublication | None = None
        self._comparison: Comparison | None = None
        self._now_ns = now_ns
        self._replay_id = NULL_VALUE
        self._replay_token = NULL_VALUE
        self._deadline_ns = 0

    # --- steps --------------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return self.state is ReplicationState.DONE and not self._source.is_pending

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        self._now_ns = now_ns
        work_count = self._source.work(now_ns)
        if self.state is ReplicationState.DONE:
            return work_count
        if self._source.error is not None:
            is_connecting = self.state is ReplicationState.CONNECTING
            code = ErrorCode.REPLICATION_CONNECTION_FAILURE if is_connecting else ErrorCode.GENERIC
            self._fail(ArchiveError(f"replication from the source archive failed: {self._source.error}", code=code))
        elif self._source.late_errors and self._recording is None:
            self._fail(self._source.late_errors.popleft()[1])
        elif self.state is ReplicationState.CONNECTING and self._source.is_connected:
            self.state = ReplicationState.DESCRIBING
            self._ask(control_requests.describe_recording(self._source_id), self._on_described)
        elif self._reply is not None and self._reply.is_done:
            reply, self._reply = self._reply, None
            self._on_reply(reply)
        elif self._comparison is not None and self.state is ReplicationState.COMPARING:
            work_count += self._compare(self._comparison)
        elif self.state is ReplicationState.SUBSCRIBING:
            self._start_when_bound(now_ns)
        elif self.state is ReplicationState.CONNECTING_REPLAY:
            self._ask_by_token()
        if self.state in AWAITING and now_ns >= self._deadline_ns:
            self._fail(ArchiveError(f"the replay of source recording {self._source_id} did not arrive"))
        elif self.state is ReplicationState.RECORDING:
            self._follow(now_ns)
        return work_count

    def _ask(self, call: Call[Any], on_reply: Callable[[Reply], None], via: ExclusivePublication | None = None) -> None:
        try:
            self._reply = self._source.request(call.message, item_count_max=call.item_count_max, via=via, **call.fields)
            self._on_reply = on_reply
        except OrdoError as error:
            self._fail(error)

    def _on_described(self, reply: Reply) -> None:
        if reply.error is not None or not reply.items:
            error = reply.error or ArchiveError(
                f"unknown src recording id {self._source_id}", code=ErrorCode.UNKNOWN_RECORDING
            )
            self._fail(error)
            return
        self._source_descriptor = source = control_requests.descriptor_of(reply.items[0])
        try:
            self._check_source(source)
            target = self._prepare_target(source)
            if target.stop_position > target.start_position:
                self._comparison = Comparison(self._owner.archive, self._source, source, target, self._now_ns)
                self.state = ReplicationState.COMPARING
                return
        except OrdoError as error:
            self._fail(error)
            return
        self._go_on(source, target)

    def _compare(self, comparison: Comparison) -> int:
        work_count = comparison.work(self._now_ns)
        if comparison.error is not None:
            self._fail(comparison.error)
        elif comparison.is_done:
            assert self._source_descriptor is not None
            self._go_on(self._source_descriptor, self._owner.archive.descriptor(self._target_id))
        return work_count

    def _go_on(self, source: RecordingDescriptor, target: RecordingDescriptor) -> None:
        """Subscribe to a replay of the missing part, or end if nothing is missing."""
        if source.stop_position in (source.start_position, target.stop_position):
            self._signal(RecordingSignal.SYNC, source.stop_position)
            self.end()
            return
        if self._session_id == NULL_VALUE or self._live_destination:
            self._session_id = source.session_id
        self.state = ReplicationState.SUBSCRIBING
        self._adding = self._owner.driver.add_subscription(
            self._subscription_channel(),
            source.stream_id,
            self._on_subscription,
            self._fail,
            self._on_image,
        )

    def _check_source(self, source: RecordingDescriptor) -> None:
        """Raise ArchiveError when the source may not read a whole frame at a time, or has no live stream to join."""
        if self._live_destination and source.stop_position != NULL_POSITION:
            raise ArchiveError(
                f"replication cannot live merge: source recording {self._source_id} is stopped, not active; replicate "
                "it without a live destination"
            )
        if self._file_io_length_max != NULL_VALUE and self._file_io_length_max < source.mtu:
            raise ArchiveError(
                f"fileIoMaxLength={self._file_io_length_max} is less than mtuLength={source.mtu} of source recording "
                f"{self._source_id}"
            )

    def _prepare_target(self, source: RecordingDescriptor) -> RecordingDescriptor:
        """Return the recording to extend.

        It is a new one, one that is empty and becomes the source's, or one that has a part.
        """
        catalog = self._owner.archive.catalog
        empty = source._replace(stop_position=source.start_position, stop_timestamp=source.start_timestamp)
        if self._target_id == NULL_VALUE:
            target = catalog.add(empty)
            self._target_id = target.recording_id
            self._signal(RecordingSignal.REPLICATE, target.start_position)
            return target
        target = self._owner.stopped_target(self._target_id)
        if target.start_position == target.stop_position:
            changes = empty._asdict()
            del changes["recording_id"], changes["state"]
            return catalog.update(self._target_id, **changes)
        return target

    def _subscription_channel(self) -> str:
        """Return the channel that is recorded: with tags or a live stream one whose transports are added by hand."""
        uri = ChannelUri.parse(self._channel).with_params(session_id=self._session_id, rejoin=False)
        if self._tags:
            uri = uri.with_params(endpoint=None, interface=None, control_mode="manual", tags=self._tags)
        return str(uri)

    @property
    def _answers_channel(self) -> str:
        """Where the source answers, unless the request says: beside the replay if that has its transport for itself."""
        uri = ChannelUri.parse(self._channel)
        endpoint = uri.endpoint
        if not self._tags or endpoint is None:
            return self._channel
        return str(uri.with_params(endpoint=endpoint._replace(port=0)))

    @property
    def _replay_destination(self) -> str:
        given = ChannelUri.parse(self._channel)
        return str(
            ChannelUri("udp", {key: text for key, text in given.params.items() if key in ("endpoint", "interface")})
        )

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription
        if self._tags:
            self._owner.driver.add_receive_destination(
                subscription, self._replay_destination, lambda _: None, self._fail
            )

    def _start_when_bound(self, now_ns: int) -> None:
        subscription, source = self._subscription, self._source_descriptor
        if subscription is None or source is None:
            return
        uri = ChannelUri.parse(self._channel)
        if answers_requester(self._channel):
            self._start_by_token(now_ns)
            return
        if uri.is_udp:
            if subscription.resolved_endpoint is None:
                return
            endpoint = uri.endpoint
            assert endpoint is not None
            port = int(subscription.resolved_endpoint.rpartition(":")[2])
            uri = uri.with_params(endpoint=endpoint._replace(port=port))
        if self._live_destination:
            uri = uri.with_params(linger=0, eos=False)
        self._deadline_ns = now_ns + MESSAGE_TIMEOUT_NS
        self.state = ReplicationState.STARTING
        self._ask(self._replay_call(str(uri.with_params(session_id=self._session_id))), self._on_started)

    def _replay_call(self, channel: str) -> Call[int]:
        assert self._source_descriptor is not None
        position = self._owner.archive.descriptor(self._target_id).stop_position
        length = self._stop_position - position if self._stop_position != NULL_POSITION else NULL_LENGTH
        return control_requests.start_replay(
            self._source_id,
            channel,
            self._source_descriptor.stream_id,
            position=position,
            length=length,
            limit_counter_id=None,
            file_io_length_max=self._file_io_length_max,
        )

    def _start_by_token(self, now_ns: int) -> None:
        """Ask for a replay over a response channel, in a separate stream, with a token."""
        self._deadline_ns = now_ns + MESSAGE_TIMEOUT_NS
        self.state = ReplicationState.STARTING
        self._ask(
            Call(codecs.REPLAY_TOKEN_REQUEST, {"recording_id": self._source_id}, lambda reply: reply.relevant_id),
            self._on_token,
        )

    def _on_token(self, reply: Reply) -> None:
        if reply.error is not None:
            self._fail(reply.error)
            return
        assert self._subscription is not None
        self._replay_token = reply.relevant_id
        self.state = ReplicationState.CONNECTING_REPLAY
        channel = answering_channel(self._source_channel, self._subscription.registration_id)
        uri = ChannelUri.parse(channel).with_params(term_length=REPLAY_REQUEST_TERM_LENGTH)
        self._adding = self._owner.driver.add_exclusive_publication(
            str(uri), self._source_stream_id, self._on_replay_publication, self._fail
        )

    def _on_replay_publication(self, publication: ExclusivePublication) -> None:
        self._adding = None
        self._replay_publication = publication

    def _ask_by_token(self) -> None:
        if self._replay_publication is None or not self._replay_publication.is_connected:
            return
        call = self._replay_call(str(ChannelUri.parse(self._channel).with_params(session_id=None)))
        call.fields["replay_token"] = self._replay_token
        self.state = ReplicationState.STARTING
        self._ask(call, self._on_started, self._replay_publication)

    def _on_started(self, reply: Reply) -> None:
        if reply.error is not None:
            self._fail(reply.error)
            return
        self._replay_id = reply.relevant_id
        if self._recording is None:
            self.state = ReplicationState.AWAITING_IMAGE

    def _on_image(self, image: Image) -> None:
        if self.state is ReplicationState.DONE or self._recording is not None or self._subscription is None:
            return
        try:
            recording = self._owner.archive.record(image, recording_id=self._target_id, on_stop=self._on_stop)
        except OrdoError as error:
            self._fail(error)
            return
        self._recording = recording
        self._session.responses.send_ok(self.replication_id, self._subscription.registration_id)
        self._signal(RecordingSignal.EXTEND, recording.start_position)
        self.state = ReplicationState.RECORDING
        if self._live_destination:
            self._join = LiveJoin(
                self._owner.driver,
                self._subscription,
                recording,
                self._source_id,
                self._replay_destination,
                self._live_destination,
                self._ask,
                self._fail,
            )

    def _follow(self, now_ns: int) -> None:
        """End at the source's stop, at the position that was asked for, or when the live stream was joined."""
        assert self._recording is not None
        if self._join is not None:
            self._join.work(now_ns)
            if self._join.is_joined:
                self._leave()
                return
        assert self._source_descriptor is not None
        position = self._recording.durable_position
        source_stop = self._source_descriptor.stop_position
        if self._stop_position != NULL_POSITION and position >= self._stop_position:
            self.end()
        elif source_stop != NULL_POSITION and position >= source_stop:
            self._signal(RecordingSignal.SYNC, position)
            self.end()

    def _leave(self) -> None:
        """Leave the recording to the live stream: clients stop it from here on, or its publisher ends it."""
        assert self._recording is not None
        assert self._subscription is not None
        self._signal(RecordingSignal.MERGE, self._recording.written_position)
        self._owner.recordings.adopt(
            JoinedRecording(
                self._owner.recordings,
                self._owner.archive,
                self._session,
                self.replication_id,
                self._subscription,
                self._recording,
            )
        )
        self._recording = self._subscription = None
        self.end()

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        if error is not None:
            self._session.responses.send_error(self.replication_id, error)
        self._signal(RecordingSignal.STOP, recording.durable_position)
        self._recording = None
        self.end()

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _fail(self, error: OrdoError) -> None:
        if self.state is not ReplicationState.DONE:
            self._session.responses.send_error(self.replication_id, error)
            self.end()

    def _signal(self, signal: RecordingSignal, position: int) -> None:
        subscription_id = NULL_VALUE
        if self._subscription is not None and signal is not RecordingSignal.REPLICATE_END:
            subscription_id = self._subscription.registration_id
        self._session.responses.send_signal(self.replication_id, self._target_id, subscription_id, position, signal)

    def end(self) -> None:
        """Stop replay and recording, and tell the client. Idempotent."""
        if self.state is ReplicationState.DONE:
            return
        self.state = ReplicationState.DONE
        if self._replay_id != NULL_VALUE and self._source.is_connected:
            call = control_requests.stop_replay(self._replay_id)
            self._ask(call, lambda _: None)
        self._signal(RecordingSignal.REPLICATE_END, NULL_POSITION)
        if self._recording is not None:
            self._owner.archive.stop(self._recording)
        if self._adding is not None:
            self._adding.abandon()
        for resource in (self._subscription, self._replay_publication, self._comparison):
            if resource is not None:
                resource.close()
        self._source.close()


def _tags_of(request: ReplicationOrder, replication_id: int) -> str:
    """Return the tags of the subscription of a replication that has some, or that joins a live stream; else nothing."""
    tags = [getattr(request, name, NULL_VALUE) for name in ("channel_tag_id", "subscription_tag_id")]
    if tags == [NULL_VALUE, NULL_VALUE] and not request.live_destination:
        return ""
    return ",".join(str(replication_id if tag == NULL_VALUE else tag) for tag in tags)


class ReplicationRequests:
    """What clients have this archive copy from others."""

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        driver: DriverRequests,
        config: ControlSettings,
        recordings: RecordingRequests,
    ) -> None:
        self.archive = archive
        self.recordings = recordings
        self.client = client
        self.driver = driver
        self._config = config
        self._replications: dict[int, Replication] = {}
        self._now_ns = 0
        self.handlers: dict[int, Callable[[ControlSession, Any], None]] = {
            codecs.REPLICATE_REQUEST.template_id: self._replicate,
            codecs.TAGGED_REPLICATE_REQUEST.template_id: self._replicate,
            codecs.REPLICATE_REQUEST_2.template_id: self._replicate,
            codecs.STOP_REPLICATION_REQUEST.template_id: self._stop,
        }

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
        self._now_ns = now_ns
        work_count = 0
        for replication in list(self._replications.values()):
            work_count += replication.work(now_ns)
            if replication.is_done:
                del self._replications[replication.replication_id]
        return work_count

    def close(self) -> None:
        for replication in self._replications.values():
            replication.end()

    def replication_channel(self, asked: str) -> str:
        """Return where replays of other archives come in.

        Raises ArchiveError if neither request nor settings say so.
        """
        if asked:
            return asked
        channel = self._config.replication_channel
        if channel is None:
            raise ArchiveError("this archive has no replication channel; give one in the request")
        return channel

    def stopped_target(self, recording_id: int) -> RecordingDescriptor:
        """Return a recording that may be extended. Raises UnknownRecordingError, ArchiveError."""
        descriptor = self.archive.descriptor(recording_id)
        if self.archive.recording(recording_id) is not None or descriptor.is_active:
            raise ArchiveError(
                f"cannot replicate to active recording {recording_id}: stop it first", code=ErrorCode.ACTIVE_RECORDING
            )
        return descriptor

    def _known_target(self, recording_id: int) -> None:
        """Raise UnknownRecordingError for a target that is not there, ArchiveError for one that is being recorded."""
        if self.archive.catalog.find(recording_id) is None:
            raise UnknownRecordingError(
                f"unknown destination recording id {recording_id}", code=ErrorCode.UNKNOWN_RECORDING
            )
        self.stopped_target(recording_id)

    def _replicate(
        self,
        session: ControlSession,
        request: ReplicationOrder,
    ) -> None:
        if len(self._replications) >= self._config.recordings_max:
            raise ArchiveError(
                f"{len(self._replications)} replications are active, the most this archive allows",
                code=ErrorCode.MAX_RECORDINGS,
            )
        channel = self.replication_channel(getattr(request, "replication_channel", ""))
        if _tags_of(request, 0) and (answers_requester(channel) or not ChannelUri.parse(channel).is_udp):
            kind = "response" if answers_requester(channel) else "IPC"
            use = "live destinations" if request.live_destination else "tagged replication"
            raise ArchiveError(
                f"{kind} channels can't be used with {use}: replication_channel={channel!r}, it must be an aeron:udp "
                "channel with an endpoint"
            )
        if request.target_recording_id != NULL_VALUE:
            self._known_target(request.target_recording_id)
        replication_id = self.client.next_correlation_id()
        replication = Replication(self, session, request, replication_id, self._now_ns)
        self._replications[replication_id] = replication
        session.responses.send_ok(request.correlation_id, replication_id)

    def _stop(self, session: ControlSession, request: records.StopReplicationRequest) -> None:
        replication = self._replications.get(request.replication_id)
        if replication is None:
            raise ArchiveError(
                f"unknown replication id {request.replication_id}: it is not under way",
                code=ErrorCode.UNKNOWN_REPLICATION,
            )
        session.responses.send_ok(request.correlation_id)
        replication.end()
