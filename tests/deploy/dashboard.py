"""The panels of deploy/grafana/ordo.json as a picture: what a Prometheus answers, drawn in the grid of the dashboard.

It is no Grafana: lines, units, legends and places are those of the file, and nothing else is.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH_PX = 1280
COLUMNS = 24
ROW_PX = 26
HEAD_PX = 44
GAP_PX = 8
COLOURS = ("#3274d9", "#56a64b", "#e0751d", "#8f3bb8", "#e02f44", "#0a8c8c", "#b88a00", "#7a5230", "#666e78")
TILE = "#56a64b"
TEXT = "#24292e"
FAINT = "#6e7680"
LINE = "#dfe2e5"
TICKS = 4
LETTER_PX = 6.7
"""Of text of 11 px, about."""
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
DECIMAL = ("", "K", "M", "G")
Answer = Callable[[str], list[dict[str, Any]]]
"""A query over the time that is shown, as Prometheus answers it: rows of `metric` and `values`."""


class Series(NamedTuple):
    """One line; `points` are (seconds, value)."""

    name: str
    points: Sequence[tuple[float, float]]


class Box(NamedTuple):
    """A place on the picture, in pixels."""

    left: float
    top: float
    width: float
    height: float


def show_value(value: float, unit: str) -> str:
    """A value in one of the units that the dashboard uses."""
    if unit == "s":
        return _show_seconds(value)
    names, base = (BINARY, 1024) if unit in ("bytes", "Bps") else (DECIMAL, 1000)
    power = 0
    while abs(value) >= base and power + 1 < len(names):
        value, power = value / base, power + 1
    ending = {"Bps": "/s", "ops": "/s"}.get(unit, "")
    return f"{value:.3g} {names[power]}{ending}".rstrip() if names[power] + ending else f"{value:.3g}"


def _show_seconds(value: float) -> str:
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return "0 s" if value == 0 else f"{value / 1e-9:.3g} ns"


def series_of(panel: dict[str, Any], answer: Answer) -> list[Series]:
    """What the panel's expressions give, with the names that its legend has for them; what is no number is left out."""
    found = []
    for target in panel["targets"]:
        for row in answer(target["expr"]):
            points = [(float(at), float(value)) for at, value in row["values"] if not math.isnan(float(value))]
            if points:
                found.append(Series(_fill(target["legendFormat"], row["metric"]), points))
    return sorted(found, key=lambda one: one.name)


def _fill(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match[1], ""), legend)


def draw(dashboard: dict[str, Any], answer: Answer, title: str) -> str:
    """A page with one SVG of all panels."""
    column_px = (WIDTH_PX - GAP_PX) / COLUMNS
    drawn, bottom = [], 0.0
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        left, top = GAP_PX + place["x"] * column_px, HEAD_PX + place["y"] * ROW_PX
        box = Box(left, top, place["w"] * column_px - GAP_PX, place["h"] * ROW_PX - GAP_PX)
        bottom = max(bottom, box.top + box.height + GAP_PX)
        drawn.append(_draw_panel(panel, series_of(panel, answer), box))
    head = _text(GAP_PX + 4, 28, title, size=15, weight=600)
    return (
        '<!doctype html><meta charset="utf-8"><style>body { margin: 0 } svg { display: block }</style>'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{bottom:.0f}" '
        'font-family="DejaVu Sans, sans-serif">'
        f'<rect width="100%" height="100%" fill="#f4f5f5"/>{head}{"".join(drawn)}</svg>'
    )


def _draw_panel(panel: dict[str, Any], series: list[Series], box: Box) -> str:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    frame = _rect(box, "#fff", LINE)
    inside = Box(box.left + 10, box.top + 30, box.width - 20, box.height - 38)
    content = _draw_tiles(series, unit, inside) if panel["type"] == "stat" else _draw_chart(panel, series, unit, inside)
    return (
        f'<g class="panel {panel["type"]}">{frame}'
        f"{_text(box.left + 10, box.top + 20, panel['title'], size=12, weight=600)}{content}</g>"
    )


def _draw_tiles(series: list[Series], unit: str, box: Box) -> str:
    """The last value of each, and its name."""
    drawn = []
    step = box.width / max(len(series), 1)
    for number, one in enumerate(series):
        tile = Box(box.left + number * step, box.top, step - 6, box.height)
        middle, value = tile.left + tile.width / 2, show_value(one.points[-1][1], unit)
        drawn.append(
            _rect(tile, TILE)
            + _text(middle, box.top + 30, one.name, size=12, fill="#fff", anchor="middle")
            + _text(middle, box.top + box.height / 2 + 30, value, size=40, weight=600, fill="#fff", anchor="middle")
        )
    return "".join(drawn)


