"""The differences that canaries report, by group. A function of the log (docs/APPLICATIONS.md).

The newest are kept; their number in a group and the number of groups are bounded. What a canary tells again, because it
was killed or a leader was, takes the place of what it told before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ordo.cluster.container.tables.instance_table import LIST_BYTES_MAX
from ordo.cluster.wire.sessions.difference_codec import (
    GROUP_DIFFERENCES_MAX,
    DifferenceReport,
    decode_difference,
    encode_difference,
)
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.cluster_time import time_ms

GROUPS_MAX = 32

Key = tuple[str, int, int, int]
"""Instance, version of its code, position of the input, index of the output."""


class DifferenceTable:
    """The newest differences of each group, in the order of the log."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Key, DifferenceReport]] = {}

    def take(self, report: DifferenceReport) -> None:
        """Add a difference whose `log_position` is beyond all others.

        Forgets the oldest of its group where there are too many, and the group that has been silent for longest where
        there are too many groups.
        """
        rows = self._groups.setdefault(report.group, {})
        key = report.instance, report.app_version, report.input_position, report.output_index
        rows.pop(key, None)
        rows[key] = report
        if len(rows) > GROUP_DIFFERENCES_MAX:
            del rows[next(iter(rows))]
        if len(self._groups) > GROUPS_MAX:
            del self._groups[min(self._groups, key=lambda group: _newest_position(self._groups[group]))]

    def rows(self, group: str) -> list[DifferenceReport]:
        """Return the differences that are kept of a group, in the order of the log."""
        return list(self._groups.get(group, {}).values())

    def describe(self, group: str, after_log_position: int) -> str:
        """Return a JSON list of the group's differences that were reported after this position of the log.

        As many as go into an answer, none when there are no more.
        """
        found: list[str] = []
        for report in self.rows(group):
            if report.log_position > after_log_position:
                found.append(json.dumps(_describe(report)))
            if sum(map(len, found)) > LIST_BYTES_MAX:
                break
        return f"[{', '.join(found)}]"

    def snapshot(self) -> Iterator[bytes]:
        """Yield one message for each difference, in the order of the log."""
        rows = [report for group in self._groups.values() for report in group.values()]
        for report in sorted(rows, key=lambda one: one.log_position):
            yield encode_difference(report, 0)

    def restore(self, messages: Iterable[bytes]) -> None:
        """Restore the state that `snapshot` returned. Raises SnapshotError if it is not valid."""
        for message in messages:
            report = decode_difference(message)
            if report is None:
                raise SnapshotError(f"snapshot: a difference of a canary cannot be read: {message[:16].hex()}")
            self.take(report)


def _newest_position(rows: dict[Key, DifferenceReport]) -> int:
    return rows[next(reversed(rows))].log_position


def _describe(report: DifferenceReport) -> dict[str, Any]:
    return {
        "instance": report.instance,
        "version": report.app_version,
        "position": report.input_position,
        "index": report.output_index,
        "difference": report.kind.text,
        "written": None if report.written_length < 0 else repr(report.written),
        "written_length": report.written_length,
        "canary": None if report.canary_length < 0 else repr(report.canary),
        "canary_length": report.canary_length,
        "found": report.found,
        "time": time_ms(report.timestamp),
        "log_position": report.log_position,
    }
