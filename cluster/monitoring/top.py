"""`ordo top`: what members know of themselves, looked at again and again, as rows with rates and lags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.counter_values import NOT_THERE, counter_name, scrub_percent
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, NodeRole, Room
from ordo.cluster.wire.counters.latencies import STAGES
from ordo.cluster.wire.counters.look_durations import durations_from_numbers
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import OrdoError
from ordo.runtime.native.durations import Durations

Looks = Mapping[str, MemberLook | OrdoError]
RATES = ("commit", "sent", "received", "back_pressure")
PERCENTILES = {"p50": 0.50, "p99": 0.99}


class Row(NamedTuple):
    """One member. A number that is not known is NOT_THERE; rates are per second."""

    ingress: str
    member: int
    role: str
    state: str
    term: int
    commit: int
    lag: int
    """How much of the committed log the member does not have, in bytes."""
    service_lag: int
    """How much of the committed log its service has not executed."""
    commit_rate: float
    sent_rate: float
    received_rate: float
    back_pressure_rate: float
    sessions: int
    snapshot_age: int
    """How much log there is behind the newest snapshot."""
    disk_free: int
    memory_free: int
    errors: int
    lost: str
    """What the member lost, so that it may not vote; empty: nothing."""
    no_room: str
    """What a full disk keeps the member from; empty: nothing."""
    damaged: int
    """How many places of its recordings are damaged and not mended."""
    scrub_percent: int
    """How much of its present pass the scrubber has read."""
    trouble: str = ""
    """Why the member could not be asked."""
    append_p50_ns: int = NOT_THERE
    """From here on: of what was sampled between the two looks (docs/METRICS.md), bounds of buckets."""
    append_p99_ns: int = NOT_THERE
    sync_p50_ns: int = NOT_THERE
    sync_p99_ns: int = NOT_THERE
    commit_p50_ns: int = NOT_THERE
    commit_p99_ns: int = NOT_THERE
    callback_p50_ns: int = NOT_THERE
    callback_p99_ns: int = NOT_THERE
    round_trip_p50_ns: int = NOT_THERE
    round_trip_p99_ns: int = NOT_THERE
    standby_lag: int = NOT_THERE
    """How much of its primary's committed log a standby has not; NOT_THERE for a member."""
    standby_lag_ms: int = NOT_THERE
    """Within how long its primary may have committed what the standby has not."""


@dataclass(frozen=True)
class Column:
    """A column; `show` makes the cell of a row, by which rows are sorted unless `key` is given."""

    title: str
    show: Callable[[Row], str]
    key: Callable[[Row], object]


def number(value: float) -> str:
    """Return a number with a unit, short enough for a column."""
    if value == NOT_THERE:
        return "-"
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 1000 or unit == "T":
            return f"{value:.0f}{unit}" if not unit or value >= 100 else f"{value:.1f}{unit}"
        value /= 1000
    raise AssertionError("unreachable")


def duration(value_ns: int) -> str:
    """Return a duration with a unit, short enough for a column."""
    if value_ns == NOT_THERE:
        return "-"
    for unit, next_ns in (("us", 1e6), ("ms", 1e9)):
        if value_ns < next_ns:
            return f"{value_ns / next_ns * 1e3:.3g}{unit}"
    return f"{value_ns / 1e9:.3g}s"


COLUMNS = (
    Column("member", lambda row: str(row.member) if not row.trouble else "?", lambda row: row.member),
    Column("role", lambda row: row.role, lambda row: row.role),
    Column("state", lambda row: row.state, lambda row: row.state),
    Column("term", lambda row: number(row.term), lambda row: row.term),
    Column("commit", lambda row: number(row.commit), lambda row: row.commit),
    Column("lag", lambda row: number(row.lag), lambda row: row.lag),
    Column("service lag", lambda row: number(row.service_lag), lambda row: row.service_lag),
    Column("log/s", lambda row: number(row.commit_rate), lambda row: row.commit_rate),
    Column("sent/s", lambda row: number(row.sent_rate), lambda row: row.sent_rate),
    Column("pressure/s", lambda row: number(row.back_pressure_rate), lambda row: row.back_pressure_rate),
    Column("sessions", lambda row: number(row.sessions), lambda row: row.sessions),
    Column("since snapshot", lambda row: number(row.snapshot_age), lambda row: row.snapshot_age),
    Column("disk free", lambda row: number(row.disk_free), lambda row: row.disk_free),
    Column("errors", lambda row: number(row.errors), lambda row: row.errors),
    Column("damaged", lambda row: number(row.damaged), lambda row: row.damaged),
    Column("no room", lambda row: row.no_room, lambda row: row.no_room),
    Column("lost", lambda row: row.lost, lambda row: row.lost),
)


