"""The console all commands print to."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH_OFF_TERMINAL = 160


def output_console() -> Console:
    """As wide as the terminal; wide enough not to break lines when the output goes to a file or another program."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_OFF_TERMINAL)
