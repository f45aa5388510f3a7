"""The node of a service that is replayed: counters, and streams that lead nowhere."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.runtime.native.memory import allocate
from ordo.transport.frame_layout import FRAME_HEADER_LENGTH, align_frame
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.runtime.native.clock import Clock

COUNTERS_MAX = 64
MTU_DEFAULT = 1408
TERM_LENGTH_DEFAULT = 64 << 20
MESSAGE_PARTS = 8
"""A message is at most an eighth of its stream's term."""


class QuietPublication:
    """Takes every message, and stands where a publication would that has sent them."""

    def __init__(self, channel: str, session_id: int, sink: Callable[[str, bytes], None]) -> None:
        self._channel, self._sink = channel, sink
        uri = ChannelUri.parse(channel)
        self.session_id = session_id
        self._term_length = uri.integer("term-length", TERM_LENGTH_DEFAULT)
        self._payload_bytes = uri.integer("mtu", MTU_DEFAULT) - FRAME_HEADER_LENGTH
        terms = uri.integer("term-id", 0) - uri.integer("init-term-id", 0)
        self._position = terms * self._term_length + uri.integer("term-offset", 0)

    @property
    def max_message_length(self) -> int:
        return self._term_length // MESSAGE_PARTS

    def offer(self, message: bytes) -> int:
        """Return the position after the message."""
        self._sink(self._channel, message)
        whole, rest = divmod(len(message), self._payload_bytes)
        needed = whole * align_frame(self._payload_bytes + FRAME_HEADER_LENGTH)
        needed += align_frame(rest + FRAME_HEADER_LENGTH) if rest or not whole else 0
        offset = self._position % self._term_length
        if offset + needed > self._term_length:
            self._position += self._term_length - offset
        self._position += needed
        return self._position

    def close(self) -> None:
        """Nothing is held."""


class QuietClient:
    """What a container asks of its node's driver, and the counters that the consensus module has for it."""

    client_id = 0

    def __init__(self, clock: Clock) -> None:
        self.counters = CountersManager(allocate(COUNTERS_MAX * 512), allocate(COUNTERS_MAX * 128), clock)
        self._sessions = 0
        self.sink: Callable[[str, bytes], None] = lambda channel, message: None
        """Gets what is sent, and the channel of its stream."""

    def add_exclusive_publication(self, channel: str, stream_id: int) -> QuietPublication:
        self._sessions += 1
        return QuietPublication(channel, self._sessions, lambda *sent: self.sink(*sent))

    def add_subscription(self, channel: str, stream_id: int) -> Subscription:
        return Subscription(channel, stream_id, 1)

    def wake_driver(self) -> None:
        """Nobody sleeps."""

    def do_work(self, now_ns: int) -> int:
        return 0

    def allocate(self, kind: CounterType, value: int, key: bytes = b"") -> Counter:
        counter = self.counters.allocate(int(kind), kind.name, key)
        counter.set(value)
        return counter


def recovery_key(position: int, time: int, term_id: int, service_id: int, recording_id: int | None) -> bytes:
    """Return what the consensus module tells its services of where to begin."""
    count = 0 if recording_id is None else service_id + 1
    head = struct.pack("<qqqii", term_id, position, time, 0, count)
    return head + struct.pack(f"<{count}q", *([recording_id or 0] * count))
