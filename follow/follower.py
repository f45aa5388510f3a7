"""Follows the committed log over several nodes, without a gap and without a repeat; the clock is handed in."""

from __future__ import annotations

from collections.abc import Callable

from ordo.follow.entries import LogEntry, decode_entry
from ordo.follow.recordings.recording_follower import RecordingFollower


class LogFollower(RecordingFollower):
    """A follower of the log, which hands out entries."""

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        """Call `handler(entry)` for what has come, at most `limit` fragments; return how many."""

        def on_record(position: int, record: bytes) -> None:
            entry = decode_entry(position, record)
            if entry is not None:
                handler(entry)

        return self.poll_records(on_record, limit)
