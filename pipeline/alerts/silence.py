"""Silence: nothing new has come of a log for a while.

A log's own time stands still then, so silence is measured by this machine's clock, from when the last record came here.
A record came when the batch that has it began; that batch may take long, so a log counts as silent only up to the last
moment at which it was known that nothing newer was there: a later batch began without it, or the stream found nothing.
What is known is kept in the checkpoint, so a watch that starts again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ordo.pipeline.alerts.alerts import Alert

NOTHING_READ = -1
"""Position of a watch that has read nothing yet."""


@dataclass
class _Arrival:
    position: int
    at_s: float
    """When the last record came, in seconds of this machine's epoch."""
    was_told: bool = False


class Arrivals:
    """When something last came of each log; `state` is what has to be kept to go on later."""

    def __init__(self, gap_us: int | None, name: str, now_s: float, state: Mapping[str, Any] | None = None) -> None:
        """`name` stands for all logs, as long as nothing was read of any. Without `gap_us` nothing is silent."""
        self._gap_us = gap_us
        self._logs = {key: _Arrival(**values) for key, values in (state or {}).items()}
        for log in self._logs.values():  # a clock that was set back meanwhile
            log.at_s = min(log.at_s, now_s)
        if not self._logs:
            self._logs[name] = _Arrival(NOTHING_READ, now_s)

    @property
    def state(self) -> dict[str, Any]:
        return {key: asdict(log) for key, log in self._logs.items()}

    def take(self, positions: Mapping[str, int], began_s: float) -> list[Alert]:
        """Take the last position of each log, as of a batch that began at `began_s`; return what was silent then."""
        if positions:
            self._logs = {key: log for key, log in self._logs.items() if log.position != NOTHING_READ}
        for key, position in positions.items():
            log = self._logs.get(key)
            if log is None or log.position != position:
                self._logs[key] = _Arrival(position, began_s)
        return self.look(began_s)

    def look(self, now_s: float) -> list[Alert]:
        """Return the logs of which nothing newer was there at `now_s`, for longer than the gap; each once."""
        if self._gap_us is None:
            return []
        silent = [
            key for key, log in self._logs.items() if not log.was_told and (now_s - log.at_s) * 1e6 > self._gap_us
        ]
        for key in silent:
            self._logs[key].was_told = True
        return [self._alert(key, now_s) for key in silent]

    def _alert(self, key: str, now_s: float) -> Alert:
        log = self._logs[key]
        where = "since watching began" if log.position == NOTHING_READ else f"behind position {log.position}"
        return {
            "id": f"{key}:silence:{log.position}", "kind": "silence", "log": key, "position": log.position,
            "time": None, "text": f"nothing came {where} for {now_s - log.at_s:,.1f} s",
        }  # fmt: skip
