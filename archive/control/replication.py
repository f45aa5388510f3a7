"""Replication of recordings from another archive (archive.md A9), without joining a live stream."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from ordo.archive.archive import Archive
from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.config import ControlConfig
from ordo.archive.control.session import ControlSession
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import NULL_LENGTH, ErrorCode, RecordingSignal
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.archive.recorder import Recording
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.native.sentinels import NULL_POSITION, NULL_VALUE
from ordo.transport.client.client import TransportClient
from ordo.transport.streams.image import Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

    ReplicationOrder = records.ReplicateRequest | records.TaggedReplicateRequest | records.ReplicateRequest2

MESSAGE_TIMEOUT_NS = 10_000_000_000


class ReplicationState(Enum):
    """The state of a replication."""

    CONNECTING = "a session with the source archive is being opened"
    DESCRIBING = "the source is asked for its recording"
    SUBSCRIBING = "the driver is asked for the subscription"
    STARTING = "the source is asked for a replay"
    AWAITING_IMAGE = "the replay is waited for"
    RECORDING = "the replay is recorded"
    DONE = "over; is removed"


class Replication:
    """One recording on its way from another archive, for a client that hears of it under `replication_id`."""

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
        self._channel = owner.replication_channel(getattr(request, "replication_channel", ""))
        is_ipc = ChannelUri.parse(request.source_control_channel).is_ipc
        self._source = ArchiveSession(
            owner.client,
            ArchiveClientSettings(
                control_channel=request.source_control_channel,
                control_stream_id=request.source_control_stream_id,
                response_channel="aeron:ipc" if is_ipc else self._channel,
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
        self._replay_id = NULL_VALUE
        self._deadline_ns = 0

    # --- steps --------------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return self.state is ReplicationState.DONE and not self._source.is_pending

    def work(self, now_ns: int) -> int:
        """Run one duty cycle and return the number of things done."""
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
        elif self.state is ReplicationState.SUBSCRIBING:
            self._start_when_bound(now_ns)
        elif self.state is ReplicationState.AWAITING_IMAGE and now_ns >= self._deadline_ns:
            self._fail(ArchiveError(f"the replay of source recording {self._source_id} did not arrive"))
        elif self.state is ReplicationState.RECORDING:
            self._follow()
        return work_count

    def _ask(self, call: Call[Any], on_reply: Callable[[Reply], None]) -> None:
        try:
            self._reply = self._source.request(call.message, item_count_max=call.item_count_max, **call.fields)
            self._on_reply = on_reply
        except OrdoError as error:
            self._fail(error)

    def _on_described(self, reply: Reply) -> None:
        if reply.error is not None or not reply.items:
            error = reply.error or ArchiveError(
                f"the source archive has no recording {self._source_id}", code=ErrorCode.UNKNOWN_RECORDING
            )
            self._fail(error)
            return
        self._source_descriptor = source = control_requests.descriptor_of(reply.items[0])
        try:
            target = self._prepare_target(source)
        except OrdoError as error:
            self._fail(error)
            return
        if source.stop_position in (source.start_position, target.stop_position):
            self._signal(RecordingSignal.SYNC, source.stop_position)
            self.end()
            return
        if self._session_id == NULL_VALUE:
            self._session_id = source.session_id
        self.state = ReplicationState.SUBSCRIBING
        self._adding = self._owner.driver.add_subscription(
            str(ChannelUri.parse(self._channel).with_params(session_id=self._session_id, rejoin=False)),
            source.stream_id,
            self._on_subscription,
            self._fail,
            self._on_image,
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

    def _on_subscription(self, subscription: Subscription) -> None:
        self._adding = None
        self._subscription = subscription

    def _start_when_bound(self, now_ns: int) -> None:
        subscription, source = self._subscription, self._source_descriptor
        if subscription is None or source is None:
            return
        uri = ChannelUri.parse(self._channel)
        if uri.is_udp:
            if subscription.resolved_endpoint is None:
                return
            endpoint = uri.endpoint
            assert endpoint is not None
            port = int(subscription.resolved_endpoint.rpartition(":")[2])
            uri = uri.with_params(endpoint=endpoint._replace(port=port))
        position = self._owner.archive.descriptor(self._target_id).stop_position
        length = self._stop_position - position if self._stop_position != NULL_POSITION else NULL_LENGTH
        self._deadline_ns = now_ns + MESSAGE_TIMEOUT_NS
        self.state = ReplicationState.STARTING
        self._ask(
            control_requests.start_replay(
                self._source_id,
                str(uri.with_params(session_id=self._session_id)),
                source.stream_id,
                position=position,
                length=length,
                limit_counter_id=None,
            ),
            self._on_started,
        )

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

    def _follow(self) -> None:
        """End at the source's stop, or at the position that was asked for."""
        assert self._recording is not None
        assert self._source_descriptor is not None
        position = self._recording.durable_position
        source_stop = self._source_descriptor.stop_position
        if self._stop_position != NULL_POSITION and position >= self._stop_position:
            self.end()
        elif source_stop != NULL_POSITION and position >= source_stop:
            self._signal(RecordingSignal.SYNC, position)
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
        if self._subscription is not None:
            self._subscription.close()
        self._source.close()


class ReplicationRequests:
    """What clients have this archive copy from others."""

    def __init__(
        self, archive: Archive, client: TransportClient, driver: DriverRequests, config: ControlConfig
    ) -> None:
        self.archive = archive
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
            raise ArchiveError(f"recording {recording_id} is being recorded", code=ErrorCode.ACTIVE_RECORDING)
        return descriptor

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
        if request.live_destination:
            raise ArchiveError("replication that joins a live stream is not supported by this archive")
        tags = {getattr(request, name, NULL_VALUE) for name in ("channel_tag_id", "subscription_tag_id")}
        response_channel: str = getattr(request, "source_response_channel", "")
        if tags != {NULL_VALUE} or response_channel:
            raise ArchiveError("replication with tags or response channels is not supported by this archive")
        if request.target_recording_id != NULL_VALUE:
            self.stopped_target(request.target_recording_id)
        replication_id = self.client.next_correlation_id()
        replication = Replication(self, session, request, replication_id, self._now_ns)
        self._replications[replication_id] = replication
        session.responses.send_ok(request.correlation_id, replication_id)

    def _stop(self, session: ControlSession, request: records.StopReplicationRequest) -> None:
        replication = self._replications.get(request.replication_id)
        if replication is None:
            raise ArchiveError(
                f"no replication has replication_id={request.replication_id}", code=ErrorCode.UNKNOWN_REPLICATION
            )
        session.responses.send_ok(request.correlation_id)
        replication.end()
