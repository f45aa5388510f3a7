"""The archive client for asyncio: the same session and the same requests, run by the event loop.

async with AsyncArchiveClient.connect("10.0.0.1:8010") as archive:
    for recording in await archive.list_recordings():
        print(recording.recording_id, recording.stream_id, recording.stop_position)
    async for message in archive.replay(0):
        await handle(message.payload)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Self, TypeVar, Unpack

from ordo.archive.client import control_requests
from ordo.archive.client.connection import ArchiveLink
from ordo.archive.client.control_requests import Call
from ordo.archive.client.methods import awaiting
from ordo.archive.client.replay import REPLAY_STREAM_ID_DEFAULT, RecordedMessage, Replay
from ordo.archive.client.session import SignalEvent
from ordo.archive.client.settings import ArchiveClientOptions, ArchiveClientSettings
from ordo.runtime.errors import ArchiveError, OrdoError
from ordo.runtime.event_loops import demand_own_loop
from ordo.transport.client.client import TransportClient
from ordo.transport.client.client_transport import ClientTransport

ResultT = TypeVar("ResultT")
IDLE_INTERVAL_S = 0.010
BUSY_INTERVAL_S = 0.001
CYCLES_MAX = 16


class AsyncArchiveClient:
    """`async with AsyncArchiveClient.connect("host:port") as archive`, then `await` what ArchiveClient waits for.

    Arguments and errors are those of ArchiveClient. Several tasks may ask at once. The session stays alive as long as
    the event loop runs. Belongs to one event loop.
    """

    def __init__(
        self,
        settings: ArchiveClientSettings,
        *,
        aeron_dir: str | None = None,
        transport: ClientTransport | None = None,
        on_signal: Callable[[SignalEvent], object] | None = None,
    ) -> None:
        """Prepare a session that `async with` or `open` connects; `on_signal` is called by the event loop."""
        self.settings = settings
        self._link = ArchiveLink(settings, aeron_dir, transport, on_signal)
        self._session = self._link.session
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._waiting_count = 0
        self._failure: OrdoError | None = None

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        aeron_dir: str | None = None,
        on_signal: Callable[[SignalEvent], object] | None = None,
        **settings: Unpack[ArchiveClientOptions],
    ) -> Self:
        """Return a client for the archive at `host:port`, or at a channel.

        Further settings as in ArchiveClientSettings.
        """
        return cls(ArchiveClientSettings.at(address, **settings), aeron_dir=aeron_dir, on_signal=on_signal)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> TransportClient:
        """The transport client, as ArchiveClient.transport."""
        return self._link.transport.client

    @property
    def archive_id(self) -> int:
        """The archive's id, as ArchiveClient.archive_id."""
        return self._session.archive_id

    @property
    def is_closed(self) -> bool:
        """Whether the session is over, as ArchiveClient.is_closed."""
        return self._session.is_closed or self._link.transport.is_closed

    async def open(self) -> None:
        """Open the session, as `async with` does. Raises ArchiveError, ArchiveTimeoutError."""
        self._loop = asyncio.get_running_loop()
        if self._link.transport.descriptor is not None:
            self._loop.add_reader(self._link.transport.descriptor, self._cycle)
        try:
            await self._until(lambda: self._session.is_connected)
        except BaseException:
            self.close()
            raise

    async def work(self) -> None:
        """Wait until something may have come in. Raises the error of a replay or recording that failed since."""
        self._link.raise_errors()
        await self._change()
        self._link.raise_errors()

    def keep_alive(self) -> None:
        """Tell the archive that this client is alive."""
        self._demand_open()
        self._session.keep_alive()

    def close(self) -> None:
        """End the session; recordings and replays that it started continue.

        Idempotent. Belongs to the event loop's thread: elsewhere it raises TransportError while the loop runs.
        In a process that was forked from the client's it does nothing.
        """
        if self._link.transport.use.is_forked:  # the loop's selector is the parent's, too
            return
        demand_own_loop(self._loop, "AsyncArchiveClient")
        loop, self._loop = self._loop, None
        if loop is not None and self._link.transport.descriptor is not None:
            loop.remove_reader(self._link.transport.descriptor)
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()
        self._announce()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _run(self, call: Call[ResultT]) -> ResultT:
        self._demand_open()
        await self._until(lambda: not self._session.is_listing)
        reply = self._session.request(call.message, item_count_max=call.item_count_max, **call.fields)
        self._cycle()
        await self._until(lambda: reply.is_done)
        if reply.error is not None:
            raise reply.error
        return call.convert(reply)

    # --- recording ----------------------------------------------------------------------------------------------------

    start_recording = awaiting(control_requests.start_recording)
    extend_recording = awaiting(control_requests.extend_recording)
    stop_recording = awaiting(control_requests.stop_recording)
    stop_recording_subscription = awaiting(control_requests.stop_recording_subscription)
    stop_recording_by_id = awaiting(control_requests.stop_recording_by_id)

    # --- looking ------------------------------------------------------------------------------------------------------

    list_recordings = awaiting(control_requests.list_recordings)
    describe_recording = awaiting(control_requests.describe_recording)
    find_last_recording = awaiting(control_requests.find_last_recording)
    list_recorded_streams = awaiting(control_requests.list_recorded_streams)
    recording_position = awaiting(control_requests.recording_position)
    start_position = awaiting(control_requests.start_position)
    stop_position = awaiting(control_requests.stop_position)
    max_recorded_position = awaiting(control_requests.max_recorded_position)

    # --- replaying ----------------------------------------------------------------------------------------------------

    start_replay = awaiting(control_requests.start_replay)
    stop_replay = awaiting(control_requests.stop_replay)
    stop_all_replays = awaiting(control_requests.stop_all_replays)

    def open_replay(
        self,
        recording_id: int,
        *,
        position: int | None = None,
        length: int | None = None,
        stream_id: int = REPLAY_STREAM_ID_DEFAULT,
    ) -> AsyncReplayStream:
        """Return a replay to this client.

        `async with archive.open_replay(0) as stream`, then `async for message in stream`.
        """
        begin = partial(Replay, self._session, recording_id, position=position, length=length, stream_id=stream_id)
        return AsyncReplayStream(self, recording_id, begin)

    async def replay(
        self, recording_id: int, *, position: int | None = None, length: int | None = None
    ) -> AsyncGenerator[RecordedMessage]:
        """Return the messages of a recording, up to what it has now; `length` in bytes ends it sooner."""
        start = await self.start_position(recording_id) if position is None else position
        end = await self.max_recorded_position(recording_id)
        if length is not None:
            end = min(end, start + length)
        if start == end:
            return
        async with self.open_replay(recording_id, position=start, length=end - start) as stream:
            async for message in stream:
                yield message

    # --- taking apart -------------------------------------------------------------------------------------------------

    truncate_recording = awaiting(control_requests.truncate_recording)
    purge_recording = awaiting(control_requests.purge_recording)
    detach_segments = awaiting(control_requests.detach_segments)
    delete_detached_segments = awaiting(control_requests.delete_detached_segments)
    purge_segments = awaiting(control_requests.purge_segments)
    attach_segments = awaiting(control_requests.attach_segments)
    migrate_segments = awaiting(control_requests.migrate_segments)
    update_channel = awaiting(control_requests.update_channel)

    # --- copying from another archive ---------------------------------------------------------------------------------

    replicate = awaiting(control_requests.replicate)
    stop_replication = awaiting(control_requests.stop_replication)

    # --- duty cycle ---------------------------------------------------------------------------------------------------

    async def _until(self, is_true: Callable[[], bool]) -> None:
        """Wait for a condition, or raise what has ended the session."""
        while not is_true():
            await self._change()

    def _demand_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._loop is None:
            raise ArchiveError("the client is not open: use `async with`, or `await client.open()`")

    async def _change(self) -> None:
        """Wait for the next duty cycle, which comes at once when something comes in."""
        self._demand_open()
        changed = self._changed
        self._waiting_count += 1
        try:
            if self._waiting_count == 1:
                self._schedule(BUSY_INTERVAL_S)
            await changed.wait()
        finally:
            self._waiting_count -= 1

    def _cycle(self) -> None:
        if self._loop is None or self._failure is not None:
            return
        try:
            for _ in range(CYCLES_MAX):
                if self._link.work() == 0:
                    break
        except OrdoError as error:
            self._failure = error
        self._failure = self._failure or self._session.error
        if self._failure is None:
            self._schedule(BUSY_INTERVAL_S if self._waiting_count else IDLE_INTERVAL_S)
        elif self._link.transport.descriptor is not None:
            self._loop.remove_reader(self._link.transport.descriptor)
        self._announce()

    def _schedule(self, delay_s: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._cycle)

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class AsyncReplayStream:
    """A replay for asyncio: `async with` opens and ends it, `async for` takes its messages until its end.

    Raises as `AsyncArchiveClient.start_replay`. `position` is that of the byte after the message that was taken last.
    """

    def __init__(self, client: AsyncArchiveClient, recording_id: int, begin: Callable[..., Replay]) -> None:
        """Prepare a replay; `begin(now_ns=...)` asks for it."""
        self.recording_id = recording_id
        self._client = client
        self._begin = begin
        self._replay: Replay | None = None
        self._found: deque[RecordedMessage] = deque()
        self._position: int | None = None

    @property
    def position(self) -> int | None:
        """The replay; None until it exists."""
        return self._position

    @property
    def is_done(self) -> bool:
        """Whether the archive has sent everything, and all of it was taken."""
        return self._replay is not None and self._replay.is_done and not self._found

    async def open(self) -> None:
        """Wait until the replay exists, as `async with` does."""
        if self._replay is None:
            self._client._demand_open()
            self._replay = self._begin(now_ns=self._client._link.transport.clock.now())
        try:
            while not self._replay.is_open:
                self._work(self._replay)
                await self._client._change()
        except BaseException:
            self.close()
            raise
        if self._position is None:
            self._position = self._replay.position

    def _work(self, replay: Replay) -> None:
        self._client._cycle()
        replay.work(self._client._link.transport.clock.now())
        if replay.error is not None:
            raise replay.error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordedMessage:
        """Return the next message.

        The iteration ends when the archive has sent everything, or this stream was closed.
        """
        if self._replay is None:
            await self.open()
        replay = self._replay
        assert replay is not None
        while not self._found:
            if replay.error is not None:
                raise replay.error
            if replay.is_done:
                raise StopAsyncIteration
            self._work(replay)
            if replay.poll(self._found.append) == 0 and not replay.is_done:
                await self._client._change()
        message = self._found.popleft()
        self._position = message.position
        return message

    def close(self) -> None:
        """End the replay. Idempotent."""
        if self._client._link.transport.use.is_forked:
            return
        if self._replay is not None and not self._replay.is_done:
            self._replay.close()
            self._client._cycle()
        self._found.clear()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
