"""The console that all commands print to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table

from ordo.runtime.reporting.output import printable, unescaped

WIDTH_OFF_TERMINAL = 160


class OutputConsole(Console):
    """A console that shows text literally, without terminal codes, markup or names of emoji.

    Columns are laid out by the escaped text. Colours are its own.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Escape the text of all segments; those that move the cursor are the console's own."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, "\n"), segment.style)

    def on_broken_pipe(self) -> None:
        """Leave the broken pipe to the command, which ends then."""
        raise


class OutputTable(Table):
    """A table whose cells stay on one line, whatever their content."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(printable(one) if isinstance(one, str) else one for one in cells), **options)


def output_console() -> OutputConsole:
    """Return a console as wide as the terminal, or wide enough that no line breaks in a file or a pipe."""
    return console_on(sys.stdout)


def console_on(stream: IO[str] | None) -> OutputConsole:
    """Return such a console on any stream."""
    if stream is not None and stream.isatty():
        return OutputConsole(file=unescaped(stream))
    return OutputConsole(file=unescaped(stream), width=WIDTH_OFF_TERMINAL)
