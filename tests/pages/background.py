"""Commands of a page that run until they are told to end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ordo.deploy.launcher import ROOT
from tests.patience import patient


@contextmanager
def in_background(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An `ordo` command in the folder of its log, ended by SIGTERM."""
    with log.open("wb") as out:
        command = [sys.executable, "-m", "ordo.cli", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=log.parent, env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(patient(30))
