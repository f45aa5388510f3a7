"""What a subscription sends: entries of the log, or messages of a topic, in batches as large as there is something."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ordo.follow.beginnings import AtSequence, Beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.executions import REQUESTS
from ordo.follow.reader import LogReader
from ordo.follow.topics.feeds import FeedMessage, FeedReader, FeedStart
from ordo.runtime.native.cluster_time import time_ms
from ordo.service_api import ordo_pb2 as pb

POLL_LIMIT = 256
POLLS_MAX = 4
BATCH_BYTES_MAX = 1 << 20
ITEM_OVERHEAD_BYTES = 64
KINDS = {kind.value: kind for kind in EntryKind}


class Item(Protocol):
    """What a batch is made of."""

    @property
    def payload(self) -> bytes:
        """What it weighs."""


T = TypeVar("T", bound=Item)
T_co = TypeVar("T_co", bound=Item, covariant=True)


class ItemReader(Protocol[T_co]):
    """A LogReader or a FeedReader."""

    def poll(self, handler: Callable[[T_co], object], limit: int) -> int:
        """Pass what has arrived to `handler`; return the number of fragments."""


class Polled(NamedTuple):
    """A batch, how many items it has, and how many fragments were looked at for them."""

    batch: pb.LogBatch | pb.TopicBatch
    item_count: int
    fragment_count: int


class Batches(Protocol):
    """A reader, and the batches that are made of its items."""

    @property
    def reader(self) -> LogReader | FeedReader:
        """Who closes it ends the subscription."""

    def poll(self) -> Polled:
        """Return a batch of what has arrived, which may be empty. Does not wait. Raises as the reader does."""

    @property
    def place(self) -> int | None:
        """Up to where everything was sent or not asked for; None until the reader has found its beginning."""

    @property
    def has_ended(self) -> bool:
        """Whether everything was sent that was asked for."""


class _Filler(Generic[T]):
    """Makes batches that are no longer than BATCH_BYTES_MAX, unless one item alone is.

    A caller with gRPC's defaults can take whatever is below 4 MiB.
    """

    def __init__(self, reader: ItemReader[T], takes: Callable[[T], bool] = lambda _: True) -> None:
        """Leave out the items of which `takes` says that they belong into no batch."""
        self._reader = reader
        self._takes = takes
        self._length_bytes = 0
        self.waiting: deque[T] = deque()
        """What was read and is in no batch yet."""

    def fill(self, append: Callable[[T], object]) -> int:
        """Poll, and fill a batch; return how many fragments were looked at, or 1 while something waits."""
        count = 0
        for _ in range(POLLS_MAX):
            if self._length_bytes >= BATCH_BYTES_MAX:
                break
            found = self._reader.poll(self._take, POLL_LIMIT)
            count += found
            if not found:
                break
        room_bytes = BATCH_BYTES_MAX
        while self.waiting:
            length_bytes = item_length(self.waiting[0])
            if length_bytes > room_bytes and room_bytes < BATCH_BYTES_MAX:
                break
            append(self.waiting.popleft())
            room_bytes -= length_bytes
            self._length_bytes -= length_bytes
        return max(count, bool(self.waiting))

    def _take(self, item: T) -> None:
        if not self._takes(item):
            return
        self._length_bytes += item_length(item)
        self.waiting.append(item)


def item_length(item: Item) -> int:
    """About what an item takes in a message of gRPC."""
    return len(item.payload) + ITEM_OVERHEAD_BYTES


class LogBatches:
    """Batches of the committed log."""

    def __init__(self, request: pb.SubscribeRequest, addresses: Sequence[str], credentials: bytes) -> None:
        """Raise ConfigurationError, TransportError."""
        self.reader = LogReader(
            addresses,
            from_position=beginning_of(request),
            kinds=[KINDS[kind] for kind in request.kinds] or None,
            session_ids=list(request.session_ids) or None,
            repeats=request.repeats,
            credentials=credentials,
        )
        self._until_position = request.until_position
        self._filler = _Filler(self.reader, self._is_wanted)
        begins_elsewhere = request.live or request.from_sequence
        self._sent_position: int | None = None if begins_elsewhere else request.from_position

    def _is_wanted(self, entry: LogEntry) -> bool:
        return not self._until_position or entry.position <= self._until_position

    def poll(self) -> Polled:
        batch = pb.LogBatch()
        count = self._filler.fill(lambda entry: batch.entries.append(encode_entry(entry)))
        if batch.entries:
            self._sent_position = batch.entries[-1].position
        self._sent_position = self.place
        batch.position = self._sent_position or 0
        return Polled(batch, len(batch.entries), count)

    @property
    def place(self) -> int | None:
        """Up to here at most `until_position`, where an entry ends: a caller may go on from there with a later end."""
        position = self.reader.position
        if self._filler.waiting or (position is not None and 0 < self._until_position < position):
            return self._sent_position
        return position

    @property
    def has_ended(self) -> bool:
        position = self.reader.position
        return 0 < self._until_position <= (position or 0) and not self._filler.waiting


def beginning_of(request: pb.SubscribeRequest) -> Beginning:
    """Return where a subscription begins, as a LogReader takes it."""
    if request.live:
        return "live"
    return AtSequence(request.from_sequence) if request.from_sequence else int(request.from_position)


class TopicBatches:
    """Batches of a topic."""

    def __init__(self, request: pb.SubscribeTopicRequest, addresses: Sequence[str], credentials: bytes) -> None:
        """Raise ConfigurationError, TransportError."""
        begin = request.WhichOneof("begin")
        position: FeedStart = "live"
        if begin == "from_position":
            position = request.from_position
        elif begin == "oldest" and request.oldest:
            position = "oldest"
        sequence = request.from_sequence if begin == "from_sequence" else None
        self.reader = FeedReader(
            addresses, request.topic, from_position=position, from_sequence=sequence, credentials=credentials
        )
        self.has_ended = False
        self._filler = _Filler(self.reader)

    def poll(self) -> Polled:
        batch = pb.TopicBatch()
        count = self._filler.fill(lambda message: batch.messages.append(encode_message(message)))
        batch.next_sequence = self.place or 0
        return Polled(batch, len(batch.messages), count)

    @property
    def place(self) -> int | None:
        if self._filler.waiting:
            return int(self._filler.waiting[0].sequence)
        return (self.reader.next_sequence or 0) if self.reader.is_reading else None


def encode_entry(entry: LogEntry) -> pb.LogEntry:
    """Return an entry of the log as callers get it."""
    found = pb.LogEntry(
        position=entry.position,
        kind=entry.kind.value,
        timestamp=time_ms(entry.timestamp),
        leadership_term_id=entry.leadership_term_id,
        session_id=entry.session_id,
        payload=entry.payload,
    )
    if entry.sequence:
        found.sequence = entry.sequence
    if entry.arrival_ns is not None:
        found.arrival_ns = entry.arrival_ns
    if entry.kind in REQUESTS:
        found.number = entry.values.number
        found.identity_position = entry.values.open_position
        found.identity = entry.identity
        if entry.is_repeat is not None:
            found.is_repeat = entry.is_repeat
    return found


def encode_message(message: FeedMessage) -> pb.TopicMessage:
    """Return a message of a topic as callers get it."""
    return pb.TopicMessage(
        sequence=message.sequence,
        position=message.position,
        message_index=message.message_index,
        timestamp=time_ms(message.timestamp),
        payload=message.payload,
    )
