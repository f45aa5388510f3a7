"""Keeps a state that differs from the other members', at which the service is halted (docs/RETENTION.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.snapshots.snapshot_writer import SnapshotWriter
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ordo.transport.client.client import TransportClient

SILENCE_NS_MAX = 5_000_000_000
"""An archive that has recorded nothing for so long has no room for it, or does not run."""


class StateKeeper:
    """Keeps one state, in a recording beside those of snapshots."""

    def __init__(self, client: TransportClient, stream_id: int, done: Callable[[int, int], None]) -> None:
        """Call `done` at the end with the state's log position and its recording, or NULL_VALUE without one."""
        self._client = client
        self._stream_id = stream_id
        self._done = done
        self._log_position = NULL_VALUE
        self._writer: SnapshotWriter | None = None
        self._progress = NULL_VALUE
        self._moved_ns = 0

    @property
    def is_under_way(self) -> bool:
        return self._writer is not None

    def begin(self, log_position: int, messages: Iterable[bytes], now_ns: int) -> None:
        """Begin to record the state at this position."""
        self._log_position = log_position
        self._writer = SnapshotWriter(self._client, self._stream_id, messages)
        self._moved_ns = now_ns

    def work(self, now_ns: int) -> int:
        """Advance by a bounded step: return 1 when there was something to do.

        Raises SnapshotError when it is given up.
        """
        writer = self._writer
        if writer is None:
            return 0
        if writer.work():
            self._writer = None
            self._done(self._log_position, writer.recording_id)
            return 1
        self._client.wake_driver()
        if writer.progress != self._progress:
            self._progress, self._moved_ns = writer.progress, now_ns
        elif now_ns - self._moved_ns > SILENCE_NS_MAX:
            self.close()
            self._done(self._log_position, NULL_VALUE)
            raise SnapshotError(
                f"nothing of the state at log position {self._log_position} was recorded for "
                f"{SILENCE_NS_MAX // 10**9} s: it is not kept"
            )
        return 1

    def close(self) -> None:
        """Abandon a recording in progress. Idempotent."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
