"""A replay that comes to the client that asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from archive.client.settings import ArchiveClientSettings
from runtime.closing import Closing
from runtime.errors import ArchiveError, ArchiveTimeoutError
from transport.client import TransportClient
from transport.image import Header, Image
from transport.uri import ChannelUri, udp

FRAGMENTS_PER_POLL = 256
PARK_NS = 1_000_000


class RecordedMessage(NamedTuple):
    """One message of a recording. `position` is that of the byte after it."""

    position: int
    payload: bytes


class ReplayClient(Protocol):
    """What a replay needs of the client that asked for it."""

    settings: ArchiveClientSettings

    @property
    def transport(self) -> TransportClient: ...
    @property
    def is_closed(self) -> bool: ...
    def work(self) -> int: ...
    def now_ns(self) -> int: ...
    def park(self, timeout_ns: int) -> None: ...
    def start_position(self, recording_id: int) -> int: ...
    def start_replay(
        self, recording_id: int, channel: str, stream_id: int, *, position: int | None = None, length: int | None = None
    ) -> int: ...
    def stop_replay(self, replay_session_id: int) -> None: ...


class ReplayStream(Closing):
    """Subscription and replay of one recording, from a position on. Raises as `ArchiveClient.start_replay`.

    `poll` hands messages out; `is_done` when the archive has sent everything. `position` is that of the next byte.
    """

    def __init__(
        self, client: ReplayClient, recording_id: int, position: int | None, length: int | None, stream_id: int
    ) -> None:
        self.recording_id = recording_id
        self.position = client.start_position(recording_id) if position is None else position
        self.is_done = False
        self._client = client
        self._end_position = None if length is None else self.position + length
        self._image: Image | None = None
        self._handler: Callable[[RecordedMessage], object] = lambda _: None
        response = ChannelUri.parse(client.settings.response_channel)
        channel = (
            "aeron:ipc"
            if response.is_ipc or response.endpoint is None
            else udp(endpoint=response.endpoint._replace(port=0))
        )
        self._subscription = client.transport.add_subscription(channel, stream_id)
        self._replay_session_id = -1
        try:
            deadline_ns = self._deadline_ns()
            if response.is_udp:
                self._await(lambda: self._subscription.resolved_endpoint is not None, deadline_ns, "its own port")
                endpoint = ChannelUri.parse(channel).endpoint
                port = int((self._subscription.resolved_endpoint or "").rpartition(":")[2])
                channel = udp(endpoint=endpoint._replace(port=port) if endpoint else None)
            self._replay_session_id = client.start_replay(
                recording_id, channel, stream_id, position=self.position, length=length
            )
            session_id = (self._replay_session_id & 0xFFFFFFFF) - ((self._replay_session_id & 0x80000000) << 1)
            self._await(lambda: self._find(session_id), deadline_ns, "the replay's stream")
        except BaseException:
            self.close()
            raise

    def _deadline_ns(self) -> int:
        return self._client.now_ns() + self._client.settings.message_timeout_ns

    def _find(self, session_id: int) -> bool:
        self._image = self._subscription.image_by_session_id(session_id)
        return self._image is not None

    def _await(self, condition: Callable[[], bool], deadline_ns: int, what: str) -> None:
        while not condition():
            if self._client.work() == 0:
                self._client.park(PARK_NS)
            if self._client.now_ns() >= deadline_ns:
                raise ArchiveTimeoutError(f"the replay of recording {self.recording_id} waited in vain for {what}")

    def poll(self, handler: Callable[[RecordedMessage], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Calls `handler(message)` for what has come, at most `limit` fragments; returns how many."""
        if self.is_done or self._image is None:
            return 0
        self._client.work()
        self._handler = handler
        image = self._image
        is_closed = image.is_closed
        count = image.poll_messages(self._on_message, limit)
        self.position = max(self.position, image.position)
        is_at_end = self._end_position is not None and self.position >= self._end_position
        if is_at_end or (count == 0 and (is_closed or image.is_end_of_stream)):
            self.is_done = True
            if image.is_revoked or (self._end_position is not None and not is_at_end):
                raise ArchiveError(
                    f"the replay of recording {self.recording_id} was broken off at position={self.position}"
                )
        return count

    def _on_message(self, payload: bytes, header: Header) -> None:
        self._handler(RecordedMessage(header.position, payload))

    def messages(self) -> Iterator[RecordedMessage]:
        """Every message until the replay's end; waits for them."""
        found: list[RecordedMessage] = []
        while not self.is_done:
            if self.poll(found.append) == 0 and not self.is_done:
                self._client.park(PARK_NS)
            yield from found
            found.clear()

    def close(self) -> None:
        """Ends the replay. Idempotent."""
        if self._subscription.is_closed:
            return
        self._subscription.close()
        if self._replay_session_id != -1 and not self.is_done and not self._client.is_closed:
            self._client.stop_replay(self._replay_session_id)
        self.is_done = True
