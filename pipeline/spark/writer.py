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
    OPEN,
    PARTITIONS_MAX,
    STATE,
    STATE_BODY,
    Envelope,
    parse,
    roll,
    write_id,
)
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.spark.roster import Channel, Part, Roster
from ordo.runtime.errors import ClusterTimeoutError, RejectedError

_REMEDY = "Write the same rows in the same partitions again, or give what is another write another name (option writer)"
ASK_AGAIN_S_MIN, ASK_AGAIN_S_MAX = 0.01, 1.0
"""While a partition waits for the others, it asks after so long, each time after twice as long as before."""
IDLE_SHARE, LOOKS = 6, 4
"""A partition waits for this part of the timeout while no task is at work, and looks so often meanwhile."""


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
        self._roster = Roster(channel, self._answer, part, self._settings.window)

    def write(self, payloads: Iterable[bytes]) -> Sent:
        """Return what was sent now, and not by an earlier attempt. Raises WriteRefusedError, TimeoutError."""
        rows = iter(payloads)
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
        self._roster.settle()
        return self._sent

    def _confirm(self, rows: Iterator[bytes]) -> int:
        """Pass over the rows that are written, and say so to the service; how many they are."""
        state = self._ask(OPEN)
        if state.waiting:
            self._roster.start()
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
                raise PipelineError(
                    f"write {self._part.name!r}: it has over {PARTITIONS_MAX} partitions; write fewer and larger ones"
                )

    def _await_others(self) -> None:
        """Until every partition that has something written is confirmed by this attempt."""
        idle_s = self._settings.timeout_s / IDLE_SHARE
        begun_s, pause_s = self._now_s(), ASK_AGAIN_S_MIN
        busy_s, look_s = begun_s, begun_s + idle_s / LOOKS
        self._roster.settle()
        while waiting := self._ask(ASK).waiting:
            now_s = self._now_s()
            if now_s >= look_s or now_s - busy_s > idle_s:  # once more before it is refused
                look_s = now_s + idle_s / LOOKS
                busy_s = now_s if self._roster.is_anyone_at_work() else busy_s
            if now_s - busy_s > idle_s or now_s - begun_s > self._settings.timeout_s:
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

    def _ask(self, kind: int, sequence: int = 0, body: bytes = b"") -> _State:
        return self._checked(self._submit(kind, sequence, body))

    def _checked(self, pending: PendingRequest) -> _State:
        """Return the state that is answered. Raises WriteRefusedError where it ends this attempt."""
        try:
            state, refusal = self._state(self._answer(pending)), ""
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

    def _submit(self, kind: int, sequence: int, body: bytes) -> PendingRequest:
        part = self._part
        message = Envelope(kind, self._write, part.attempt, part.partition, part.batch, sequence, body)
        return self._channel.submit(message.encode())

    def _answer(self, pending: PendingRequest) -> bytes:
        try:
            return pending.result(self._settings.timeout_s).payload
        except ClusterTimeoutError as error:
            raise TimeoutError(
                f"write {self._part.name!r}, partition {self._part.partition}: no answer for "
                f"{self._settings.timeout_s:g} s: {error}"
            ) from None

    def _state(self, answer: bytes) -> _State | None:
        """Return the state of this partition; None: something else was answered."""
        part = self._part
        found = parse(answer)
        if found is None or found.kind != STATE or len(found.body) != STATE_BODY.size:
            return None
        if (found.write, found.partition, found.batch) != (self._write, part.partition, part.batch):
            return None
        return _State(found.attempt, found.sequence, *STATE_BODY.unpack(found.body))

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
