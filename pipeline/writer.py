"""The sending side of a named write: one partition of one attempt (pipeline/envelope.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pipeline.envelope import (
    ASK,
    CONFIRM,
    DATA,
    DATA_ASKING,
    HASH,
    OPEN,
    STATE,
    STATE_BODY,
    Envelope,
    parse,
    roll,
    write_id,
)
from pipeline.errors import PipelineError


class WriteRefusedError(PipelineError):
    """The batch does not continue what was written under this name before."""


class Channel(Protocol):
    """What a writer needs of a cluster client."""

    def send(self, payload: bytes) -> int: ...
    def poll(self) -> int: ...
    def park(self, timeout_ns: int) -> None: ...


@dataclass(frozen=True)
class WriterSettings:
    """At most `window` messages are on the way; when nothing is acknowledged for `resend_ns`, all are sent again."""

    window: int = 256
    resend_ns: int = 1_000_000_000
    timeout_ns: int = 60_000_000_000


@dataclass(frozen=True)
class Part:
    """Which part of which attempt of which write this is."""

    name: str
    attempt: int
    partition: int
    batch: int = 0


@dataclass
class _State:
    """What the service has said last of a write."""

    attempt: int
    last: int
    hash: int
    waiting: int
    batch: int


class SequencedWriter:
    """Sends the messages of one partition and does not return before they are applied.

    `now_ns` is a monotonic clock. `on_message` has to be called with what the service sends.
    """

    def __init__(
        self, channel: Channel, part: Part, now_ns: Callable[[], int], settings: WriterSettings | None = None
    ) -> None:
        self._channel, self._part, self._now_ns = channel, part, now_ns
        self._settings = settings or WriterSettings()
        self._write = write_id(part.name)
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._state: _State | None = None

    def on_message(self, payload: bytes) -> None:
        """Takes the state of this partition; passes over all else."""
        found = parse(payload)
        part = self._part
        if found is None or found.kind != STATE or len(found.body) != STATE_BODY.size:
            return
        if (found.write, found.partition, found.batch) != (self._write, part.partition, part.batch):
            return
        self._state = _State(found.attempt, found.sequence, *STATE_BODY.unpack(found.body))
        while self._unacknowledged and self._unacknowledged[0][0] <= found.sequence:
            self._unacknowledged.popleft()

    def write(self, payloads: Iterable[bytes]) -> int:
        """How many messages were sent now, and not by an earlier try. Raises WriteRefusedError, TimeoutError."""
        rows = iter(payloads)
        count, sent = self._confirm(rows), 0
        for payload in rows:
            if not sent:
                self._await_others()
            count, sent = count + 1, sent + 1
            self._send_data(count, payload)
        self._ask()
        self._await(lambda: not self._unacknowledged, self._send_again)
        return sent

    def _confirm(self, rows: Iterator[bytes]) -> int:
        """Passes over the rows that are written, and says so to the service; how many they are."""
        self._ask(OPEN)
        self._await(lambda: self._state is not None, lambda: self._ask(OPEN))
        count = rolled = 0
        while True:
            state = self._current()
            while count < state.last:
                payload = next(rows, None)
                if payload is None:
                    raise self._refused(f"{state.last} messages were written, and this try has only {count}")
                count, rolled = count + 1, roll(rolled, payload)
            if rolled != state.hash:
                raise self._refused(f"its first {state.last} messages are not those that were written")
            self._state = None
            confirm = partial(self._ask, CONFIRM, count, HASH.pack(rolled))
            confirm()
            self._await(lambda: self._state is not None, confirm)
            if self._current().attempt == self._part.attempt:
                return count

    def _await_others(self) -> None:
        """Until every partition that has something written is confirmed by this attempt."""
        try:
            self._await(lambda: not self._current().waiting, self._ask)
        except TimeoutError:
            waiting = self._current().waiting
            raise self._refused(
                f"{waiting} other partitions have messages of an earlier try that this one did not confirm in "
                f"{self._settings.timeout_ns // 10**9} s; were there other partitions then, or more tasks at a time?"
            ) from None

    def _send_data(self, sequence: int, payload: bytes) -> None:
        window = self._settings.window
        if len(self._unacknowledged) >= window:
            self._await(lambda: len(self._unacknowledged) <= window // 2, self._send_again)
        asks = sequence % max(1, window // 4) == 0 or len(self._unacknowledged) + 1 == window
        message = self._message(DATA_ASKING if asks else DATA, sequence, payload)
        self._unacknowledged.append((sequence, message))
        self._channel.send(message)

    def _current(self) -> _State:
        """What the service said last. Raises WriteRefusedError where that ends this attempt."""
        state = self._state
        assert state is not None
        if state.batch > self._part.batch:
            raise self._refused(
                f"this is batch {self._part.batch}, and batch {state.batch} was begun under the name; a stream with a "
                f"new checkpoint is a new write"
            )
        return state

    def _refused(self, why: str) -> WriteRefusedError:
        part = self._part
        return WriteRefusedError(
            f"write {part.name!r}, partition {part.partition}: {why}. Write the same rows in the same partitions "
            f"again, or give what is another write another name (option writer)"
        )

    def _await(self, done: Callable[[], bool], again: Callable[[], None]) -> None:
        settings = self._settings
        deadline_ns = self._now_ns() + settings.timeout_ns
        resend_at_ns = self._now_ns() + settings.resend_ns
        left = len(self._unacknowledged)
        while not done():
            now_ns = self._now_ns()
            self._check_attempt()
            if now_ns > deadline_ns:
                seconds = settings.timeout_ns // 10**9
                raise TimeoutError(f"the service acknowledged nothing for {seconds} s; it has to use SequenceFilter")
            if len(self._unacknowledged) < left:
                left = len(self._unacknowledged)
                deadline_ns, resend_at_ns = now_ns + settings.timeout_ns, now_ns + settings.resend_ns
            if now_ns >= resend_at_ns:
                again()
                resend_at_ns = now_ns + settings.resend_ns
            if self._channel.poll() == 0:
                self._channel.park(1_000_000)

    def _check_attempt(self) -> None:
        """Somebody else has begun to write this: what this one sends is no longer applied."""
        if self._unacknowledged and self._state and self._state.attempt != self._part.attempt:
            raise self._refused("another try of this write has begun meanwhile")

    def _message(self, kind: int, sequence: int = 0, body: bytes = b"") -> bytes:
        part = self._part
        return Envelope(kind, self._write, part.attempt, part.partition, part.batch, sequence, body).encode()

    def _ask(self, kind: int = ASK, sequence: int = 0, body: bytes = b"") -> None:
        self._channel.send(self._message(kind, sequence, body))

    def _send_again(self) -> None:
        for _, message in list(self._unacknowledged):
            self._channel.send(message)
        self._ask()
