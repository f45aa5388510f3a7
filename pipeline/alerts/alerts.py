"""Alerts about a log while it grows.

Gaps in its time, rates of messages outside of bounds, new leadership terms. A task summarises its part of the log in
one small row (`summarize`); the follower of the log puts these together in the log's order (`Watch.take`). So memory
stays the same however much of the log comes at once, and what spans two tasks or two batches is seen as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordo.pipeline.decoding.batches import IS_REPEAT
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import MESSAGE_KINDS

COLUMNS = ("node", "recording", "position", "timestamp", "kind", "leadership_term")
LOW, HIGH, FINE = "low", "high", ""
FOUND_MAX = 1000
_COUNTED = pa.array(MESSAGE_KINDS)
Alert = dict[str, Any]


@dataclass(frozen=True)
class Rules:
    """What is watched.

    Rates are messages and requests a second, over windows of cluster time; those that were executed, each once, or with
    `repeats` the copies that were not executed as well.
    """

    gap_us: int | None = None
    rate_min: float | None = None
    rate_max: float | None = None
    window_us: int = 10_000_000
    terms: bool = False
    repeats: bool = False

    def __post_init__(self) -> None:
        """Raise PipelineError for bounds that cannot hold."""
        if self.window_us <= 0 or (self.gap_us is not None and self.gap_us <= 0):
            raise PipelineError("window and gap must be above 0 seconds")
        if self.rate_min is not None and self.rate_max is not None and self.rate_min > self.rate_max:
            raise PipelineError(f"rate-min {self.rate_min:g} is above rate-max {self.rate_max:g}")

    @property
    def has_rates(self) -> bool:
        return self.rate_min is not None or self.rate_max is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the log that it takes to watch by these rules."""
        return (*COLUMNS, IS_REPEAT) if self.has_rates and not self.repeats else COLUMNS

    def judge(self, count: int) -> str:
        """Return LOW, HIGH or FINE for a window with this many messages."""
        rate = self.rate_of(count)
        if self.rate_min is not None and rate < self.rate_min:
            return LOW
        return HIGH if self.rate_max is not None and rate > self.rate_max else FINE

    def rate_of(self, count: int) -> float:
        return count * 1e6 / self.window_us


@dataclass
class Summary:
    """One stretch of a log. `runs`: windows that began and ended in it, (first, last, verdict, worst count)."""

    key: str
    first_position: int
    first_us: int
    last_position: int = 0
    last_us: int = 0
    head: tuple[int, int] = (0, 0)
    """The first window and its count; the window may have begun before the stretch."""
    tail: tuple[int, int] | None = None
    """The last window, where it is not the first."""
    runs: list[tuple[int, int, str, int]] = field(default_factory=list)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    """Time before, time after, position after."""
    terms: list[tuple[int, int, int]] = field(default_factory=list)
    """Position, time, term."""

    def add_window(self, rules: Rules, window: int, count: int) -> None:
        """Take the next window, or more of the last one."""
        last, counted = self.tail or self.head
        if window == last:
            grown = (last, counted + count)
            if self.tail is None:
                self.head = grown
            else:
                self.tail = grown
            return
        if self.tail is not None:
            self._close(rules, last, last, counted)
        if window > last + 1:
            self._close(rules, last + 1, window - 1, 0)
        self.tail = (window, count)

    def _close(self, rules: Rules, first: int, last: int, count: int) -> None:
        verdict = rules.judge(count)
        if self.runs and self.runs[-1][2] == verdict:
            begin, _, _, worst = self.runs[-1]
            self.runs[-1] = (begin, last, verdict, max(worst, count) if verdict == HIGH else min(worst, count))
        elif len(self.runs) < FOUND_MAX or self.runs[-1][2] != FINE:
            self.runs.append((first, last, verdict, count))