class Top:
    """Turns looks into rows. Rates come of two looks, so the first one has none."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, dict[str, int]]] = {}
        self._durations_before: dict[str, dict[str, Durations]] = {}

    def rows(self, looks: Looks, now_ns: int) -> list[Row]:
        """One row for each member, in the order of the looks."""
        committed = max(
            (look.counter(CounterType.COMMIT_POSITION) for look in looks.values() if isinstance(look, MemberLook)),
            default=NOT_THERE,
        )
        return [
            self._row(endpoint, look, committed, now_ns)
            if isinstance(look, MemberLook)
            else _silent(endpoint, look.message.removeprefix(f"{endpoint}: "))
            for endpoint, look in looks.items()
        ]

    def _row(self, endpoint: str, look: MemberLook, committed: int, now_ns: int) -> Row:
        commit, rates = look.counter(CounterType.COMMIT_POSITION), self._rates(endpoint, look, now_ns)
        election, snapshot = look.counter(CounterType.ELECTION_STATE), look.get("snapshot_position")
        state = counter_name(ModuleState, look.counter(CounterType.MODULE_STATE))
        lost, room = look.counter(CounterType.DISTRUST), look.counter(CounterType.NO_ROOM)
        return Row(
            ingress=endpoint,
            member=look.get("member_id"),
            role=counter_name(NodeRole, look.counter(CounterType.NODE_ROLE)),
            state=state if election == ElectionState.CLOSED else f"election {counter_name(ElectionState, election)}",
            term=look.counter(CounterType.LEADERSHIP_TERM_ID),
            commit=commit,
            lag=_behind(committed, look.get("append_position")),
            service_lag=_behind(commit, look.counter(CounterType.SERVICE_POSITION)),
            commit_rate=rates["commit"],
            sent_rate=rates["sent"],
            received_rate=rates["received"],
            back_pressure_rate=rates["back_pressure"],
            sessions=look.get("sessions"),
            snapshot_age=_behind(commit, max(0, snapshot)),
            disk_free=look.get("data_free_bytes"),
            memory_free=look.get("memory_free_bytes"),
            errors=look.counter(CounterType.MODULE_ERRORS),
            lost=Distrust(lost).name or "" if lost > 0 else "",
            no_room=Room(room).name or "" if room > 0 else "",
            damaged=look.counter(CounterType.DAMAGE_LEFT),
            scrub_percent=scrub_percent(look.counter(CounterType.SCRUB_PROGRESS)),
            standby_lag=look.get("standby_lag_bytes"),
            standby_lag_ms=look.get("standby_lag_ms"),
            **self._percentiles(endpoint, look),
        )

    def _rates(self, endpoint: str, look: MemberLook, now_ns: int) -> dict[str, float]:
        values = {
            "commit": look.counter(CounterType.COMMIT_POSITION),
            "sent": look.get("bytes_sent"),
            "received": look.get("bytes_received"),
            "back_pressure": look.get("back_pressure_events"),
        }
        before_ns, before = self._before.get(endpoint, (now_ns, values))
        self._before[endpoint] = now_ns, values
        passed_s = (now_ns - before_ns) / 1e9
        if passed_s <= 0:
            return dict.fromkeys(RATES, float(NOT_THERE))
        return {name: max(0, values[name] - before[name]) / passed_s for name in RATES}

    def _percentiles(self, endpoint: str, look: MemberLook) -> dict[str, Any]:
        now = {stage: durations_from_numbers(look.values, stage) for stage in STAGES}
        before = self._durations_before.get(endpoint, now)
        self._durations_before[endpoint] = now
        found = {stage: now[stage].since(before[stage]) for stage in STAGES}
        return {
            f"{stage}_{name}_ns": NOT_THERE if (value := durations.percentile_ns(share)) is None else value
            for stage, durations in found.items()
            for name, share in PERCENTILES.items()
        }


def _behind(ahead: int, position: int) -> int:
    return NOT_THERE if NOT_THERE in (ahead, position) else max(0, ahead - position)


def _silent(endpoint: str, trouble: str) -> Row:
    """Return a member that did not answer, of which nothing is known."""
    values: dict[str, Any] = dict.fromkeys(Row._fields, NOT_THERE)
    return Row(
        **{**values, "ingress": endpoint, "role": "-", "state": "-", "lost": "", "no_room": "", "trouble": trouble}
    )


@dataclass
class View:
    """What the person at the keys wants to see."""

    column: int = 0
    is_reversed: bool = False
    chosen: int = 0
    is_inside: bool = False
    has_ended: bool = False

    def press(self, key: str, row_count: int) -> None:
        """Handle a key: s and S sort by the next or previous column, r reverses the order.

        J, k choose a member; Enter looks into it and back; q ends.
        """
        if key in ("s", "S"):
            self.column = (self.column + (1 if key == "s" else -1)) % len(COLUMNS)
        elif key == "r":
            self.is_reversed = not self.is_reversed
        elif key in ("j", "k", "\x1b[B", "\x1b[A"):
            step = 1 if key in ("j", "\x1b[B") else -1
            self.chosen = min(max(0, self.chosen + step), max(0, row_count - 1))
        elif key in ("\r", "\n", " "):
            self.is_inside = not self.is_inside
        elif key == "\x1b":
            self.is_inside = False
        elif key in ("q", "\x03"):
            self.has_ended = True

    def sort(self, rows: list[Row]) -> list[Row]:
        """Members that did not answer come last."""
        key = COLUMNS[self.column].key
        answered = sorted((row for row in rows if not row.trouble), key=key, reverse=self.is_reversed)  # type: ignore[arg-type]
        return [*answered, *(row for row in rows if row.trouble)]
