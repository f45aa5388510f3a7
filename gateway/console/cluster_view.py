"""Turns the members' reports into what the page shows: a state, a point of the charts, and events.

No I/O here: looks and times come in, plain values go out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.top import Looks, Row, Top
from ordo.gateway.callers.round_trips import Second

NOTES_MAX = 200
POINTS_MAX = 300
"""Seconds that the charts go back."""
EXACT_MAX = 1 << 53
"""A browser's numbers are exact below this; larger ones travel as text."""


class Note(NamedTuple):
    """Something that happened. `number` counts up, `level` is good, plain or bad."""

    number: int
    time_ms: int
    level: str
    text: str


class Story:
    """The history of one cluster, as the console shows it."""

    def __init__(self) -> None:
        self._top = Top()
        self._before: dict[str, Row] = {}
        self._names: dict[str, int] = {}
        self._leader: tuple[int, int] | None = None
        self._led: tuple[int, int] | None = None
        """The last member that was seen to lead, and its term."""
        self._count = 0
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)
        self.points: deque[dict[str, Any]] = deque(maxlen=POINTS_MAX)
        self.state: dict[str, Any] = {}

    def add(self, looks: Looks, second: Second, now_ns: int, time_ms: int) -> None:
        """Add one more report of all members, and the answers that the gateway's callers got since the last one."""
        rows = self._top.rows(looks, now_ns)
        leader = leader_of(rows)
        self._note_leader(leader, time_ms)
        for row in rows:
            self._note_member(row, time_ms)
        self._before = {row.ingress: row for row in rows}
        versions = {name: look.version for name, look in looks.items() if isinstance(look, MemberLook)}
        self.state = {
            "time_ms": time_ms,
            "leader": None if leader is None else leader.member,
            "term": -1 if leader is None else leader.term,
            "members": [self._describe(row, versions.get(row.ingress, "")) for row in rows],
        }
        self.points.append(
            {
                "time_ms": time_ms,
                "log_rate": -1 if leader is None else leader.commit_rate,
                "lag": max((row.service_lag for row in rows), default=-1),
                "answers": second.answers,
                "p50_ms": second.p50_ms,
                "p99_ms": second.p99_ms,
            }
        )

    def _describe(self, row: Row, version: str) -> dict[str, Any]:
        found = row._asdict()
        if row.trouble:
            found["member"] = self._names.get(row.ingress, -1)
        else:
            self._names[row.ingress] = row.member
        return found | {"version": version}

    def _note_leader(self, leader: Row | None, time_ms: int) -> None:
        found = None if leader is None else (leader.member, leader.term)
        if found is None and self._leader is not None:
            self._add(time_ms, "bad", f"member {self._leader[0]} leads no more, and no other does yet")
        elif found is not None and found != self._leader:
            before = self._led
            earlier = f"; member {before[0]} led term {before[1]}" if before else ""
            self._add(time_ms, "good", f"member {found[0]} leads term {found[1]}{earlier}")
            self._led = found
        self._leader = found

    def _note_member(self, row: Row, time_ms: int) -> None:
        before = self._before.get(row.ingress)
        name = f"member {self._names.get(row.ingress, '?')}" if row.trouble else f"member {row.member}"
        if row.trouble:
            if before is None or not before.trouble:
                self._add(time_ms, "bad", f"{name} ({row.ingress}) does not answer")
        elif before is not None and before.trouble:
            self._add(time_ms, "good", f"{name} answers: it is {row.role}, {row.state}")
        elif before is not None:
            for is_new, level, text in _changes(before, row):
                if is_new:
                    self._add(time_ms, level, f"{name} {text}")

    def _add(self, time_ms: int, level: str, text: str) -> None:
        self._count += 1
        self.notes.append(Note(self._count, time_ms, level, text))


def _changes(before: Row, row: Row) -> Iterable[tuple[bool, str, str]]:
    is_electing = row.state.startswith("election")
    return (
        (row.state != before.state, "bad" if is_electing else "plain", f"is {row.state}, it was {before.state}"),
        (
            row.snapshot_age >= 0 and row.snapshot_age < before.snapshot_age and row.commit >= before.commit,
            "plain",
            f"holds a snapshot of position {row.commit - row.snapshot_age:,}",
        ),
        (row.errors > before.errors, "bad", _count_errors(row.errors - before.errors)),
        (row.lost != before.lost, "bad" if row.lost else "good", f"is distrusted: {row.lost or 'no more'}"),
        (row.damaged > max(0, before.damaged), "bad", f"has damage on its disk: {row.damaged} places"),
        (0 <= row.damaged < before.damaged, "good", f"has less damage on its disk: {row.damaged} places"),
        (row.no_room != before.no_room, "bad" if row.no_room else "good", f"lacks room: {row.no_room or 'no more'}"),
    )


def _count_errors(count: int) -> str:
    return "met an error" if count == 1 else f"met {count} errors"


def leader_of(rows: Iterable[Row]) -> Row | None:
    """Return the member that leads the newest term."""
    leading = [row for row in rows if row.role == "LEADER" and not row.trouble and not row.state.startswith("election")]
    return max(leading, key=lambda row: row.term, default=None)


def exact(value: object) -> Any:
    """Return the same value, with every number that a browser would round as text."""
    if isinstance(value, dict):
        return {key: exact(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [exact(one) for one in value]
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX
    return str(value) if is_large else value
