"""A plain client of an archive, here or elsewhere.

with ArchiveClient.connect("10.0.0.1:8010") as archive:
    for recording in archive.list_recordings():
        print(recording.recording_id, recording.stream_id, recording.stop_position)
    for message in archive.replay(0):
        handle(message.payload)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from archive.catalog import RecordingDescriptor
from archive.client import calls
from archive.client.calls import Call, RecordedStream
from archive.client.replay import RecordedMessage, ReplayStream
from archive.client.session import ArchiveSession, SignalEvent
from archive.client.settings import ArchiveClientSettings
from archive.control.codes import CONTROL_STREAM_ID_DEFAULT
from runtime.closing import Closing
from transport.client import TransportClient
from transport.client_transport import ClientTransport
from transport.secure.settings import Encryption

ResultT = TypeVar("ResultT")
PARK_NS = 1_000_000
REPLAY_STREAM_ID_DEFAULT = 30


class ArchiveClient(Closing):
    """One session with an archive; belongs to one thread. Every call waits for the archive's answer.

    Calls raise ArchiveError with the archive's words and `code`, UnknownRecordingError, and ArchiveTimeoutError when no
    answer comes within `message_timeout_s`. A client that is silent for long stays connected, as long as it calls
    `work` every few seconds.
    """

    def __init__(
        self,
        settings: ArchiveClientSettings,
        *,
        aeron_dir: str | None = None,
        transport: ClientTransport | None = None,
        on_signal: Callable[[SignalEvent], object] | None = None,
    ) -> None:
        """Connects. `aeron_dir`: the driver to use, default one of its own; `on_signal` hears what happens to
        recordings, from within `work` and the calls. Raises ArchiveError, ArchiveTimeoutError, TransportError.
        """
        self.settings = settings
        self._transport = transport or (
            ClientTransport.connect(aeron_dir, "archive-client")
            if aeron_dir
            else ClientTransport.embedded(
                "archive-client", encryption=Encryption.chosen(settings.key_file, settings.trusted_file)
            )
        )
        try:
            now_ns = self._transport.clock.now()
            self._session = ArchiveSession(self._transport.client, settings, now_ns, on_signal)
            while not self._session.is_connected:
                self._cycle()
                if self._session.error is not None:
                    raise self._session.error
        except BaseException:
            self._transport.close()
            raise

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        aeron_dir: str | None = None,
        on_signal: Callable[[SignalEvent], object] | None = None,
        **settings: Any,
    ) -> Self:
        """To the archive at `host:port`, or at a channel; further settings as in ArchiveClientSettings."""
        return cls(ArchiveClientSettings.at(address, **settings), aeron_dir=aeron_dir, on_signal=on_signal)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> TransportClient:
        """The transport client, for publications that are to be recorded and for subscriptions to replays."""
        return self._transport.client

    @property
    def archive_id(self) -> int:
        return self._session.archive_id

    @property
    def is_closed(self) -> bool:
        return self._session.is_closed

    def work(self) -> int:
        """One duty cycle: driver, session, signals. Raises the error of a replay or recording that failed since."""
        work_count = self._session.work(self._transport.drive())
        if self._session.error is not None:
            raise self._session.error
        if self._session.late_errors:
            raise self._session.late_errors.popleft()[1]
        return work_count

    def now_ns(self) -> int:
        """The time of the client's monotonic clock."""
        return self._transport.clock.now()

    def park(self, timeout_ns: int) -> None:
        """Waits until something came in, or the timeout passed."""
        self._transport.park(timeout_ns)

    def keep_alive(self) -> None:
        """Tells the archive that this client is alive."""
        self._session.keep_alive()

    def close(self) -> None:
        """Ends the session; recordings and replays that it started go on. Idempotent."""
        if not self._session.is_closed:
            self._session.close()
            self._transport.drive()
        self._transport.close()

    def _cycle(self) -> None:
        if self._session.work(self._transport.drive()) == 0:
            self._transport.park(PARK_NS)

    def _run(self, call: Call[ResultT]) -> ResultT:
        reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
        while not reply.is_done:
            self._cycle()
        if reply.error is not None:
            raise reply.error
        return call.convert(reply)

    # --- recording ----------------------------------------------------------------------------------------------------

    def start_recording(self, channel: str, stream_id: int, *, local: bool = False, auto_stop: bool = False) -> int:
        """Starts recording every publication of a stream; returns the subscription id.

        `local`: the publication is at the archive's own driver. `auto_stop`: recording ends with the first publication.
        """
        return self._run(calls.start_recording(channel, stream_id, local=local, auto_stop=auto_stop))

    def extend_recording(
        self, recording_id: int, channel: str, stream_id: int, *, local: bool = False, auto_stop: bool = False
    ) -> int:
        """Goes on with a stopped recording; returns the subscription id. The publication must begin at its stop."""
        return self._run(calls.extend_recording(recording_id, channel, stream_id, local=local, auto_stop=auto_stop))

    def stop_recording(self, channel: str, stream_id: int) -> None:
        """Ends what `start_recording` or `extend_recording` began with this channel and stream."""
        self._run(calls.stop_recording(channel, stream_id))

    def stop_recording_subscription(self, subscription_id: int) -> None:
        """Stops a recording as `stop_recording` does, given the id of its subscription."""
        self._run(calls.stop_recording_subscription(subscription_id))

    def stop_recording_by_id(self, recording_id: int) -> bool:
        """Like `stop_recording`, by recording id; returns whether it was being recorded."""
        return self._run(calls.stop_recording_by_id(recording_id))

    # --- looking ------------------------------------------------------------------------------------------------------

    def list_recordings(
        self,
        *,
        from_recording_id: int = 0,
        count: int | None = None,
        stream_id: int | None = None,
        channel: str | None = None,
    ) -> list[RecordingDescriptor]:
        """Recordings by ascending id, of one stream where it is given, whose channel contains `channel`."""
        return self._run(calls.list_recordings(from_recording_id, count, channel, stream_id))

    def describe_recording(self, recording_id: int) -> RecordingDescriptor | None:
        """One recording, None when there is none of this id."""
        return self._run(calls.describe_recording(recording_id))

    def find_last_recording(
        self, channel: str, stream_id: int, session_id: int, *, min_recording_id: int = 0
    ) -> int | None:
        """The newest recording of a session whose channel contains `channel`, None when there is none."""
        return self._run(calls.find_last_recording(channel, stream_id, session_id, min_recording_id))

    def list_recorded_streams(
        self, *, channel: str = "", stream_id: int | None = None, from_index: int = 0, count: int = 1000
    ) -> list[RecordedStream]:
        """What is being recorded for clients, whose channel contains `channel`."""
        return self._run(calls.list_recorded_streams(channel, stream_id, from_index, count))

    def recording_position(self, recording_id: int) -> int | None:
        """How far a recording is, in bytes; None when it is not being recorded."""
        return self._run(calls.recording_position(recording_id))

    def start_position(self, recording_id: int) -> int:
        """Where a recording begins, in bytes; further on once segments were purged."""
        return self._run(calls.start_position(recording_id))

    def stop_position(self, recording_id: int) -> int | None:
        """Where a recording ended, in bytes; None while it is being recorded."""
        return self._run(calls.stop_position(recording_id))

    def max_recorded_position(self, recording_id: int) -> int:
        """Returns how far a recording goes, whether it is live or stopped."""
        return self._run(calls.max_recorded_position(recording_id))

    # --- replaying ----------------------------------------------------------------------------------------------------

    def start_replay(
        self,
        recording_id: int,
        channel: str,
        stream_id: int,
        *,
        position: int | None = None,
        length: int | None = None,
        limit_counter_id: int | None = None,
    ) -> int:
        """Has the archive publish a recording from `position` (default its start); returns the replay session id.

        Its low 32 bits are the session id of the stream. Without `length` (bytes) it follows a live recording, and ends
        at the stop of another. `limit_counter_id` names a counter of the archive's driver that it may not pass.
        """
        return self._run(
            calls.start_replay(
                recording_id, channel, stream_id, position=position, length=length, limit_counter_id=limit_counter_id
            )
        )

    def stop_replay(self, replay_session_id: int) -> None:
        """Ends one replay, by the id that starting it gave."""
        self._run(calls.stop_replay(replay_session_id))

    def stop_all_replays(self, recording_id: int | None = None) -> None:
        """Ends all replays of a recording, or of all."""
        self._run(calls.stop_all_replays(recording_id))

    def open_replay(
        self,
        recording_id: int,
        *,
        position: int | None = None,
        length: int | None = None,
        stream_id: int = REPLAY_STREAM_ID_DEFAULT,
    ) -> ReplayStream:
        """A replay to this client. Close it, or use it as a context manager."""
        return ReplayStream(self, recording_id, position, length, stream_id)

    def replay(
        self, recording_id: int, *, position: int | None = None, length: int | None = None
    ) -> Iterator[RecordedMessage]:
        """The messages of a recording, up to what it has now; `length` in bytes ends it sooner."""
        start = self.start_position(recording_id) if position is None else position
        end = self.max_recorded_position(recording_id)
        if length is not None:
            end = min(end, start + length)
        if start == end:
            return
        with self.open_replay(recording_id, position=start, length=end - start) as stream:
            yield from stream.messages()

    # --- taking apart -------------------------------------------------------------------------------------------------

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Deletes everything of a stopped recording from `position` on; returns the count of segment files deleted."""
        return self._run(calls.truncate_recording(recording_id, position))

    def purge_recording(self, recording_id: int) -> int:
        """Deletes a stopped recording; returns the count of segment files. Its id is not given again."""
        return self._run(calls.purge_recording(recording_id))

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Moves the start of a recording up to the base of a segment; the files below stay."""
        self._run(calls.detach_segments(recording_id, new_start_position))

    def delete_detached_segments(self, recording_id: int) -> int:
        """Deletes the segment files below the start of a recording; returns how many."""
        return self._run(calls.delete_detached_segments(recording_id))

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Like `detach_segments` and `delete_detached_segments` together."""
        return self._run(calls.purge_segments(recording_id, new_start_position))

    def attach_segments(self, recording_id: int) -> int:
        """Takes segment files below the start of a recording back into it; returns how many."""
        return self._run(calls.attach_segments(recording_id))

    def migrate_segments(self, source_recording_id: int, target_recording_id: int) -> int:
        """Gives all segments of a stopped recording to the one that it ends or begins at; returns how many."""
        return self._run(calls.migrate_segments(source_recording_id, target_recording_id))

    def update_channel(self, recording_id: int, channel: str) -> None:
        """Changes what the catalog says of a recording's channel."""
        self._run(calls.update_channel(recording_id, channel))

    # --- copying from another archive ---------------------------------------------------------------------------------

    def replicate(
        self,
        source_recording_id: int,
        source: str,
        *,
        target_recording_id: int | None = None,
        stop_position: int | None = None,
        source_stream_id: int = CONTROL_STREAM_ID_DEFAULT,
        replication_channel: str = "",
    ) -> int:
        """Has this archive copy a recording of the one at `source` (`host:port` or a channel); returns at once.

        The result is the replication id, under which signals come: REPLICATE names the new recording, SYNC says that it
        is complete, REPLICATE_END ends it; errors raise from `work`. A recording that is live is followed to its stop,
        or to `stop_position`. `target_recording_id`: a stopped recording that has a part of it, default a new one.
        `replication_channel`: where the archive receives, default its own choice.
        """
        channel = source if source.startswith("aeron:") else f"aeron:udp?endpoint={source}"
        return self._run(
            calls.replicate(
                source_recording_id,
                channel,
                source_stream_id,
                target_recording_id=target_recording_id,
                stop_position=stop_position,
                replication_channel=replication_channel,
            )
        )

    def stop_replication(self, replication_id: int) -> None:
        """Ends one replication, by the id that starting it gave."""
        self._run(calls.stop_replication(replication_id))
