"""Which tasks of a try of a write are at work, so that none waits for long for tasks that there are not.

Spark tells a Python sink nowhere how many tasks a write has: `DataSource.writer` gets a schema and options, and a
`TaskContext` has the number of its own partition (PySpark 4.3; the JVM's PhysicalWriteInfo.numPartitions goes no
further than PythonBatchWrite). So the tasks of a retry tell each other through the filter of the service. A mark is a
partition with a number that no frame has, in which nothing is ever written; its attempt is the mark's value:

    STARTED + partition     this task has begun                  value: attempt and number of Spark's try of the task
    SETTLED + partition     it waits for others, or has ended    the same value

Where every task that began has settled, and none has begun for a while, none will: those that wait hold their places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.pipeline.decoding.envelope import ASK, CONFIRM, HASH, Envelope, parse, write_id

STARTED, SETTLED = 1 << 31, 1 << 30
MARKED_MAX = 1 << 12
"""Partitions from this one on leave no marks, so that marks do not fill the filter's table."""
BLOCK = 32
"""How many partitions beyond the last one that has begun are looked at."""
_TRIES = 7


class Channel(Protocol):
    """What writers need of a cluster client."""

    def submit(self, payload: bytes) -> PendingRequest: ...
    def park(self, timeout_s: float) -> None: ...


@dataclass(frozen=True)
class Part:
    """Which part of which attempt of which write this is. `task_try`: how often Spark has tried the task before."""

    name: str
    attempt: int
    partition: int
    batch: int = 0
    task_try: int = 0


class Roster:
    """The marks of one attempt, as one of its tasks sets and sees them. `answer` waits for a request's."""

    def __init__(
        self, channel: Channel, answer: Callable[[PendingRequest], bytes], part: Part, window: int = BLOCK
    ) -> None:
        self._channel, self._answer, self._part, self._window = channel, answer, part, window
        self._write = write_id(part.name)
        self._value = part.attempt << _TRIES | part.task_try % (1 << _TRIES)
        self._is_listed = False
        self._end = min(part.partition, MARKED_MAX) + BLOCK
        self._open = set(range(self._end)) - {part.partition}
        """Partitions below the end that have not been found settled."""
        self._begun: set[int] = set()

    def start(self) -> None:
        """Mark that this task is at work."""
        self._is_listed = self._part.partition < MARKED_MAX
        self._mark(STARTED)

    def settle(self) -> None:
        """Mark that this task waits for others or has ended, if it has said that it began."""
        self._mark(SETTLED)

    def is_anyone_at_work(self) -> bool:
        """Say whether a task of this attempt is at work, or has begun since this was asked last."""
        is_busy = False
        asked = sorted(self._open)
        while asked:
            for partition, value in zip(asked, self._values(STARTED, asked), strict=True):
                if value >> _TRIES == self._part.attempt:
                    is_busy = is_busy or partition not in self._begun or partition == MARKED_MAX - 1
                    self._begun.add(partition)
            begun = [one for one in asked if one in self._begun]
            settled = zip(begun, self._values(STARTED, begun), self._values(SETTLED, begun), strict=True)
            ended = {partition for partition, start, end in settled if start == end}
            is_busy = is_busy or len(ended) < len(begun)
            self._open -= ended
            asked = self._further()
        return is_busy

    def _further(self) -> list[int]:
        """Return the partitions to look at beyond those so far, if the last of these has begun."""
        if max(self._begun, default=0) < self._end - BLOCK or self._end >= MARKED_MAX:
            return []
        found = list(range(self._end, self._end + BLOCK))
        self._open.update(found)
        self._end += BLOCK
        return found

    def _mark(self, kind: int) -> None:
        if self._is_listed:
            mark = self._envelope(CONFIRM, kind + self._part.partition, HASH.pack(0))
            self._answer(self._channel.submit(mark.encode()))

    def _values(self, kind: int, partitions: list[int]) -> list[int]:
        found: list[int] = []
        for begin in range(0, len(partitions), self._window):
            marks = [self._envelope(ASK, kind + one) for one in partitions[begin : begin + self._window]]
            asked = [self._channel.submit(mark.encode()) for mark in marks]
            answers = [parse(self._answer(pending)) for pending in asked]
            found += [one.attempt if one is not None else 0 for one in answers]
        return found

    def _envelope(self, kind: int, partition: int, body: bytes = b"") -> Envelope:
        return Envelope(kind, self._write, self._value, partition, self._part.batch, 0, body)
