"""Written reports: one HTML page with its pictures inside, and the same facts as JSON."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ordo.pipeline.decoding.errors import PipelineError
from ordo.runtime.io.durable_files import write_durably

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#222;
overflow-wrap:anywhere}h1{font-size:1.6rem;line-height:1.25}table{border-collapse:collapse}
td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;vertical-align:top;overflow-wrap:normal}
td.wide{min-width:14rem;overflow-wrap:anywhere}th{background:#f4f4f4}td.number{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}td.time{white-space:nowrap}.scroll{overflow-x:auto;margin:1rem 0}
img{max-width:min(100%,56rem);height:auto}figure{margin:1rem 0}
figcaption{color:#555}.good{color:#17692c}.bad{color:#a3121f}
tr.bad td{background:#fbeaec}
@media(max-width:40rem){table,tbody,tr,td{display:block}thead{display:none}tr{border:1px solid #ccc;margin:.6rem 0}
td,td.number,td.time,td.wide{border:0;display:flex;gap:1rem;justify-content:space-between;min-width:0;text-align:right;
white-space:normal;overflow-wrap:anywhere}td::before{content:attr(data-name);color:#555;flex:none;text-align:left}
td:empty{display:none}}"""
WIDE_CHARACTERS = 32
RED, GREEN, BLUE, GREY = "#a3121f", "#7fb98f", "#4878a8", "#777777"


@dataclass
class Report:
    """Gathers sections; `write` puts `<name>.html` and `<name>.json` into a folder."""

    title: str
    facts: dict[str, Any]
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def line(self, text: str, *, good: bool | None = None) -> None:
        mark = "" if good is None else f' class="{"good" if good else "bad"}"'
        self.parts.append(f"<p{mark}>{html.escape(text)}</p>")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        bad: Callable[[Sequence[Any]], bool] | None = None,
    ) -> None:
        """Add a table, each row of which becomes a list where the page is narrow; rows that are `bad` are marked."""
        names = [html.escape(str(name).replace("_", " ")) for name in columns]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            f"<tr{_MARK_BAD if bad is not None and bad(row) else ''}>{''.join(map(_cell, row, names))}</tr>"
            for row in rows
        )
        self.parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def cut(self, rows: int, shown: int, file_name: str = "") -> None:
        """Say so when a table has only the first of its rows; `file_name` has all, or the JSON file."""
        if rows > shown:
            place = file_name or "the JSON file"
            self.line(f"The first {shown:,} of {rows:,} rows; {place} beside this page has all.")

    def mapping(self, values: Mapping[str, Any]) -> None:
        self.table(("what", "value"), list(values.items()))

    def picture(self, figure: Any, caption: str) -> None:
        """Add a matplotlib figure, which the page holds as PNG."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, bbox_inches="tight")
        data = base64.b64encode(buffer.getvalue()).decode()
        self.parts.append(
            f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )

    def write(self, folder: str, name: str) -> Path:
        """Write the page and return its path. Raises PipelineError if it cannot be written."""
        target = Path(folder)
        page = (
            f"<!doctype html><html lang=en><meta charset=utf-8>"
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title>"
            f"<style>{_STYLE}</style><h1>{html.escape(self.title)}</h1>{''.join(self.parts)}</html>"
        )
        try:
            target.mkdir(parents=True, exist_ok=True)
            write_durably(target / f"{name}.json", json.dumps(self.facts, indent=2, default=str) + "\n")
            write_durably(target / f"{name}.html", page)
        except OSError as error:
            raise PipelineError(f"the report {target / name}.html cannot be written: {error.strerror}") from None
        return target / f"{name}.html"


_MARK_BAD = ' class="bad"'


def _cell(value: Any, name: str) -> str:
    """`name`: of the column, as HTML."""
    text = str(value) if name.endswith(" id") and value is not None else _text(value)  # an id is no amount
    kind = ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        kind = ' class="number"'
    elif isinstance(value, datetime):
        kind = ' class="time"'
    elif len(text) > WIDE_CHARACTERS:
        kind = ' class="wide"'
    return f'<td{kind} data-name="{name}">{html.escape(text)}</td>'


def utc(moment: datetime) -> datetime:
    """Return the moment in UTC, with its zone: Spark hands out local times without one."""
    return moment.astimezone(UTC)


def price(value: float | None, scale: int) -> str:
    """Return a price kept as a whole number of 1/scale, with its decimals."""
    return "" if value is None else f"{value / scale:,.{len(str(scale)) - 1}f}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return utc(value).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def new_figure(width: float = 7, height: float = 3) -> tuple[Any, Any]:
    """Return a matplotlib figure with one axis, drawn without a display.

    Small, so that its words are large on small pages.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis


def time_axis(axis: Any, moments: Sequence[datetime]) -> None:
    """Set up a horizontal axis of times in UTC; a single moment stands in the middle of a minute, not of years."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axis.set_xlabel("time (UTC)")
    if moments and min(moments) == max(moments):
        margin = timedelta(seconds=30)
        axis.set_xlim(min(moments) - margin, max(moments) + margin)


def position_axis(axis: Any) -> None:
    """Set up a horizontal axis of log positions, in a unit that is easily read."""
    from matplotlib.ticker import EngFormatter

    axis.xaxis.set_major_formatter(EngFormatter(unit="B"))
    axis.set_xlabel("log position (bytes)")
