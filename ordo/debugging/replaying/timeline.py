"""Goes to any record of a log, forward and backward: the nearest state that is kept, and what follows it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.debugging.replaying.execution import Execution, ServiceFailedError, ServiceFailure
from ordo.follow.entries import decode_entry
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.cluster_time import time_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.archive.segments.reader import RecordedMessage
    from ordo.cluster.module.state.state_store import SnapshotEntry
    from ordo.debugging.replaying.code import MakeVersions
    from ordo.debugging.replaying.effects import Effect
    from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog
    from ordo.follow.entries import LogEntry

CHECKPOINT_INTERVAL_S = 0.3
"""A state is kept after so much execution, so that a step back takes no longer than this, and loading the state."""
CHECKPOINT_COST_MAX = 4
"""Keeping a state that takes long is done after at least this many times as long."""
CHECKPOINTS_MAX = 64
CHECKPOINT_BYTES_MAX = 1 << 30


class Step(NamedTuple):
    """One record that was executed, and what the service did."""

    position: int
    record: bytes
    effects: list[Effect]

    @property
    def entry(self) -> LogEntry | None:
        """The record as readers of the log see it; None for one that is not for them."""
        return decode_entry(self.position, self.record)

    def lines(self, log: RecordedLog) -> list[str]:
        """Return the record and its effects for people, messages as the log's schemas say them."""
        effects = (one.describe(log.schemas) for one in self.effects)
        return [log.describe(self.position, self.record), *(f"  {one}" for one in effects)]


def timestamp_of(position: int, record: bytes) -> int:
    """Return the cluster time of a record; -1 where it has none."""
    entry = decode_entry(position, record)
    if entry is not None:
        return entry.timestamp
    found = ordo_codecs.decode_any(record)
    return -1 if found is None else int(getattr(found[1], "timestamp", -1))


