"""The screen of `ordo top`, drawn with rich, and its keys."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ordo.cluster.monitoring.counter_values import NOT_THERE
from ordo.cluster.monitoring.top import COLUMNS, Looks, Row, Top, View, duration, number
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.reporting.terminal import OutputTable

STYLES = {"LEADER": "bold green", "CANDIDATE": "bold yellow"}
WORDS = ("role", "state", "no room", "lost")
"""Columns that are aligned to the left."""
LEFT_OUT = ("sent/s", "pressure/s", "since snapshot", "disk free", "term", "log/s", "sessions", "commit", "service lag")
"""On a narrow screen, in this order; `Enter` shows them. Before them go columns that have nothing to say."""
QUIET = {"damaged": ("0", "-"), "no room": ("", "-"), "lost": ("", "-")}
WIDTH_DEFAULT = 1_000
KEYS = "s S sort   r reverse   j k choose   Enter look into   q quit"
KEY_BYTES_MAX = 16
GAP = 2
"""Between two columns."""


def draw(rows: list[Row], view: View, *, has_keys: bool = True, width: int = WIDTH_DEFAULT) -> Group:
    """Draw the whole screen, with this many columns."""
    ordered = view.sort(rows)
    chosen = ordered[view.chosen] if view.chosen < len(ordered) else None
    parts: list[OutputTable | Text] = [_summary(rows)]
    parts.append(_details(chosen) if view.is_inside and chosen is not None else _table(ordered, view, has_keys, width))
    if has_keys:
        parts.append(Text(KEYS, style="dim"))
    return Group(*parts)


def _summary(rows: list[Row]) -> Text:
    leader = next((row for row in rows if row.role == "LEADER" and not row.state.startswith("election")), None)
    silent = sum(bool(row.trouble) for row in rows)
    text = Text("ordo top  ")
    if leader is not None:
        text.append(f"member {leader.member} leads term {leader.term}", style="green")
        if leader.round_trip_p50_ns != NOT_THERE:
            percentiles = [duration(value) for value in (leader.round_trip_p50_ns, leader.round_trip_p99_ns)]
            text.append(f"   round trip p50 {percentiles[0]} p99 {percentiles[1]}")
    elif len(rows) > 1 or silent:
        text.append("no leader was found", style="bold red")
    if silent:
        text.append(f"   {silent} of {len(rows)} members do not answer", style="bold red")
    return text


def _choose_columns(cells: list[list[str]], sorted_by: int, width: int) -> list[int]:
    """Return the columns that fit beside each other, always including the one that the rows are sorted by."""
    titles = [column.title for column in COLUMNS]
    widths = [GAP + max(len(title), *(len(row[one]) for row in cells)) for one, title in enumerate(titles)]
    widths[sorted_by] += len(" ^")
    quiet = [one for one in QUIET if all(row[titles.index(one)] in QUIET[one] for row in cells)]
    shown = list(range(len(COLUMNS)))
    for title in (*quiet, *LEFT_OUT):
        if sum(widths[one] for one in shown) - GAP <= width:
            break
        if titles.index(title) != sorted_by:
            shown.remove(titles.index(title))
    return shown


def _table(rows: list[Row], view: View, has_keys: bool, width: int) -> OutputTable:
    table = OutputTable(box=None, pad_edge=False)
    cells = [_cells(row) for row in rows]
    columns = _choose_columns(cells, view.column, width) if rows else list(range(len(COLUMNS)))
    for index in columns:
        column = COLUMNS[index]
        mark = (" v" if view.is_reversed else " ^") if index == view.column and has_keys else ""
        table.add_column(f"{column.title}{mark}", justify="left" if column.title in WORDS else "right")
    for index, row in enumerate(rows):
        style = (
            "red"
            if row.trouble
            else "yellow"
            if row.lost or row.damaged > 0 or row.state.startswith("election")
            else STYLES.get(row.role)
        )
        is_chosen = has_keys and index == view.chosen
        shown = [cells[index][one] for one in columns]
        table.add_row(*shown, style=f"{style or ''} reverse".strip() if is_chosen else style)
    return table


def _cells(row: Row) -> list[str]:
    if row.trouble:
        return ["?", "-", "no answer", *["-"] * (len(COLUMNS) - 4), ""]
    return [column.show(row) for column in COLUMNS]


def _details(row: Row) -> OutputTable:
    table = OutputTable(show_header=False, box=None)
    for name, value in row._asdict().items():
        if name.endswith("_ns"):
            shown, name = duration(value), name.removesuffix("_ns")
        elif isinstance(value, float):
            shown = f"{number(value)}/s" if value >= 0 else "-"
        else:
            shown = f"{value:,}" if isinstance(value, int) and value >= 0 else str(value)
        table.add_row(name.replace("_", " "), Text(shown))
    return table


def look_twice(look: Callable[[], Looks], interval_s: float) -> list[Row]:
    """Return the rows of the second of two looks, so that there are rates."""
    top, clock = Top(), SystemClock()
    top.rows(look(), clock.now())
    select.select([], [], [], interval_s)
    return top.rows(look(), clock.now())


def run_screen(look: Callable[[], Looks], console: Console, interval_s: float) -> None:
    """Draw until the user quits. Standard input must be a terminal."""
    top, view, clock = Top(), View(), SystemClock()
    with _keys() as read_keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not view.has_ended:
            rows = top.rows(look(), clock.now())
            due_ns = clock.now() + int(interval_s * 1e9)
            while not view.has_ended:
                live.update(draw(rows, view, width=console.width), refresh=True)
                pressed = read_keys(max(0.0, (due_ns - clock.now()) / 1e9))
                for key in pressed:
                    view.press(key, len(rows))
                if not pressed:
                    break


def split_keys(text: str) -> list[str]:
    """Return the keys that were read at once; a closed terminal counts as the key that ends."""
    return re.findall(r"\x1b\[[A-Z]|[\s\S]", text) or ["q"]


@contextmanager
def _keys() -> Iterator[Callable[[float], list[str]]]:
    """Read keys without waiting for a line; the terminal is as before afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(timeout_s: float) -> list[str]:
        readable, _, _ = select.select([descriptor], [], [], timeout_s)
        return split_keys(os.read(descriptor, KEY_BYTES_MAX).decode("utf-8", "replace")) if readable else []

    tty.setcbreak(descriptor)
    try:
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
