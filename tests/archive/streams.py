"""Streams to record without a driver: real log buffers, one publication and one image, cleaned by hand."""

import random
from typing import Any

from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.counters import CountersManager, local_counter
from ordo.runtime.native.memory import HeapMemoryProvider, allocate
from ordo.transport.client.client_core import make_client_counter
from ordo.transport.streams.image import Image
from ordo.transport.streams.logbuffer import LOG_TYPE_EXCLUSIVE, create_log
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.streams.subscription import Subscription
from ordo.transport.uri import ChannelUri

TERM_LENGTH = 64 * 1024
MTU = 1408
ADMIN_ACTION = -3
BACK_PRESSURED = -2


class Stream:
    """An exclusive publication whose one subscriber is `image`; position in bytes, always a frame boundary."""

    def __init__(
        self,
        *,
        position: int = 0,
        term_length: int = TERM_LENGTH,
        mtu: int = MTU,
        initial_term_id: int = 7,
        session_id: int = 0x1234567,
        stream_id: int = 100,
    ) -> None:
        self.log = create_log(
            HeapMemoryProvider(),
            "stream",
            term_length=term_length,
            mtu=mtu,
            initial_term_id=initial_term_id,
            session_id=session_id,
            stream_id=stream_id,
            correlation_id=1,
            log_type=LOG_TYPE_EXCLUSIVE,
            term_id=initial_term_id + position // term_length,
            term_offset=position % term_length,
        )
        self.log.connected = True
        self.limit = local_counter(position + term_length // 2)
        self.position_counter = local_counter(position)
        self._clean_position = position
        self.publication = ExclusivePublication(self.log, self.limit, channel="aeron:ipc")
        self.image: Image = Image(
            self.log,
            self.position_counter,
            source_identity="aeron:ipc",
            subscription=Subscription("aeron:ipc?alias=log|term-length=64k", stream_id, 1),
        )

    @property
    def position(self) -> int:
        return self.publication.position

    def offer(self, payload: bytes) -> int:
        """Appends one message when there is room: its position, or BACK_PRESSURED."""
        result = ADMIN_ACTION
        while result == ADMIN_ACTION:
            self.drive()
            result = self.publication.offer(payload)
        return result

    def pad(self, length: int) -> int:
        """Appends one PAD frame when there is room."""
        result = ADMIN_ACTION
        while result == ADMIN_ACTION:
            self.drive()
            result = self.publication.offer_padding(length)
        return result

    def drive(self) -> None:
        """What the driver does: cleans behind the subscriber and moves the limit."""
        consumed = self.position_counter.value
        while self._clean_position < consumed:
            self._clean_position = self.log.clean_range(self._clean_position, consumed)
        self.limit.set(consumed + self.log.term_length // 2)


class Sink:
    """Stands in for the client of an archive: hands out publications that a test reads back, and local counters."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.channels: list[str] = []
        self.counters = CountersManager(allocate(64 * 512), allocate(64 * 128), VirtualClock())

    def next_correlation_id(self) -> int:
        return 99

    def add_counter(self, type_id: int, label: str, key: bytes) -> Any:
        return make_client_counter(self.counters, self.counters.allocate(type_id, label, key).counter_id, 1, self)

    def on_counter_closed(self, counter: Any) -> None:
        self.counters.free(counter.counter_id)

    def add_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        uri = ChannelUri.parse(channel)
        start = uri.start_position
        assert start is not None
        term_length = uri.integer("term-length", 0)
        stream = Stream(
            position=(start.term_id - start.initial_term_id) * term_length + start.term_offset,
            term_length=term_length,
            mtu=uri.integer("mtu", 0),
            initial_term_id=start.initial_term_id,
            session_id=uri.session_id or 77,
            stream_id=stream_id,
        )
        self.streams.append(stream)
        self.channels.append(channel)
        return stream.publication


def payload_of(rng: random.Random, length: int) -> bytes:
    """Random bytes, reproducible."""
    return rng.randbytes(length)
