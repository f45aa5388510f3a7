"""A folder for what a page has its reader do."""

from __future__ import annotations

import os
import signal
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
