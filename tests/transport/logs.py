"""Log buffers made by hand, for tests without a driver."""

from __future__ import annotations

from dataclasses import dataclass

from ordo.runtime.native.counters import Counter, local_counter
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.streams.image import Image
from ordo.transport.streams.logbuffer import LOG_TYPE_CONCURRENT, LOG_TYPE_EXCLUSIVE, LogBuffers, create_log
from ordo.transport.streams.publication import ExclusivePublication, Publication

TERM_LENGTH = 65536
INITIAL_TERM_ID = 2147483646  # wraps after two terms
SESSION_ID = -1052688
STREAM_ID = 1001
NO_LIMIT = 1 << 62


@dataclass
class Stream:
    """One log with a publication and its limit."""

    log: LogBuffers
    publication: Publication
    limit: Counter

    @property
    def exclusive(self) -> ExclusivePublication:
        assert isinstance(self.publication, ExclusivePublication)
        return self.publication

    def image(self, position: int = 0) -> Image:
        return Image(self.log, local_counter(position))


def make_stream(
    *,
    exclusive: bool = False,
    term_length: int = TERM_LENGTH,
    mtu: int = 1408,
    initial_term_id: int = INITIAL_TERM_ID,
    term_id: int | None = None,
    term_offset: int = 0,
    limit: int = NO_LIMIT,
) -> Stream:
    log = create_log(
        HeapMemoryProvider(),
        "/test/1.logbuffer",
        term_length=term_length,
        mtu=mtu,
        initial_term_id=initial_term_id,
        session_id=SESSION_ID,
        stream_id=STREAM_ID,
        correlation_id=1,
        log_type=LOG_TYPE_EXCLUSIVE if exclusive else LOG_TYPE_CONCURRENT,
        term_id=term_id,
        term_offset=term_offset,
    )
    counter = local_counter(limit)
    return Stream(log, (ExclusivePublication if exclusive else Publication)(log, counter), counter)


def read_all(image: Image) -> list[bytes]:
    """Every whole message that is there."""
    messages: list[bytes] = []
    while image.poll_messages(lambda payload, _: messages.append(payload), 100):
        pass
    return messages