def summarize(batches: Iterable[pa.RecordBatch], rules: Rules) -> Iterator[Summary]:
    """Summaries of batches with `rules.columns`, in the log's order; one for each recording in them."""
    summary: Summary | None = None
    for batch in batches:
        dated = batch.filter(pc.is_valid(batch["timestamp"]))
        if not dated.num_rows:
            continue
        key = f"{dated['node'][0].as_py()}/{dated['recording'][0].as_py()}"
        times = np.maximum.accumulate(np.asarray(dated["timestamp"].cast(pa.int64())))
        if summary is None or summary.key != key:
            if summary is not None:
                yield summary
            first_us = int(times[0])
            summary = Summary(key, int(dated["position"][0].as_py()), first_us, last_us=first_us)
            summary.head = (first_us // rules.window_us, 0)
        _add(summary, rules, dated, np.maximum(times, summary.last_us))
    if summary is not None:
        yield summary


def _add(summary: Summary, rules: Rules, batch: pa.RecordBatch, times: np.ndarray) -> None:
    positions = np.asarray(batch["position"])
    if rules.gap_us is not None:
        steps = np.diff(times, prepend=summary.last_us)
        for index in np.flatnonzero(steps > rules.gap_us)[: FOUND_MAX - len(summary.gaps)]:
            summary.gaps.append((int(times[index] - steps[index]), int(times[index]), int(positions[index])))
    if rules.has_rates:
        counted = _counted(rules, batch)
        windows, starts = np.unique(times // rules.window_us, return_index=True)
        for window, count in zip(windows, np.add.reduceat(counted, starts), strict=True):
            summary.add_window(rules, int(window), int(count))
    if rules.terms:
        for index in np.flatnonzero(np.asarray(pc.equal(batch["kind"], "new_term").cast(pa.int8())))[:FOUND_MAX]:
            summary.terms.append((int(positions[index]), int(times[index]), batch["leadership_term"][index].as_py()))
    summary.last_position, summary.last_us = int(positions[-1]), int(times[-1])


def _counted(rules: Rules, batch: pa.RecordBatch) -> np.ndarray:
    """Return 1 for each row that a rate counts; a request of which nobody knows whether it is a copy is one."""
    counted = pc.is_in(batch["kind"], value_set=_COUNTED)
    if not rules.repeats:
        counted = pc.and_(counted, pc.invert(batch[IS_REPEAT].fill_null(False)))
    return np.asarray(counted.cast(pa.int64()))


@dataclass
class _LogState:
    """How far one log was watched."""

    last_position: int
    last_us: int
    window: int
    count: int
    is_partial: bool
    """Watching began within this window: its count says nothing."""
    verdict: str = FINE


class Watch:
    """Puts summaries together, in the log's order; `state` is what has to be kept to go on later."""

    def __init__(self, rules: Rules, state: dict[str, Any] | None = None) -> None:
        self._rules = rules
        self._logs = {key: _LogState(**values) for key, values in (state or {}).items()}

    @property
    def state(self) -> dict[str, Any]:
        return {key: asdict(log) for key, log in self._logs.items()}

    def positions(self) -> dict[str, int]:
        """Return the last position of each log."""
        return {key: log.last_position for key, log in self._logs.items()}

    def take(self, summaries: Iterable[Summary]) -> list[Alert]:
        """Return the alerts of these parts of the log, which follow those before."""
        return [
            alert
            for summary in sorted(summaries, key=lambda part: (part.key, part.first_position))
            for alert in self._take(summary)
        ]

    def _take(self, summary: Summary) -> Iterator[Alert]:
        rules, log = self._rules, self._logs.get(summary.key)
        if log is None:
            log = self._logs[summary.key] = _LogState(
                summary.first_position, summary.first_us, summary.head[0], 0, is_partial=True
            )
        elif rules.gap_us is not None and summary.first_us - log.last_us > rules.gap_us:
            yield _gap(summary.key, log.last_us, summary.first_us, summary.first_position)
        for before, after, position in summary.gaps:
            yield _gap(summary.key, before, after, position)
        for position, at_us, term in summary.terms:
            text = f"leadership term {term} began"
            yield _alert("term", summary.key, position, at_us, text, position)
        if rules.has_rates:
            yield from self._take_windows(log, summary)
        log.last_position, log.last_us = summary.last_position, max(log.last_us, summary.last_us)

    def _take_windows(self, log: _LogState, summary: Summary) -> Iterator[Alert]:
        window, count = summary.head
        if window <= log.window:
            log.count += count
        else:
            yield from self._close(log, summary)
            if window > log.window + 1:
                run = (log.window + 1, window - 1, self._rules.judge(0), 0)
                yield from self._judged(log, summary, run)
            log.window, log.count = window, count
        if summary.tail is not None:
            yield from self._close(log, summary)
            for run in summary.runs:
                yield from self._judged(log, summary, run)
            log.window, log.count = summary.tail

    def _close(self, log: _LogState, summary: Summary) -> Iterator[Alert]:
        """Close the open window, which is over."""
        if not log.is_partial:
            run = (log.window, log.window, self._rules.judge(log.count), log.count)
            yield from self._judged(log, summary, run)
        log.is_partial = False

    def _judged(self, log: _LogState, summary: Summary, run: tuple[int, int, str, int]) -> Iterator[Alert]:
        """Yield an alert where the verdict changes, not for each window of an episode."""
        first, last, verdict, worst = run
        if verdict == log.verdict:
            return
        was, log.verdict = log.verdict, verdict
        rules = self._rules
        at_us, seconds = first * rules.window_us, (last - first + 1) * rules.window_us / 1e6
        rate = f"{rules.rate_of(worst):,.1f} messages/s"
        if verdict == FINE:
            text = f"the rate is within its bounds again after it was {was}: {rate}"
        else:
            bound = rules.rate_min if verdict == LOW else rules.rate_max
            text = f"the rate is {verdict}: {rate} in {seconds:g} s, the bound is {bound:,g}"
        yield _alert("rate", summary.key, summary.last_position, at_us, text, first)


def _gap(key: str, before_us: int, after_us: int, position: int) -> Alert:
    text = f"no record for {(after_us - before_us) / 1e6:,.3f} s before position {position}"
    return _alert("gap", key, position, before_us, text, position)


def _alert(kind: str, key: str, position: int, at_us: int, text: str, what: int) -> Alert:
    moment = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()
    return {"id": f"{key}:{kind}:{what}", "kind": kind, "log": key, "position": position, "time": moment, "text": text}
