"""The sending side of a named write: one partition of one attempt (pipeline/decoding/envelope.py), in requests.

The client sends each request until it is answered, and the cluster executes it once and in order, so nothing here is
sent again. The numbers and hashes in the envelopes are for the next attempt, which is another client.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.pipeline.decoding.envelope import (
    ASK,
    CONFIRM,
    DATA,
    HASH,
    MARK,
    OPEN,
    STATE,
    STATE_BODY,
    WRITTEN_MAX,
    Envelope,
    parse,
    roll,
    write_id,
)
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.spark.pulse import Channel, Part, Pulse
from ordo.runtime.errors import ClusterTimeoutError, RejectedError

_REMEDY = "Write the same rows in the same partitions again, or give what is another write another name (option writer)"
ASK_AGAIN_S_MIN, ASK_AGAIN_S_MAX = 0.01, 1.0
"""While a partition waits for the others, it asks after so long, each time after twice as long as before."""
IDLE_SHARE, BEATS = 6, 4
"""A partition waits for this part of the timeout while no task is at work; one that is says so this often meanwhile."""


class WriteRefusedError(PipelineError):
    """The batch does not continue what was written under this name before."""


@dataclass(frozen=True)
class WriterSettings:
    """At most `window` messages are on the way; it is an error when no answer comes for `timeout_s`."""

    window: int = 256
    timeout_s: float = 60.0


@dataclass
class Sent:
    """How many messages of a partition were applied now, not counting what an earlier attempt had written.

    `refused`: how many of them the service answered with Reject; `first_refusal` says which the first was, and why.
    """

    messages: int = 0
    refused: int = 0
    first_refusal: str = ""


class _State(NamedTuple):
    """What the service says of a write."""

    attempt: int
    last: int
    hash: int
    waiting: int
    batch: int


class SequencedWriter:
    """Sends the messages of one partition and does not return before they are applied.

    `now_s` is a monotonic clock.
    """

    def __init__(
        self,
        channel: Channel,
        part: Part,
        settings: WriterSettings | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel, self._part, self._now_s = channel, part, now_s
        self._settings = settings or WriterSettings()
        self._write = write_id(part.name)
        self._unanswered: deque[tuple[int, PendingRequest]] = deque()
        self._sent = Sent()
        self._interval_s = self._settings.timeout_s / IDLE_SHARE / BEATS
        self._pulse = Pulse(lambda mark: self._answer(channel.submit(mark)), part, self._interval_s, now_s)

    def write(self, payloads: Iterable[bytes]) -> Sent:
        """Return what was sent now, and not by an earlier attempt. Raises WriteRefusedError, TimeoutError."""
        if self._part.partition >= WRITTEN_MAX:
            raise self._too_many()
        try:
            return self._write_all(self._pulse.over(payloads))
        finally:
            self._pulse.rest()

    def _write_all(self, rows: Iterator[bytes]) -> Sent:
        count = self._confirm(rows)
        for payload in rows:
            if not self._sent.messages:
                self._await_others()
            count, self._sent.messages = count + 1, self._sent.messages + 1
            if len(self._unanswered) >= self._settings.window:
                self._take_answer()
            self._unanswered.append((count, self._submit(DATA, count, payload)))
        while self._unanswered:
            self._take_answer()
        return self._sent

    def _confirm(self, rows: Iterator[bytes]) -> int:
        """Pass over the rows that are written, and say so to the service; how many they are."""
        state = self._ask(OPEN)
        if state.waiting:
            self._pulse.start()
        count = rolled = 0
        while True:
            while count < state.last:
                payload = next(rows, None)
                if payload is None:
                    raise self._refusal(f"{state.last} messages were written, and this try has only {count}")
                count, rolled = count + 1, roll(rolled, payload)
            if rolled != state.hash:
                raise self._refusal(f"its first {state.last} messages are not those that were written")
            state = self._ask(CONFIRM, count, HASH.pack(rolled))
            if state.attempt == self._part.attempt:
                return count
            if (state.last, state.hash) == (count, rolled):  # so nothing but its place was missing
                raise self._too_many()

    def _await_others(self) -> None:
        """Until every partition that has something written is confirmed by this attempt."""
        self._pulse.rest()
        begun_s = looked_s = self._now_s()
        pause_s, idle_s, before = ASK_AGAIN_S_MIN, 0.0, (0, 0)
        while waiting := (state := self._ask(ASK, partition=MARK)).waiting:
            now_s, found = self._now_s(), (state.attempt, waiting)
            # An answer that was long in coming tells of no more idleness than one beat that was left out.
            idle_s = idle_s + min(now_s - looked_s, self._interval_s) if found == before else 0.0
            looked_s, before = now_s, found
            is_idle = state.attempt > 0 and idle_s > BEATS * self._interval_s  # 0: the filter has no room for the mark
            if is_idle or now_s - begun_s > self._settings.timeout_s:
                raise self._refusal(
                    f"{waiting} other partitions have messages of an earlier try, and in {now_s - begun_s:.0f} s no "
                    f"task confirmed them; were there other partitions then, or more tasks at a time? With option "
                    f"partitions, how many the frame has, missing ones are found at once; a longer timeout waits longer"
                )
            self._channel.park(pause_s)
            pause_s = min(2 * pause_s, ASK_AGAIN_S_MAX)

    def _take_answer(self) -> None:
        """Wait for the oldest answer. A STATE instead of the service's own says that the message was not applied."""
        sequence, pending = self._unanswered.popleft()
        try:
            state = self._state(self._answer(pending))
        except RejectedError as refused:
            self._sent.refused += 1
            if not self._sent.first_refusal:
                self._sent.first_refusal = f"row {sequence} of partition {self._part.partition}: {refused}"
            return
        if state is not None and (state.attempt != self._part.attempt or state.last < sequence):
            raise self._refusal("another try of this write has begun meanwhile")

    def _ask(self, kind: int, sequence: int = 0, body: bytes = b"", partition: int | None = None) -> _State:
        return self._checked(self._submit(kind, sequence, body, partition), partition)

    def _checked(self, pending: PendingRequest, partition: int | None = None) -> _State:
        """Return the state that is answered. Raises WriteRefusedError where it ends this attempt."""
        try:
            state, refusal = self._state(self._answer(pending), partition), ""
        except RejectedError as refused:  # by the service, to which the filter would not have shown it
            state, refusal = None, f" (it refused: {refused})"
        if state is None:
            raise PipelineError(
                f"write {self._part.name!r}: the service does not answer as one that uses SequenceFilter{refusal}; it "
                f"has to return `accept(payload).answer` from on_session_message where nothing is to be applied"
            )
        if state.batch > self._part.batch:
            raise self._refusal(
                f"this is batch {self._part.batch}, and batch {state.batch} was begun under the name; a stream with a "
                f"new checkpoint is a new write"
            )
        return state

    def _submit(self, kind: int, sequence: int, body: bytes, partition: int | None = None) -> PendingRequest:
        part = self._part
        place = part.partition if partition is None else partition
        message = Envelope(kind, self._write, part.attempt, place, part.batch, sequence, body)
        return self._channel.submit(message.encode())

    def _answer(self, pending: PendingRequest) -> bytes:
        try:
            return pending.result(self._settings.timeout_s).payload
        except ClusterTimeoutError as error:
            raise TimeoutError(
                f"write {self._part.name!r}, partition {self._part.partition}: no answer for "
                f"{self._settings.timeout_s:g} s: {error}"
            ) from None

    def _state(self, answer: bytes, partition: int | None = None) -> _State | None:
        """Return the state of a partition, by default of this one; None: something else was answered."""
        part = self._part
        place = part.partition if partition is None else partition
        found = parse(answer)
        if found is None or found.kind != STATE or len(found.body) != STATE_BODY.size:
            return None
        if (found.write, found.partition, found.batch) != (self._write, place, part.batch):
            return None
        return _State(found.attempt, found.sequence, *STATE_BODY.unpack(found.body))

    def _too_many(self) -> PipelineError:
        return PipelineError(
            f"write {self._part.name!r}: it has over {WRITTEN_MAX} partitions; write fewer and larger ones"
        )

    def _refusal(self, why: str) -> WriteRefusedError:
        part = self._part
        return WriteRefusedError(f"write {part.name!r}, partition {part.partition}: {why}. {_REMEDY}")


def check_partitions(
    channel: Channel, name: str, attempt: int, count: int, settings: WriterSettings | None = None
) -> None:
    """Raise WriteRefusedError where an earlier try wrote in partitions that an attempt with `count` does not have.

    To be called before any task of the attempt begins. A first try costs one question, a later one `count` more.
    """
    settings = settings or WriterSettings()
    asking = [SequencedWriter(channel, Part(name, attempt, partition), settings) for partition in range(count)]
    earlier = asking[0]._ask(ASK).waiting
    if not earlier:
        return
    own = 0
    for begin in range(0, count, settings.window):
        asked = [(one, one._submit(ASK, 0, b"")) for one in asking[begin : begin + settings.window]]
        own += sum(one._checked(pending).last > 0 for one, pending in asked)
    # Partitions never lose what was written, and `own` is the later look, so the difference lies beyond `count`.
    if own < earlier:
        raise WriteRefusedError(
            f"write {name!r}: an earlier try wrote in {earlier} partitions, and only {own} of them are among the "
            f"{count} of this one. {_REMEDY}"
        )
