"""The base of readers that programs hold: of the committed log, and of topics of the feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ordo.follow.recordings.recording_follower import RecordingFollower
from ordo.runtime.closing import Closing
from ordo.runtime.errors import OrdoError
from ordo.runtime.polled_items import PolledItems
from ordo.transport.client.client_transport import ClientTransport

FRAGMENTS_PER_POLL = 256
Item = TypeVar("Item")


class RecordingReader(Closing, Generic[Item]):
    """A follower and the transport that it runs on.

    Belongs to one thread; `close` may be called by another one, and by the handler of a signal: the loop ends.
    """

    def __init__(self, transport: ClientTransport, follower: RecordingFollower) -> None:
        self._transport = transport
        self._follower = follower
        self._polled: PolledItems[Item] = PolledItems()

    @property
    def source(self) -> str | None:
        """The channel of the node that is read from, None while one is looked for."""
        return self._follower.source_address

    @property
    def is_live(self) -> bool:
        """Whether it reads the stream that a node sends to all its readers, and not a separate replay."""
        return self._follower.is_live

    @property
    def problem(self) -> str:
        """Why the reader left the last node."""
        return self._follower.problem

    @property
    def descriptor(self) -> int | None:
        """Readable when something has come in; None with the driver of another process.

        Poll each few milliseconds all the same: the reader has to be heard.
        """
        return self._transport.descriptor

    def poll(self, handler: Callable[[Item], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler` for what has arrived, at most `limit` fragments; return how many. Does not wait."""
        raise NotImplementedError

    def take(self) -> Item | None:
        """Return the next item, or None if none has arrived. Does not wait. Raises as `poll`."""
        self._transport.use.check()
        return self._polled.take_from(self.poll)

    def _items(self, timeout_s: float | None, has_all: Callable[[], bool] = lambda: False) -> Iterator[Item]:
        """Yield items until `has_all`, or until nothing has come for `timeout_s`; the caller's own time does not count.

        Ends once the reader is closed.
        """
        silent_since_ns = self._transport.clock.now()
        while not self._has_ended():
            self._transport.use.check()
            try:
                count = 0 if self._polled else self.poll(self._polled.append)
                if has_all():
                    return
                if count == 0 and not self._polled:
                    if timeout_s is not None and self._transport.clock.now() - silent_since_ns > timeout_s * 1e9:
                        return
                    self._transport.rest(silent_since_ns)
                    continue
            except OrdoError:
                if self._has_ended():  # meanwhile, by another thread
                    return
                raise
            if self._polled:
                yield self._polled.take()
            silent_since_ns = self._transport.clock.now()

    def _check_open(self) -> None:
        """Raise ForkedError, and TransportError once this reader is closed."""
        with self._transport.use:
            pass

    def keep_alive(self) -> None:
        """Tell the node that this reader is still there, while `poll` is not called. Hands out nothing."""
        self._drive(lambda: 0)

    def _drive(self, hand_out: Callable[[], int]) -> int:
        """Run one duty cycle. Delivers what has arrived before any other work, because the program waits for it."""
        with self._transport.use:
            now_ns = self._transport.drive()
            try:
                return hand_out()
            finally:
                self._follower.work(now_ns)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._transport.is_closed

    def _has_ended(self) -> bool:
        return self._transport.is_closed

    def close(self) -> None:
        """End the connection to the node.

        Idempotent. A call that is under way ends first; then loops over this reader end, and its calls raise
        TransportError. In a process that was forked from the reader's it does nothing.
        """
        self._transport.close(before=self._follower.close)
