"""Errors raised by foreign code, reported to its author: in a line with file and line number, and as a traceback."""

from __future__ import annotations

import traceback
from pathlib import Path

from ordo.runtime.errors import ServiceError

LINE_LENGTH_MAX = 200
HOUSE = Path(__file__).parents[2]
"""The folder of the package `ordo`."""


def place_of(error: BaseException) -> str:
    """Return file and line of the author's own code that raised, or that called what raised; '' if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = list(traceback.extract_tb(error.__traceback__))
    frames = [one for one in frames if not _is_own(one.filename)] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _is_own(file_name: str) -> bool:
    path = Path(file_name)
    return path.is_relative_to(HOUSE) or path.parts[0] == HOUSE.name  # compiled modules know their path below it


def one_line(error: BaseException) -> str:
    """Return an error as `ZeroDivisionError: division by zero (ledger.py:12)`, of bounded length."""
    file_name, _, line = place_of(error).rpartition(":")
    name = type(error).__name__
    text = " ".join(str(error).split())
    text = f"{name}: {text}" if text else name
    if len(text) > LINE_LENGTH_MAX:
        text = f"{text[:LINE_LENGTH_MAX]}..."
    return f"{text} ({Path(file_name).name}:{line})" if file_name else text


def exit_error(end: SystemExit) -> ServiceError:
    """Return the failure of a service that has called `sys.exit`, which is no way out of a callback."""
    return ServiceError(f"sys.exit({'' if end.code is None else repr(end.code)}): a service may not end its process")


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, without the last newline."""
    return "".join(traceback.format_exception(error)).rstrip()
