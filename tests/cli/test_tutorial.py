"""docs/TUTORIAL.md, word for word, in an empty folder: one shell runs its commands, and prints what the page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.launcher import ROOT
from tests.cli.test_start import Folder, on_ports_of_its_own
from tests.cluster.integration.agreement import await_that

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PAGE = (ROOT / "docs" / "TUTORIAL.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
DONE = "-- the block is done --"


class Shell:
    """One shell for all blocks, as the reader has; it ends at the first command that fails."""

    def __init__(self, folder: Folder) -> None:
        self._process = subprocess.Popen(
            ["sh", "-e"],
            cwd=folder.path,
            env=folder.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, block: str) -> str:
        """Returns what the block printed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{block}\necho '{DONE}'\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line == f"{DONE}\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended in:\n{block}\nafter it printed:\n{''.join(lines)}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    yield Folder(tmp_path)
    for file in tmp_path.rglob("node?.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def replaced(text: str, base: int) -> str:
    return re.sub(r"\b200([012])0\b", lambda match: str(base + 10 * int(match[1])), text)


def test_the_page_word_for_word(folder: Folder) -> None:
    (_, made), *blocks = BLOCKS
    shell = Shell(folder)
    try:
        shell.run(made)
        bank = folder.path / "bank"
        base = on_ports_of_its_own(*bank.glob("node*.toml"))
        printed = ""
        for language, text in blocks:
            own = replaced(text, base)
            if language == "python":
                (bank / text.splitlines()[0].removeprefix("# ")).write_text(own)
            elif language == "sh":
                assert printed == "", "the page does not show what is printed"
                printed = shell.run(own)
            else:
                assert (printed, language) == (text, "")
                printed = ""
    finally:
        shell.close()
    for file in bank.glob("node?.pid"):
        process = Path("/proc") / file.read_text().strip()
        await_that(lambda process=process: not process.exists(), f"the end of {file.name}")  # type: ignore[misc]
