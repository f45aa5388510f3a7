"""Requests that start, extend and stop recordings (archive.md A5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ordo.archive.archive import Archive
from ordo.archive.channels import recording_key
from ordo.archive.control.session import ControlSession
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode, RecordingSignal, SourceLocation
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.archive.recorder import Recording
from ordo.runtime.errors import ArchiveError, OrdoError, UnknownRecordingError
from ordo.transport.streams.image import Image
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri, spy

if TYPE_CHECKING:
    from ordo.archive.protocol import records


class RecordedSubscription:
    """A subscription whose images are recorded for a client: every one anew, or the first as more of a recording."""

    def __init__(self, owner: RecordingRequests, session: ControlSession, request: Any, *, auto_stop: bool) -> None:
        self.key = recording_key(request.channel, request.stream_id)
        self.channel: str = subscribed_channel(request.channel, request.source_location)
        self.original_channel: str = request.channel
        self.stream_id: int = request.stream_id
        self.subscription_id = -1
        self.recordings: list[Recording] = []
        self.extended_id: int | None = getattr(request, "recording_id", None)
        self._owner = owner
        self._session = session
        self._correlation_id: int = request.correlation_id
        self._auto_stop = auto_stop
        self._is_stopping = False
        self._early_images: list[Image] = []
        self._subscription: Subscription | None = None

    # --- the driver's answers -----------------------------------------------------------------------------------------

    def on_ready(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.subscription_id = subscription.registration_id
        self._session.responses.send_ok(self._correlation_id, self.subscription_id)
        if self._is_stopping:
            self._close()
            return
        early, self._early_images = self._early_images, []
        for image in early:
            self._record(image)

    def on_failure(self, error: OrdoError) -> None:
        self._owner.remove(self)
        self._session.responses.send_error(self._correlation_id, error)

    def on_image(self, image: Image) -> None:
        """Record an image, after the client was told of its subscription.

        The client must hear of that before it hears of a recording.
        """
        if self._subscription is None:
            self._early_images.append(image)
        elif not self._is_stopping:
            self._record(image)

    # --- recording ----------------------------------------------------------------------------------------------------

    def _record(self, image: Image) -> None:
        archive = self._owner.archive
        is_extension = self.extended_id is not None
        try:
            self._owner.check_room()
            if is_extension and archive.recording(self.extended_id or 0) is not None:
                raise ArchiveError(
                    f"cannot extend active recording {self.extended_id}: it is being recorded already",
                    code=ErrorCode.ACTIVE_RECORDING,
                )
            recording = archive.record(
                image, recording_id=self.extended_id, channel=self.original_channel, on_stop=self._on_stop
            )
        except OrdoError as error:
            self._session.responses.send_error(self._correlation_id, error)
            if self._auto_stop:
                self.stop()
            return
        self.recordings.append(recording)
        signal = RecordingSignal.EXTEND if is_extension else RecordingSignal.START
        self._signal(recording.recording_id, recording.start_position, signal)

    def _on_stop(self, recording: Recording, error: Exception | None) -> None:
        self.recordings.remove(recording)
        if error is not None:
            self._session.responses.send_error(self._correlation_id, error)
        self._signal(recording.recording_id, recording.durable_position, RecordingSignal.STOP)
        if not self.recordings and (self._is_stopping or self._auto_stop):
            self._close()

    def _signal(self, recording_id: int, position: int, signal: RecordingSignal) -> None:
        self._session.responses.send_signal(self._correlation_id, recording_id, self.subscription_id, position, signal)

    def stop(self) -> None:
        """End the recordings, which blocks for their syncs, and the subscription. Idempotent."""
        self._is_stopping = True
        self._owner.remove(self)
        for recording in list(self.recordings):
            self._owner.archive.stop(recording)
        self._close()

    def _close(self) -> None:
        self._owner.remove(self)
        if self._subscription is not None:
            self._subscription.close()


def subscribed_channel(channel: str, source: int) -> str:
    """Return the channel that the archive subscribes to: a spy for a UDP publication of its own driver.

    Raises ArchiveError.
    """
    uri = ChannelUri.parse(channel)
    if source not in (SourceLocation.LOCAL, SourceLocation.REMOTE):
        raise ArchiveError(f"source_location={source}, must be 0 (LOCAL) or 1 (REMOTE)")
    subscribed = spy(channel) if source == SourceLocation.LOCAL and uri.is_udp else channel
    ChannelUri.parse(subscribed).check_subscription()
    return subscribed


class RecordedStream(Protocol):
    """A stream that is recorded for a client, and that clients may stop."""

    key: str
    channel: str
    stream_id: int
    subscription_id: int
    recordings: list[Recording]

    def stop(self) -> None:
        """End the recordings and the subscription. Idempotent."""


class RecordingRequests:
    """The recordings that clients asked for."""

    def __init__(self, archive: Archive, driver: DriverRequests, config: ControlSettings) -> None:
        self.archive = archive
        self._driver = driver
        self._config = config
        self._subscriptions: dict[str, RecordedStream] = {}
        self.handlers: dict[int, Callable[[ControlSession, Any], None]] = {
            codecs.START_RECORDING_REQUEST.template_id: self._start,
            codecs.START_RECORDING_REQUEST_2.template_id: self._start,
            codecs.EXTEND_RECORDING_REQUEST.template_id: self._extend,
            codecs.EXTEND_RECORDING_REQUEST_2.template_id: self._extend,
            codecs.STOP_RECORDING_REQUEST.template_id: self._stop,
            codecs.STOP_RECORDING_SUBSCRIPTION_REQUEST.template_id: self._stop_subscription,
            codecs.STOP_RECORDING_BY_IDENTITY_REQUEST.template_id: self._stop_recording,
        }

    def subscriptions(self) -> list[RecordedStream]:
        """Return the subscriptions of recordings that the driver has confirmed."""
        return [entry for entry in self._subscriptions.values() if entry.subscription_id != -1]

    def adopt(self, entry: RecordedStream) -> None:
        """Take over a stream that is being recorded already."""
        self._subscriptions[entry.key] = entry

    def remove(self, entry: RecordedStream) -> None:
        if self._subscriptions.get(entry.key) is entry:
            del self._subscriptions[entry.key]

    def work(self) -> int:
        """End the recordings of streams that have ended; return how many. The driver lets go of a stream later."""
        ended = [
            recording
            for entry in self._subscriptions.values()
            for recording in entry.recordings
            if recording.image.is_end_of_stream
        ]
        for recording in ended:
            self.archive.stop(recording)
        return len(ended)

    def close(self) -> None:
        """Stop every recording."""
        for entry in list(self._subscriptions.values()):
            entry.stop()

    def check_room(self) -> None:
        """Raise ArchiveError when as many recordings run as may."""
        count = sum(len(entry.recordings) for entry in self._subscriptions.values())
        if count >= self._config.recordings_max:
            raise ArchiveError(
                f"{count} recordings are active, the most this archive allows; stop one", code=ErrorCode.MAX_RECORDINGS
            )

    # --- requests -----------------------------------------------------------------------------------------------------

    def _start(
        self, session: ControlSession, request: records.StartRecordingRequest | records.StartRecordingRequest2
    ) -> None:
        self._check_count()
        self.archive.check_space()
        self._subscribe(session, request)

    def _extend(
        self, session: ControlSession, request: records.ExtendRecordingRequest | records.ExtendRecordingRequest2
    ) -> None:
        self._check_count()
        descriptor = self.archive.descriptor(request.recording_id)
        if descriptor.stream_id != request.stream_id:
            raise UnknownRecordingError(
                f"cannot extend recording {request.recording_id} with streamId={request.stream_id}: the existing one "
                f"is of streamId={descriptor.stream_id}",
                code=ErrorCode.UNKNOWN_RECORDING,
            )
        if self.archive.recording(request.recording_id) is not None:
            raise ArchiveError(
                f"cannot extend active recording {request.recording_id}: it is being recorded already",
                code=ErrorCode.ACTIVE_RECORDING,
            )
        self.archive.check_space()
        self._subscribe(session, request)

    def _check_count(self) -> None:
        """Raise ArchiveError when as many recordings run, or streams are to be recorded, as may.

        A stream that nobody publishes to takes no place among the recordings.
        """
        self.check_room()
        if len(self._subscriptions) >= self._config.recorded_streams_max:
            raise ArchiveError(
                f"{len(self._subscriptions)} streams are recorded, the most this archive allows; stop one",
                code=ErrorCode.MAX_RECORDINGS,
            )

    def _subscribe(self, session: ControlSession, request: Any) -> None:
        entry = RecordedSubscription(self, session, request, auto_stop=getattr(request, "auto_stop", 0) == 1)
        if entry.key in self._subscriptions:
            raise ArchiveError(
                f"recording exists for streamId={request.stream_id} channel={request.channel}: it is being recorded "
                "already",
                code=ErrorCode.ACTIVE_SUBSCRIPTION,
            )
        self._driver.add_subscription(
            entry.channel, entry.stream_id, entry.on_ready, entry.on_failure, on_image=entry.on_image
        )
        self._subscriptions[entry.key] = entry

    def _stop(self, session: ControlSession, request: records.StopRecordingRequest) -> None:
        entry = self._subscriptions.get(recording_key(request.channel, request.stream_id))
        if entry is None:
            raise ArchiveError(
                f"no recording found for streamId={request.stream_id} channel={request.channel}: it is not being "
                "recorded",
                code=ErrorCode.UNKNOWN_SUBSCRIPTION,
            )
        session.responses.send_ok(request.correlation_id)
        entry.stop()

    def _stop_subscription(self, session: ControlSession, request: records.StopRecordingSubscriptionRequest) -> None:
        for entry in self.subscriptions():
            if entry.subscription_id == request.subscription_id:
                session.responses.send_ok(request.correlation_id)
                entry.stop()
                return
        raise ArchiveError(
            f"no recording subscription found for subscriptionId={request.subscription_id}",
            code=ErrorCode.UNKNOWN_SUBSCRIPTION,
        )

    def _stop_recording(self, session: ControlSession, request: records.StopRecordingByIdentityRequest) -> None:
        """Stop a recording; the relevant id of the response is 1 when one was stopped."""
        self.archive.descriptor(request.recording_id)
        for entry in self.subscriptions():
            if any(recording.recording_id == request.recording_id for recording in entry.recordings):
                session.responses.send_ok(request.correlation_id, 1)
                entry.stop()
                return
        if self.archive.recording(request.recording_id) is not None:
            raise ArchiveError(
                f"recording {request.recording_id} was not started by a client and cannot be stopped by one",
                code=ErrorCode.UNAUTHORISED_ACTION,
            )
        session.responses.send_ok(request.correlation_id)
