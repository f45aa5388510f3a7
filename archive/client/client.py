"""A plain client of an archive, here or elsewhere.

with ArchiveClient.connect("10.0.0.1:8010") as archive:
    for recording in archive.list_recordings():
        print(recording.recording_id, recording.stream_id, recording.stop_position)
    for message in archive.replay(0):
        handle(message.payload)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self, TypeVar, Unpack

from ordo.archive.client import control_requests
from ordo.archive.client.connection import ArchiveLink
from ordo.archive.client.control_requests import Call
from ordo.archive.client.methods import waiting
from ordo.archive.client.replay import REPLAY_STREAM_ID_DEFAULT, RecordedMessage, Replay, ReplayStream
from ordo.archive.client.session import SignalEvent
from ordo.archive.client.settings import ArchiveClientOptions, ArchiveClientSettings
from ordo.runtime.closing import Closing
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport

ResultT = TypeVar("ResultT")
PARK_NS = 1_000_000


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
        """Connect to an archive.

        `aeron_dir`: the driver to use, default one of its own; `on_signal` hears what happens to recordings,
        from within `work` and the calls. Raises ArchiveError, ArchiveTimeoutError, TransportError.
        """
        self.settings = settings
        self._link = ArchiveLink(settings, aeron_dir, transport, on_signal)
        self._session = self._link.session
        try:
            while not self._session.is_connected:
                self._cycle()
                if self._session.error is not None:
                    raise self._session.error
        except BaseException:
            self._link.transport.close()
            raise

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        aeron_dir: str | None = None,
        on_signal: Callable[[SignalEvent], object] | None = None,
        **settings: Unpack[ArchiveClientOptions],
    ) -> Self:
        """Connect to the archive at `host:port`, or at a channel; further settings as in ArchiveClientSettings."""
        return cls(ArchiveClientSettings.at(address, **settings), aeron_dir=aeron_dir, on_signal=on_signal)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> TransportClient:
        """The transport client, for publications that are to be recorded and for subscriptions to replays."""
        return self._link.transport.client

    @property
    def archive_id(self) -> int:
        """The id that the archive gives itself."""
        return self._session.archive_id

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""
        return self._session.is_closed or self._link.transport.is_closed

    def work(self) -> int:
        """Run one duty cycle: driver, session, signals.

        Raises what has ended the session, and the error of a recording or a replay that failed since; replays
        from `open_replay` raise their own errors.
        """
        self._link.check_open()
        work_count = self._link.work()
        self._link.raise_errors()
        return work_count

    def now_ns(self) -> int:
        """Return the time of the client's monotonic clock."""
        return self._link.transport.clock.now()

    def park(self, timeout_ns: int) -> None:
        """Wait until something came in, or the timeout passed."""
        self._link.transport.park(timeout_ns)

    def keep_alive(self) -> None:
        """Tell the archive that this client is alive."""
        self._link.check_open()
        with self._link.transport.use:
            self._session.keep_alive()

    def close(self) -> None:
        """End the session; recordings and replays that it started continue.

        Idempotent. Any thread may call it, and the handler of a signal: a call that is under way ends first,
        and the next one raises. In a process that was forked from the client's it does nothing.
        """
        self._link.close()

    def _cycle(self) -> None:
        if self._link.work() == 0:
            self._link.transport.park(PARK_NS)

    def _run(self, call: Call[ResultT]) -> ResultT:
        self._link.check_open()
        with self._link.transport.use:
            reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
        while not reply.is_done:
            self._link.check_open()
            self._cycle()
        if reply.error is not None:
            raise reply.error
        return call.convert(reply)

    # --- recording ----------------------------------------------------------------------------------------------------

    start_recording = waiting(control_requests.start_recording)
    extend_recording = waiting(control_requests.extend_recording)
    stop_recording = waiting(control_requests.stop_recording)
    stop_recording_subscription = waiting(control_requests.stop_recording_subscription)
    stop_recording_by_id = waiting(control_requests.stop_recording_by_id)

    # --- looking ------------------------------------------------------------------------------------------------------

    list_recordings = waiting(control_requests.list_recordings)
    describe_recording = waiting(control_requests.describe_recording)
    find_last_recording = waiting(control_requests.find_last_recording)
    list_recorded_streams = waiting(control_requests.list_recorded_streams)
    recording_position = waiting(control_requests.recording_position)
    start_position = waiting(control_requests.start_position)
    stop_position = waiting(control_requests.stop_position)
    max_recorded_position = waiting(control_requests.max_recorded_position)

    # --- replaying ----------------------------------------------------------------------------------------------------

    start_replay = waiting(control_requests.start_replay)
    stop_replay = waiting(control_requests.stop_replay)
    stop_all_replays = waiting(control_requests.stop_all_replays)

    def open_replay(
        self,
        recording_id: int,
        *,
        position: int | None = None,
        length: int | None = None,
        stream_id: int = REPLAY_STREAM_ID_DEFAULT,
    ) -> ReplayStream:
        """Return a replay to this client. Close it, or use it as a context manager."""
        self._link.check_open()
        replay = Replay(
            self._session, recording_id, now_ns=self.now_ns(), position=position, length=length, stream_id=stream_id
        )
        return ReplayStream(self._link, replay)

    def replay(
        self, recording_id: int, *, position: int | None = None, length: int | None = None
    ) -> Iterator[RecordedMessage]:
        """Yield the messages of a recording, up to what it has now; `length` in bytes ends it sooner."""
        start = self.start_position(recording_id) if position is None else position
        end = self.max_recorded_position(recording_id)
        if length is not None:
            end = min(end, start + length)
        if start == end:
            return
        with self.open_replay(recording_id, position=start, length=end - start) as stream:
            yield from stream.messages()

    # --- taking apart -------------------------------------------------------------------------------------------------

    truncate_recording = waiting(control_requests.truncate_recording)
    purge_recording = waiting(control_requests.purge_recording)
    detach_segments = waiting(control_requests.detach_segments)
    delete_detached_segments = waiting(control_requests.delete_detached_segments)
    purge_segments = waiting(control_requests.purge_segments)
    attach_segments = waiting(control_requests.attach_segments)
    migrate_segments = waiting(control_requests.migrate_segments)
    update_channel = waiting(control_requests.update_channel)

    # --- copying from another archive ---------------------------------------------------------------------------------

    replicate = waiting(control_requests.replicate)
    stop_replication = waiting(control_requests.stop_replication)
