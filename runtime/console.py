"""The console all commands print to."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH_OFF_TERMINAL = 160


def output_console() -> Console:
    """Returns a console as wide as the terminal, or so wide that no line breaks in a file or a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_OFF_TERMINAL)