class Timeline:
    """A service at one record of its log. `failure`: what it raised at the record that was executed last."""

    def __init__(
        self, log: RecordedLog, code: MakeVersions, service_id: int = 0, *, uses_snapshots: bool = True
    ) -> None:
        """Begin at the earliest position that there is a state for. Raises ConfigurationError, ServiceFailedError.

        `uses_snapshots`: whether the members' snapshots are executed from, or the log alone.
        """
        self.log = log
        self._code, self._service_id = code, service_id
        self._snapshots = log.snapshots if uses_snapshots or log.start > 0 else []
        self._kept: list[Checkpoint] = []
        self._kept_bytes = 0
        if log.start > 0 and not self._snapshots:
            raise ConfigurationError(
                f"{log.path}: the log begins at {log.start}, and there is no snapshot of a later position to start from"
            )
        self.earliest = 0 if log.start == 0 else self._snapshots[0].log_position
        self.failure: ServiceFailure | None = None
        self.last: Step | None = None
        self._restore(self.earliest)

    @property
    def position(self) -> int:
        """The position after the record that was executed last."""
        return self.execution.position if self.failure is None else self.failure.position

    @property
    def is_at_end(self) -> bool:
        return self.failure is not None or self._next() is None

    # Going

    def go(self, position: int) -> None:
        """Go to the last record that ends at a position or before it. Raises ConfigurationError, ServiceFailedError."""
        if not self.earliest <= position <= self.log.end:
            raise ConfigurationError(self._describe_bounds(f"position {position}"))
        if self.failure is not None or position < self.execution.position or self._best(position) > self.position:
            self._restore(position)
        self._advance(position)

    def go_to_time(self, timestamp: int) -> None:
        """Go to the last record of a cluster time or an earlier one."""
        wanted_ns = time_ns(timestamp)
        self.go(
            max(
                (one.log_position for one in self._snapshots if time_ns(one.timestamp) <= wanted_ns),
                default=self.earliest,
            )
        )
        begun = self.position
        first = self._next()
        if (
            first is not None
            and time_ns(timestamp_of(first.position, first.payload)) > wanted_ns
            and begun == self.earliest
        ):
            raise ConfigurationError(self._describe_bounds(f"time {timestamp}"))
        while self._run(self.log.end) and time_ns(self.execution.container.time) <= wanted_ns:
            begun = self.execution.position
            self._keep_now_and_then()
        self.go(begun)
        while (found := self._next()) is not None and time_ns(timestamp_of(found.position, found.payload)) <= wanted_ns:
            self._execute(found)

    def go_to_sequence(self, sequence: int) -> None:
        """Go to the message of this number. Raises ConfigurationError where there is none."""
        begun = next((one.log_position for one in reversed(self._snapshots) if self._precedes(one, sequence)), 0)
        self.go(max(begun, self.earliest))
        numbers = self.execution.container.sequence
        if numbers.last < sequence:
            begun = self.position
            while numbers.last < sequence and self._run(self.log.end):
                if numbers.last < sequence:
                    begun = self.execution.position
                    self._keep_now_and_then()
            self.go(begun)
            numbers = self.execution.container.sequence
            while numbers.last < sequence and (found := self._next()) is not None:
                self._execute(found)
        if numbers.last != sequence:
            raise ConfigurationError(f"no message has the number {sequence}: {self._describe_numbers()}")

    def _precedes(self, entry: SnapshotEntry, sequence: int) -> bool:
        """Whether a message of this number can only come after a snapshot."""
        head = container_snapshot.decode(iter(self.log.load(entry, self._service_id).messages))
        return (head.sequence if head.sequence >= 0 else head.log_position) < sequence

    def _describe_numbers(self) -> str:
        last = self.execution.container.sequence.last
        return f"at position {self.position} the last one has {last}" if last else "messages have none there"

    def step(self) -> Step | None:
        """Execute the next record; None at the end. Raises ServiceFailedError."""
        found = None if self.failure is not None else self._next()
        return None if found is None else self._execute(found)

    def back(self) -> bool:
        """Go to before the record that was executed last; return False at the earliest position."""
        position = self.position
        if position <= self.earliest:
            return False
        self._restore(position - 1)
        self._advance(position - 1)
        return True

    def run(self, is_reached: Callable[[Step], object] | None, limit: int | None = None) -> Step | None:
        """Execute record by record up to one for which a condition is true; None: the end, or the limit."""
        end = self.log.end if limit is None else limit
        if is_reached is None:
            self.go(end)
            return None
        for record in self.log.records(self.position, end) if self.failure is None else ():
            step = self._execute(record)
            if is_reached(step):
                return step
            self._keep_now_and_then()
        return None

    def next_record(self) -> RecordedMessage | None:
        """Return the record that `step` would execute."""
        return None if self.failure is not None else self._next()

    # States that are kept

    def _next(self) -> RecordedMessage | None:
        return next(self.log.records(self.execution.position), None)

    def _execute(self, record: RecordedMessage) -> Step:
        try:
            effects = self.execution.step(record.position)
        except ServiceFailedError as error:
            self._fail(error)
            raise
        self.last = Step(record.position, record.payload, effects)
        return self.last

    def _advance(self, position: int) -> None:
        while self._run(position):
            self._keep_now_and_then()

    def _run(self, position: int) -> bool:
        self.last = None
        try:
            return self.execution.run(position)
        except ServiceFailedError as error:
            self._fail(error)
            raise

    def _fail(self, error: ServiceFailedError) -> None:
        self.failure, self.last = error.failure, None

    def _best(self, position: int) -> int:
        """Return the position of the newest state at a position or before it."""
        kept = [one.position for one in self._kept if one.position <= position]
        taken = [one.log_position for one in self._snapshots if one.log_position <= position]
        return max([*kept, *taken, self.earliest])

    def _restore(self, position: int) -> None:
        best = self._best(position)
        start = next((one for one in self._kept if one.position == best), None)
        if start is None:
            entry = next((one for one in self._snapshots if one.log_position == best), None)
            start = None if entry is None else self.log.load(entry, self._service_id)
        self.failure, self.last = None, None
        self.execution = Execution(self.log, self._code, start, service_id=self._service_id)
        self._kept_s, self._cost_s = time.perf_counter(), 0.0

    def _keep_now_and_then(self) -> None:
        now_s = time.perf_counter()
        if now_s - self._kept_s < max(CHECKPOINT_INTERVAL_S, CHECKPOINT_COST_MAX * self._cost_s):
            return
        if self.execution.can_save and self._best(self.execution.position) < self.execution.position:
            kept = self.execution.save()
            self._kept = sorted([*self._kept, kept])
            self._kept_bytes += kept.length_bytes
            while self._kept_bytes > CHECKPOINT_BYTES_MAX or len(self._kept) > CHECKPOINTS_MAX:
                self._kept = self._kept[1::2]
                self._kept_bytes = sum(one.length_bytes for one in self._kept)
        self._kept_s = time.perf_counter()
        self._cost_s = self._kept_s - now_s

    def _describe_bounds(self, what: str) -> str:
        first = "the beginning of the log" if self.earliest == 0 else "the earliest snapshot"
        return f"{what} cannot be reached: allowed are positions from {self.earliest}, {first}, to {self.log.end}"
