"""The stream on which an archive reports its recordings to all listeners (archive.md A2.3)."""

from __future__ import annotations

from ordo.archive.archive import Archive
from ordo.archive.protocol import codecs
from ordo.archive.recorder import Recording
from ordo.transport.client.client import TransportClient

ATTEMPTS = 3


class RecordingEvents:
    """Started, progress and stopped of every recording. Without a listener, or room, an event is dropped.

    Raises RegistrationError and ChannelError for a channel that cannot be published to.
    """

    def __init__(self, client: TransportClient, archive: Archive, channel: str, stream_id: int) -> None:
        self._publication = client.add_exclusive_publication(channel, stream_id)
        self._archive = archive
        self._told: dict[int, int] = {}
        archive.observer = self

    def on_start(self, recording: Recording) -> None:
        """Tell of a recording that has begun."""
        self._told[recording.recording_id] = recording.start_position
        descriptor = self._archive.descriptor(recording.recording_id)
        self._send(
            codecs.RECORDING_STARTED.encode(
                recording_id=recording.recording_id,
                start_position=recording.start_position,
                session_id=recording.image.session_id,
                stream_id=descriptor.stream_id,
                channel=descriptor.original_channel,
                source_identity=recording.image.source_identity,
            )
        )

    def on_stop(self, recording: Recording) -> None:
        """Tell of a recording that has ended."""
        self._told.pop(recording.recording_id, None)
        self._send(
            codecs.RECORDING_STOPPED.encode(
                recording_id=recording.recording_id,
                start_position=recording.start_position,
                stop_position=recording.durable_position,
            )
        )

    def work(self) -> int:
        """Tell how far recordings have come since; return the count of those that moved."""
        count = 0
        for recording in self._archive.active_recordings:
            position = recording.durable_position
            if position > self._told.get(recording.recording_id, position) and self._publication.is_connected:
                message = codecs.RECORDING_PROGRESS.encode(
                    recording_id=recording.recording_id,
                    start_position=recording.start_position,
                    position=position,
                )
                if self._publication.offer(message) > 0:
                    self._told[recording.recording_id] = position
                    count += 1
        return count

    def _send(self, message: bytes) -> None:
        for _ in range(ATTEMPTS):
            if self._publication.offer(message) > 0:
                return

    def close(self) -> None:
        """End the stream."""
        self._archive.observer = None
        self._publication.close()
