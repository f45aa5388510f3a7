"""Written reports: one HTML page with its pictures inside, and the same facts as JSON."""

from __future__ import annotations

import base64
import html
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left}
th{background:#f4f4f4}img{max-width:100%}.good{color:#17692c}.bad{color:#a3121f}"""


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

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(value))}</td>" for value in row) + "</tr>" for row in rows
        )
        self.parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def mapping(self, values: Mapping[str, Any]) -> None:
        self.table(("what", "value"), list(values.items()))

    def picture(self, figure: Any, caption: str) -> None:
        """A matplotlib figure, kept in the page as PNG."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
        data = base64.b64encode(buffer.getvalue()).decode()
        self.parts.append(
            f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )

    def write(self, folder: str, name: str) -> Path:
        """Path of the page."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        page = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(self.title)}</title>"
            f"<style>{_STYLE}</style><h1>{html.escape(self.title)}</h1>{''.join(self.parts)}</html>"
        )
        _replace(target / f"{name}.json", json.dumps(self.facts, indent=2, default=str) + "\n")
        _replace(target / f"{name}.html", page)
        return target / f"{name}.html"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    os.replace(temporary, path)


def new_figure(width: float = 9, height: float = 3) -> tuple[Any, Any]:
    """A matplotlib figure with one axis, drawn without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()
