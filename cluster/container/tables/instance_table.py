"""The reports that instances of applications make of themselves, by session.

A function of the log (docs/APPLICATIONS.md).

A report replaces the one before of the same session, and is forgotten with it, so there is at most one for each session
that the cluster allows, and each is short.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ordo.cluster.wire.sessions.instance_codec import (
    InstanceReport,
    ReportFlag,
    decode_report,
    encode_report,
)
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.cluster_time import time_ms

LIST_BYTES_MAX = 4096


class InstanceTable:
    """The newest report of each session."""

    def __init__(self) -> None:
        self._reports: dict[int, InstanceReport] = {}

    def get(self, session_id: int) -> InstanceReport | None:
        """Return the session's newest report, or None."""
        return self._reports.get(session_id)

    def take(self, report: InstanceReport) -> None:
        """Take a report of an open session."""
        self._reports[report.session_id] = report

    def close_session(self, session_id: int) -> None:
        """Forget the report of a session, if there is one."""
        self._reports.pop(session_id, None)

    def describe(self, after_session_id: int, log_position: int, time: int) -> str:
        """Return a JSON list of the instances whose sessions come after this one.

        As many as go into an answer, none when there are no more. `log_position` and `time` are those of now.
        """
        rows: list[str] = []
        for session_id in sorted(self._reports):
            if session_id > after_session_id:
                rows.append(json.dumps(_describe(self._reports[session_id], log_position, time)))
            if sum(map(len, rows)) > LIST_BYTES_MAX:
                break
        return f"[{', '.join(rows)}]"

    def snapshot(self) -> Iterator[bytes]:
        """Yield one message for each report, in the order of their sessions."""
        for session_id in sorted(self._reports):
            yield encode_report(self._reports[session_id], 0)

    def restore(self, messages: Iterable[bytes]) -> None:
        """Restore the state that `snapshot` returned. Raises SnapshotError if it is not valid."""
        for message in messages:
            report = decode_report(message)
            if report is None:
                raise SnapshotError(f"snapshot: a report of an instance cannot be read: {message[:16].hex()}")
            self.take(report)


def _describe(report: InstanceReport, log_position: int, time: int) -> dict[str, Any]:
    return {
        "group": report.group,
        "instance": report.instance,
        "session": report.session_id,
        "active": bool(report.flags & ReportFlag.ACTIVE),
        "canary": bool(report.flags & ReportFlag.CANARY),
        "version": report.app_version,
        "newest_version": report.newest_version,
        "position": report.position,
        "log_position": log_position,
        "lag": log_position - report.position,
        "outputs_made": report.outputs_made,
        "outputs_executed": report.outputs_executed,
        "refused": bool(report.flags & ReportFlag.REFUSED),
        "outputs_refused": report.refused,
        "refused_exact": report.is_refused_exact,
        "reported_ms": time_ms(time) - time_ms(report.timestamp),
    }
