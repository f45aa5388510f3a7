"""What only shows over a whole recording: leadership terms, times, and segments that end too early."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ordo.pipeline.recordings.recordings import Recording

NULL_TERM = -1
Run = dict[str, Any]


@dataclass
class TermGroup:
    """Runs of records from a new-term record, or from where damage hides one, to the next."""

    runs: list[Run] = field(default_factory=list)

    @property
    def begins(self) -> bool:
        return bool(self.runs[0]["begins"])

    @property
    def term(self) -> int:
        """The term that most records name; of those that are as many, the one named first."""
        records: Counter[int] = Counter()
        for run in self.runs:
            records[run["leadership_term"]] += run["records"]
        return records.most_common(1)[0][0]


@dataclass(frozen=True)
class TermOrder:
    """Findings, the new-term records that are sound, and the highest term of sound records or NULL_TERM."""

    findings: list[dict[str, Any]]
    terms: list[dict[str, Any]]
    term_last: int


def check_terms(recording: Recording, results: list[dict[str, Any]]) -> TermOrder:
    """Every record names the term that the last new-term record began, and terms only grow.

    A record that names another one is named at its own position. Behind damage, which may have hidden a new-term
    record, the term is taken from the records that follow.
    """
    faults = sorted(finding["position"] for result in results for finding in result["findings"])
    runs = [{**run, "segment": result["segment"]} for result in results for run in result["term_runs"]]
    findings: list[dict[str, Any]] = []
    term_last, terms = NULL_TERM, []
    for group in _groups(runs, faults):
        term = group.term
        if term < term_last or (group.begins and term == term_last):
            findings.append(_finding(recording, group.runs[0], "leadership term goes back", term_last, term))
        term_last = max(term_last, term)
        for run in group.runs:
            actual = run["leadership_term"]
            if actual != term:
                name = "leadership term goes back" if actual < term else "leadership term that no record begins"
                findings.append(_finding(recording, run, name, term, actual))
            elif run["begins"]:
                terms.append({key: run[key] for key in ("leadership_term", "position", "cluster_time", "leader")})
    return TermOrder(findings, terms, term_last)


def _groups(runs: Iterable[Run], faults: list[int]) -> Iterator[TermGroup]:
    group = TermGroup()
    position_last = -1
    for run in runs:
        is_hidden = bisect_left(faults, position_last) < bisect_left(faults, run["position"])
        if group.runs and (run["begins"] or is_hidden):
            yield group
            group = TermGroup()
        group.runs.append(run)
        position_last = run["position_last"]
    if group.runs:
        yield group


def _finding(recording: Recording, run: Run, fault: str, expected: int, actual: int) -> dict[str, Any]:
    return {"fault": fault, "position": run["position"], "expected": expected, "actual": actual,
            "node": recording.node, "recording": recording.recording_id, "segment": run["segment"]}  # fmt: skip


def check_times(recording: Recording, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return times that go back from one segment to the next, at the odd record; the audit looks inside segments."""
    found = []
    timed = [result for result in results if result["times"] is not None]
    for before, after in pairwise(timed):
        earlier, later = before["times"], after["times"]
        if later["first"] >= earlier["last"]:
            continue
        is_earlier_odd = earlier["before"] is not None and earlier["before"] <= later["first"]
        odd, place = (before, earlier["last_position"]) if is_earlier_odd else (after, later["first_position"])
        expected, actual = (earlier["last"], later["first"])[:: -1 if is_earlier_odd else 1]
        run = {"position": place, "segment": odd["segment"]}
        found.append(_finding(recording, run, "time goes back", expected, actual))
    return found


def check_holes(recording: Recording, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Find segments that end too early for the next ones, in a recording whose end is not known."""
    filled = [result for result in results if result["frames"]]
    if recording.exact or not filled:
        return []
    before_last = results[: results.index(filled[-1])]
    return [
        _finding(
            recording, {"position": result["end"], "segment": result["segment"]}, "no frame was written here", 0, 0
        )
        for result in before_last
        if result["end"] < result["limit"] and not result["finding_count"]
    ]
