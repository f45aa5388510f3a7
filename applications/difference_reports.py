"""A canary's reports of its differences to the cluster, for `ordo app diff`: the newest, a bounded number per interval.

A record may be lost with a leader, and leaders of a cluster with an older release take none. So each is told again
until it stands in the log; what is told twice takes the place of what was told before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ordo.applications.canary import Difference
from ordo.applications.instance_reports import ReportSession
from ordo.applications.outputs import Output
from ordo.cluster.wire.sessions.difference_codec import (
    GROUP_DIFFERENCES_MAX,
    NOT_WRITTEN,
    PAYLOAD_BYTES_MAX,
    DifferenceReport,
    decode_difference,
    encode_difference,
)
from ordo.follow.entries import LogEntry

REPEAT_INTERVALS = 5
"""After this many intervals it is told again."""
Place = tuple[int, int]
"""Position of the input, index of the output."""


@dataclass
class _Untold:
    report: DifferenceReport
    due_ns: int = 0


class DifferenceReports:
    """The differences of one canary."""

    def __init__(self, group: str, instance: str, app_version: int, interval_ns: int) -> None:
        self._group = group
        self._instance = instance
        self._app_version = app_version
        self._interval_ns = interval_ns
        self._due_ns = 0
        self._session_id = -1
        self._untold: dict[Place, _Untold] = {}
        self._told: dict[Place, DifferenceReport] = {}
        self.count = 0
        """Differences that were found."""

    @property
    def told(self) -> Iterable[DifferenceReport]:
        """The reported differences that the log keeps, in the order in which they were found there."""
        return tuple(self._told.values())

    @property
    def has_untold(self) -> bool:
        return bool(self._untold)

    def snapshot(self) -> Iterator[bytes]:
        """Return the unreported differences for a checkpoint, because the next run does not find them again."""
        for one in self._untold.values():
            yield encode_difference(one.report, 0)

    def restore(self, checkpoint: list[bytes]) -> list[bytes]:
        """Take what `snapshot` gave from the front of a checkpoint, and return the rest."""
        for index, message in enumerate(checkpoint):
            report = decode_difference(message)
            if report is None:
                return checkpoint[index:]
            self._untold[report.input_position, report.output_index] = _Untold(report)
        return []

    def note(self, one: Difference) -> None:
        """Note a difference that the canary has found.

        The oldest is left out when they come faster than they can be told.
        """
        self.count += 1
        self._untold[one.input_position, one.output_index] = _Untold(
            DifferenceReport(
                self._group,
                self._instance,
                0,
                0,
                0,
                one.input_position,
                one.output_index,
                self.count,
                self._app_version,
                one.kind,
                _length(one.written),
                _length(one.made),
                _beginning(one.written),
                _beginning(one.made),
            )
        )
        if len(self._untold) > GROUP_DIFFERENCES_MAX:
            del self._untold[next(iter(self._untold))]

    def confirm(self, entry: LogEntry) -> None:
        """Note that a canary's difference is in the log, this canary's or another's."""
        place = entry.values.input_position, entry.values.output_index
        found = self._untold.pop(place, None) if entry.session_id == self._session_id else None
        if found is not None:
            self._told[place] = found.report
            if len(self._told) > GROUP_DIFFERENCES_MAX:
                del self._told[next(iter(self._told))]

    def work(self, session: ReportSession, now_ns: int) -> None:
        """Send the reports that are due."""
        if not self._untold or now_ns < self._due_ns or session.session_id < 0:
            return
        if session.session_id != self._session_id:
            self._session_id = session.session_id
            for one in self._untold.values():
                one.due_ns = now_ns
        due = [one for one in self._untold.values() if one.due_ns <= now_ns]
        for one in due:
            report = one.report._replace(session_id=session.session_id)
            if not session.offer_report(encode_difference(report, session.leadership_term_id)):
                return
            one.due_ns = now_ns + REPEAT_INTERVALS * self._interval_ns
        if due:
            self._due_ns = now_ns + self._interval_ns


def _length(output: Output | None) -> int:
    return NOT_WRITTEN if output is None else len(output.payload)


def _beginning(output: Output | None) -> bytes:
    return b"" if output is None else output.payload[:PAYLOAD_BYTES_MAX]