def _draw_chart(panel: dict[str, Any], series: list[Series], unit: str, box: Box) -> str:
    legend, legend_px = _draw_legend(series, box)
    plot = Box(box.left + 62, box.top, box.width - 62, box.height - legend_px - 16)
    points = [point for one in series for point in one.points]
    if not points:
        return _text(box.left + box.width / 2, box.top + box.height / 2, "no data", fill=FAINT, anchor="middle")
    begin_s, end_s = min(at for at, _ in points), max(at for at, _ in points)
    low, high, step = _range([value for _, value in points], panel["fieldConfig"]["defaults"].get("min"), unit)

    def place(at_s: float, value: float) -> tuple[float, float]:
        across = (at_s - begin_s) / max(end_s - begin_s, 1e-9)
        up = (value - low) / (high - low)
        return plot.left + across * plot.width, plot.top + (1 - up) * plot.height

    axes = _draw_axes(plot, place, (begin_s, end_s), (low, high, step), unit)
    lines = [
        f'<polyline fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.5" points="'
        + " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in one.points)
        + '"/>'
        for number, one in enumerate(series)
    ]
    return axes + "".join(lines) + legend


def _range(values: Sequence[float], least: float | None, unit: str) -> tuple[float, float, float]:
    """The axis from end to end, and its step: a round one, with all values and the panel's least value inside."""
    low, high = (min(values) if least is None else float(least)), max(values)
    wanted = (high - low) / TICKS or abs(high) / TICKS or 1.0 / TICKS
    base = 1024 if unit in ("bytes", "Bps") else 1000
    power = base ** math.floor(math.log(wanted, base))
    decade = power * 10 ** math.floor(math.log10(wanted / power))
    step = decade * next(one for one in (1, 2, 2.5, 5, 10) if one * decade >= wanted * (1 - 1e-9))
    begin = math.floor(low / step) * step
    return begin, begin + math.ceil((high - begin) / step * (1 + 1e-9) or 1) * step, step


def _draw_axes(
    plot: Box,
    place: Callable[[float, float], tuple[float, float]],
    times_s: tuple[float, float],
    values: tuple[float, float, float],
    unit: str,
) -> str:
    drawn = []
    low, high, step = values
    for tick in range(round((high - low) / step) + 1):
        value = low + step * tick
        _, top = place(times_s[0], value)
        drawn.append(
            f'<path d="M{plot.left:.1f} {top:.1f}h{plot.width:.1f}" stroke="{LINE}"/>'
            + _text(plot.left - 6, top + 4, show_value(value, unit), size=10, fill=FAINT, anchor="end")
        )
    for at_s, anchor in zip((times_s[0], sum(times_s) / 2, times_s[1]), ("start", "middle", "end"), strict=True):
        left, _ = place(at_s, low)
        clock = time.strftime("%H:%M:%S", time.gmtime(at_s))
        drawn.append(_text(left, plot.top + plot.height + 14, clock, size=10, fill=FAINT, anchor=anchor))
    return "".join(drawn)


def _draw_legend(series: list[Series], box: Box) -> tuple[str, float]:
    """Returns it and its height; as many rows at the box's foot as the names need."""
    rows: list[list[tuple[float, int, str]]] = [[]]
    left = 0.0
    for number, one in enumerate(series):
        width = 20 + len(one.name) * LETTER_PX + 8
        if left + width > box.width and rows[-1]:
            rows.append([])
            left = 0.0
        rows[-1].append((left, number, one.name))
        left += width
    height = 15.0 * len(rows) + 4
    drawn = []
    for row, entries in enumerate(rows):
        base = box.top + box.height - height + 15 * (row + 1)
        for left, number, name in entries:
            colour = COLOURS[number % len(COLOURS)]
            drawn.append(
                f'<rect x="{box.left + left:.1f}" y="{base - 6:.1f}" width="14" height="3" fill="{colour}"/>'
                + _text(box.left + left + 19, base, name, size=11)
            )
    return "".join(drawn), height


def _rect(box: Box, fill: str, stroke: str = "none") -> str:
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="3" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def _text(
    left: float,
    base: float,
    text: str,
    *,
    size: int = 11,
    weight: int = 400,
    fill: str = TEXT,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{left:.1f}" y="{base:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
