"""Numbered messages, so that one that is sent again is applied once. Needs no Spark: services use it, too.

     0        4     5       8          16          24          32
    +--------+-----+-------+----------+-----------+-----------+---------
    | "OSQ1" | kind| zero  | writer   | previous  | sequence  | payload        little endian, unsigned
    +--------+-----+-------+----------+-----------+-----------+---------

Each writer numbers what it sends; a message says which number it follows. The service applies it if that is the last
one it applied of this writer, and drops it otherwise: it is a repetition, or something before it was lost and will come
again. An acknowledgement carries the last number applied, and is sent when it is asked for.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol

HEADER = struct.Struct("<4sB3xQQQ")
MAGIC = b"OSQ1"
DATA, DATA_ASKING, QUERY, ACKNOWLEDGEMENT = 1, 2, 3, 4
_ENTRY = struct.Struct("<QQ")
BATCH_SHIFT = 32


class Accepted(NamedTuple):
    """`payload` to apply, None when there is nothing to apply; `answer` to send back, None for none."""

    payload: bytes | None
    answer: bytes | None


class SequenceFilter:
    """For a service: the last number applied of each writer. Part of its state: `dump` it into snapshots.

    accepted = self.filter.accept(payload)
    if accepted.payload is not None: ...apply it...
    if accepted.answer is not None: session.offer(accepted.answer)
    """

    def __init__(self, dumped: bytes = b"") -> None:
        self._last: dict[int, int] = dict(_ENTRY.iter_unpack(dumped))

    def accept(self, payload: bytes) -> Accepted:
        """Messages without a header pass as they are."""
        if len(payload) < HEADER.size or payload[:4] != MAGIC:
            return Accepted(payload, None)
        _, kind, writer, previous, sequence = HEADER.unpack_from(payload)
        applied = None
        if kind in (DATA, DATA_ASKING) and previous == self._last.get(writer, 0) and sequence > previous:
            self._last[writer] = sequence
            applied = payload[HEADER.size :]
        answers = kind in (DATA_ASKING, QUERY)
        last = self._last.get(writer, 0)
        return Accepted(applied, HEADER.pack(MAGIC, ACKNOWLEDGEMENT, writer, 0, last) if answers else None)

    def dump(self) -> bytes:
        """The state, the same on every member; the constructor takes it back."""
        return b"".join(_ENTRY.pack(*entry) for entry in sorted(self._last.items()))


def writer_id(name: str, partition: int) -> int:
    """The number of one partition of a named write: the same whenever it is tried again."""
    return int.from_bytes(blake2b(f"{name}\0{partition}".encode(), digest_size=8).digest(), "little")


class Channel(Protocol):
    """What a writer needs of a cluster client."""

    def send(self, payload: bytes) -> int: ...
    def poll(self) -> int: ...
    def park(self, timeout_s: float) -> None: ...


class SequencedWriter:
    """Sends messages of one writer and does not return before they are applied.

    `now_ns` is a monotonic clock. At most `window` messages are on the way; when nothing is acknowledged for
    `resend_ns`, all of them are sent again. `on_message` has to be called with what the service sends.
    """

    def __init__(
        self, channel: Channel, writer: int, batch: int, now_ns: Callable[[], int], *, window: int = 256,
        resend_ns: int = 1_000_000_000, timeout_ns: int = 60_000_000_000,
    ) -> None:  # fmt: skip
        self._channel = channel
        self._writer = writer
        self._first = (batch << BATCH_SHIFT) + 1
        self._now_ns = now_ns
        self._window, self._resend_ns, self._timeout_ns = window, resend_ns, timeout_ns
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._last: int | None = None

    def on_message(self, payload: bytes) -> None:
        """Takes an acknowledgement; passes over all else."""
        if len(payload) < HEADER.size or payload[:4] != MAGIC:
            return
        _, kind, writer, _, last = HEADER.unpack_from(payload)
        if kind == ACKNOWLEDGEMENT and writer == self._writer:
            self._last = max(self._last or 0, last)
            while self._unacknowledged and self._unacknowledged[0][0] <= last:
                self._unacknowledged.popleft()

    def write(self, payloads: Iterable[bytes]) -> int:
        """How many messages were sent now, and not by an earlier try. Raises TimeoutError."""
        self._await(lambda: self._last is not None, self._send_query)
        previous, sent = self._last or 0, 0
        for sequence, payload in enumerate(payloads, self._first):
            if sequence <= previous:
                continue
            if len(self._unacknowledged) >= self._window:
                self._await(lambda: len(self._unacknowledged) <= self._window // 2, self._send_again)
            asks = sequence % max(1, self._window // 4) == 0 or len(self._unacknowledged) + 1 == self._window
            kind = DATA_ASKING if asks else DATA
            message = HEADER.pack(MAGIC, kind, self._writer, previous, sequence) + payload
            self._unacknowledged.append((sequence, message))
            self._channel.send(message)
            previous, sent = sequence, sent + 1
        self._send_query()
        self._await(lambda: not self._unacknowledged, self._send_again)
        return sent

    def _await(self, done: Callable[[], bool], again: Callable[[], None]) -> None:
        deadline_ns = self._now_ns() + self._timeout_ns
        resend_at_ns = self._now_ns() + (self._resend_ns if self._unacknowledged else 0)
        waiting = len(self._unacknowledged)
        while not done():
            now_ns = self._now_ns()
            if now_ns > deadline_ns:
                raise TimeoutError(
                    f"the service acknowledged nothing for {self._timeout_ns // 10**9} s; it has to use SequenceFilter"
                )
            if len(self._unacknowledged) < waiting:
                waiting = len(self._unacknowledged)
                deadline_ns, resend_at_ns = now_ns + self._timeout_ns, now_ns + self._resend_ns
            if now_ns >= resend_at_ns:
                again()
                resend_at_ns = now_ns + self._resend_ns
            if self._channel.poll() == 0:
                self._channel.park(0.001)

    def _send_query(self) -> None:
        self._channel.send(HEADER.pack(MAGIC, QUERY, self._writer, 0, 0))

    def _send_again(self) -> None:
        for _, message in list(self._unacknowledged):
            self._channel.send(message)
        self._send_query()
