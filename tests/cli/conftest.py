"""A folder for what a page has its reader do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.pages import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    one = Folder(tmp_path)
    yield one
    one.close()
    for file in tmp_path.rglob("node?.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture
def load() -> Iterator[None]:
    """Two programs that take all the time of two processors, as on a reader's slow machine."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
