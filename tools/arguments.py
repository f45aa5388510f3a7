"""Arguments of the programs of this checkout."""

from __future__ import annotations

import argparse
from pathlib import Path

from ordo.runtime.io.durable_files import why_not_writable


def writable_file(text: str) -> Path:
    """Return the file in which results are to be kept; one that cannot be written is refused before the run."""
    problem = why_not_writable(text)
    if problem:
        raise argparse.ArgumentTypeError(f"{text}: {problem}")
    return Path(text)
