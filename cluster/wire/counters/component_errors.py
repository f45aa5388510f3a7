"""What goes wrong in a node or its container, in the error log of its mark file (cluster-consensus.md §17.3)."""

from __future__ import annotations

import traceback

from ordo.cluster.wire.counters.mark_file import ACTIVITY_INTERVAL_NS, HEADER_LENGTH_BYTES, MarkFile
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.error_log import DistinctErrorLog, ErrorObservation, read_errors
from ordo.runtime.native.memory import MemoryProvider

SNAPSHOT_REFUSED = "could not take its snapshot at log_position="
"""In the error of a consensus module whose service failed at a snapshot; the order of the snapshot looks for it."""


class ComponentErrors:
    """The mark file of a component and its distinct error log, which outlive it.

    `fields` are those of the mark file's header that matter. Raises StorageInUseError while another one is alive.
    """

    def __init__(self, memory: MemoryProvider, path: str, clock: Clock, **fields: object) -> None:
        self._clock = clock
        self._next_activity_ns = 0
        self._mark_file = MarkFile.create(memory, path, clock.epoch_ms(), **fields)
        self._log: DistinctErrorLog | None = DistinctErrorLog(self._mark_file.error_log_memory, clock)

    def record(self, error: BaseException, where: str) -> None:
        """Keep an error with its traceback; one that was met before is counted. Nothing once closed."""
        self.record_text(f"{where}\n{''.join(traceback.format_exception(error)).rstrip()}")

    def record_text(self, text: str) -> None:
        """Record an error that is no exception."""
        if self._log is not None:
            self._log.record(text)

    def read(self) -> list[ErrorObservation]:
        """Everything that is kept; nothing once closed."""
        if self._log is None:
            return []
        error_log = self._mark_file.error_log_memory
        return list(read_errors(error_log))

    def work(self, now_ns: int) -> None:
        if now_ns >= self._next_activity_ns and self._log is not None:
            self._next_activity_ns = now_ns + ACTIVITY_INTERVAL_NS
            self._mark_file.set_activity(self._clock.epoch_ms())

    def close(self) -> None:
        """Idempotent."""
        self._log = None
        self._mark_file.close()


def read_component_errors(memory: MemoryProvider, path: str) -> list[ErrorObservation]:
    """Return the error log in a mark file, whether its owner lives or not; [] without the file."""
    if not memory.exists(path):
        return []
    mark_file = memory.open(path, False)
    try:
        error_log = mark_file.slice(HEADER_LENGTH_BYTES, len(mark_file) - HEADER_LENGTH_BYTES, False)
        try:
            return list(read_errors(error_log))
        finally:
            error_log.close()
    finally:
        mark_file.close()
