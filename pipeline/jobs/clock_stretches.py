"""How well the time of each stretch of a log was known, by what its leaders reported of their clocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.pipeline.recordings.time_unit import moment
from ordo.runtime.native.time_units import MILLISECOND_NS

SYNCHRONIZED = "synchronized"
UNSYNCHRONIZED = "not synchronized"
UNTOLD = "not told"
"""The leader's system did not say how well its clock was known."""
UNREPORTED = "no report"
"""The log does not say it: it is of an earlier release, reports were turned off, or none is near."""
Figure = Literal["error_ns", "error_bound_ns", "error_estimate_ns", "offset_ns", "wall_clock_ahead_ns"]
FIGURES: dict[Figure, str] = {
    "error_ns": "error",
    "error_bound_ns": "error_bound",
    "error_estimate_ns": "error_estimate",
    "offset_ns": "offset",
    "wall_clock_ahead_ns": "wall_clock_ahead",
}
"""The worst that was reported, by its name in a stretch, and by that in a run of the auditor."""
_SAME = ("leadership_term", "member", "source", "is_synchronized")

Run = dict[str, int]


class Stretch(TypedDict):
    """A stretch of a log: figures and `member` are None where no report has them."""

    position: int
    cluster_time: int
    leadership_term: int
    member: int | None
    clock: str
    reports: int
    error_ns: int | None
    error_bound_ns: int | None
    error_estimate_ns: int | None
    offset_ns: int | None
    wall_clock_ahead_ns: int | None


class ClockedNode(TypedDict):
    """What is used here of a node's facts."""

    limit: int
    clock: list[Stretch]


def find_stretches(results: Iterable[Mapping[str, list[Run]]]) -> list[Stretch]:
    """Return the stretches of a recording in order: each goes as far as the next one begins.

    A report holds for the records of its term that are no further from it than two of its intervals, before it and
    after it. `results` are those of `SegmentAudit`, in the order of the segments.
    """
    return _Stretches().find(_joined(run for result in results for run in result["clock_runs"]))


def _joined(runs: Iterable[Run]) -> list[Run]:
    """Join the runs without reports that segments have cut."""
    found: list[Run] = []
    for run in runs:
        last = found[-1] if found and found[-1]["reports"] == 0 else None
        if last is not None and run["reports"] == 0 and run["leadership_term"] == last["leadership_term"]:
            last["time_last"] = run["time_last"]
        else:
            found.append(dict(run))
    return found


@dataclass
class _Stretches:
    found: list[Stretch] = field(default_factory=list)
    _last: Run | None = None
    """The run of the stretch that was found last."""

    def find(self, runs: list[Run]) -> list[Stretch]:
        begin: Run | None = None
        for index, run in enumerate(runs):
            before, after = _neighbour(runs, index, -1), _neighbour(runs, index, 1)
            if run["reports"] > 0:
                self._add_reported(run, begin or run)
                begin = None
            elif run["reports"] < 0 or not _is_near(run, before, after):
                self._add_unreported(run)
            elif before is None or _end(before) < run["time_first"]:
                begin = run
        return self.found

    def _add_reported(self, run: Run, begin: Run) -> None:
        if self._last is None or any(run[name] != self._last[name] for name in _SAME):
            clock = SYNCHRONIZED if run["is_synchronized"] else UNSYNCHRONIZED
            self._add(begin, UNTOLD if run["source"] == ClockSource.NONE else clock, run["member"])
            self._last = run
        stretch = self.found[-1]
        stretch["reports"] += run["reports"]
        for name, key in FIGURES.items() if stretch["clock"] != UNTOLD else ():
            stretch[name] = max(stretch[name] or 0, run[key])

    def _add_unreported(self, run: Run) -> None:
        if not self.found or self.found[-1]["clock"] != UNREPORTED:
            self._add(run, UNREPORTED, None)
        self._last = None

    def _add(self, begin: Run, clock: str, member: int | None) -> None:
        self.found.append(
            {
                "position": begin["position"],
                "cluster_time": begin["time_first"],
                "leadership_term": begin["leadership_term"],
                "member": member,
                "clock": clock,
                "reports": 0,
                "error_ns": None,
                "error_bound_ns": None,
                "error_estimate_ns": None,
                "offset_ns": None,
                "wall_clock_ahead_ns": None,
            }
        )


def _neighbour(runs: list[Run], index: int, step: int) -> Run | None:
    """Return the run of reports of the same term that is next to a run."""
    index += step
    if not 0 <= index < len(runs):
        return None
    found = runs[index]
    is_near = found["reports"] > 0 and found["leadership_term"] == runs[index - step]["leadership_term"]
    return found if is_near else None


def _end(run: Run) -> int:
    """Return the time up to which the last report of a run holds."""
    return int(run["time_last"] + run["reach"])


def _is_near(run: Run, before: Run | None, after: Run | None) -> bool:
    """Return whether the reports before and after these records hold for all of them."""
    if before is not None and run["time_last"] <= _end(before):
        return True
    if after is None:
        return False
    begin = after["time_first"] - after["reach_first"]
    return bool(run["time_first"] >= begin or (before is not None and _end(before) >= begin))


def find_clocks(nodes: Iterable[ClockedNode]) -> list[Stretch]:
    """Return the stretches of the longest log."""
    longest = max(nodes, key=lambda node: node["limit"], default=None)
    return [] if longest is None else longest["clock"]


def describe_clocks(stretches: list[Stretch]) -> list[str]:
    """Return in words how well the time of a log was known, from the best to what is not known."""
    lines = []
    known = [one for one in stretches if one["clock"] == SYNCHRONIZED]
    if known:
        worst = max(known, key=lambda one: one["error_ns"] or 0)
        members = ", ".join(sorted({str(one["member"]) for one in known}))
        lines.append(
            f"time: reported to be off by at most {milliseconds(worst['error_ns'] or 0)} where the clock was "
            f"synchronized, stamped by member {members}; worst from position {worst['position']:,} on"
        )
    for clock, text in (
        (UNSYNCHRONIZED, "the clock was not synchronized"),
        (UNTOLD, "the leader's system did not tell how well the clock was known"),
        (UNREPORTED, "the log does not say how well the clock was known"),
    ):
        some = [one for one in stretches if one["clock"] == clock]
        if some:
            lines.append(
                f"time: {text} in {len(some)} of {len(stretches)} stretches, first from position "
                f"{some[0]['position']:,} on ({moment(some[0]['cluster_time'])})"
            )
    return lines


def milliseconds(value_ns: int) -> str:
    """Return a duration in milliseconds, down to the microsecond."""
    return f"{value_ns / MILLISECOND_NS:,.3f} ms"
