"""Tells the tasks of a retried write that one of them is at work, so that none waits for long for those there are not.

Spark tells a Python sink nowhere how many tasks a write has: `DataSource.writer` gets a schema and options, and a
`TaskContext` has the number of its own partition (PySpark 4.3; the JVM's PhysicalWriteInfo.numPartitions goes no
further than PythonBatchWrite). So the tasks of a retry tell each other through the filter of the service, in one mark
for the whole write: a partition with a number that no frame has, in which nothing is ever written. A task that begins
or is at work gives it another value every few seconds (a beat). One that waits asks for the mark, and gets with it how
many partitions are not confirmed; where neither changes for a while, nobody is at work and nobody has begun.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.pipeline.decoding.envelope import CONFIRM, HASH, MARK, Envelope, write_id
from ordo.runtime.errors import OrdoError


class Channel(Protocol):
    """What writers need of a cluster client."""

    def submit(self, payload: bytes) -> PendingRequest: ...
    def park(self, timeout_s: float) -> None: ...


@dataclass(frozen=True)
class Part:
    """Which part of which attempt of which write this is."""

    name: str
    attempt: int
    partition: int
    batch: int = 0


class Pulse:
    """Beats for one task, from `start` to `rest`, every `interval_s`. `send` sends a request and waits for its answer.

    A client belongs to one thread at a time, and a task may wait for its next row for minutes. So the task beats by
    itself as its rows come, and a thread does while it waits for one; the one that has `_turn` may use the client.
    `now_s` is a monotonic clock.
    """

    def __init__(
        self, send: Callable[[bytes], object], part: Part, interval_s: float, now_s: Callable[[], float]
    ) -> None:
        self._send, self._part, self._interval_s, self._now_s = send, part, interval_s, now_s
        self._turn = threading.Lock()
        self._rests = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat_s = 0.0

    def start(self) -> None:
        """Beat, and go on with it."""
        self._turn.acquire()
        self._beat()
        self._thread = threading.Thread(target=self._beat_meanwhile, name="ordo-write-pulse", daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """End the beats: the task waits for others, or has ended. Idempotent."""
        if self._thread is not None:
            self._rests.set()
            self._thread.join()
            self._thread = None

    def over(self, rows: Iterable[bytes]) -> Iterator[bytes]:
        """Iterate over the rows of the task, and beat meanwhile."""
        left = iter(rows)
        while self._thread is not None:
            self._turn.release()
            try:
                row = next(left)
            except StopIteration:
                return
            finally:
                self._turn.acquire()
            if self._now_s() - self._beat_s >= self._interval_s:
                self._beat()
            yield row
        yield from left

    def _beat_meanwhile(self) -> None:
        while not self._rests.wait(self._interval_s):
            if self._turn.acquire(blocking=False):
                try:
                    with suppress(OrdoError, TimeoutError):  # the task's next request meets it, too, and says so
                        self._beat()
                finally:
                    self._turn.release()

    def _beat(self) -> None:
        part, value = self._part, int.from_bytes(os.urandom(8)) | 1
        self._send(Envelope(CONFIRM, write_id(part.name), value, MARK, part.batch, 0, HASH.pack(0)).encode())
        self._beat_s = self._now_s()
