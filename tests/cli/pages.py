"""Follows a page as its reader does: one shell runs its commands, files are saved, what is printed is compared.

A block of Python that begins with `# name.py` is saved under that name; a block without a language is what the commands
before it print, and commands without such a block after them print nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ordo.deploy.launcher import ROOT, release_ports, reserve_ports
from tests.cluster.integration.agreement import await_that
from tests.patience import patient
from tests.snippets import Block

TIMEOUT_S = 60.0
DONE = "-- the block is done --"


class Shell:
    """One shell for all blocks, as the reader has; it ends at the first command that fails."""

    def __init__(
        self,
        command: Sequence[str] = ("sh", "-e"),
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=folder, env=environment, text=True, stdin=pipe, stdout=pipe)

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


def follow(blocks: Sequence[Block], shell: Shell, replaced: Callable[[str], str] = str) -> None:
    """Does what the blocks say; `replaced` puts the test's own addresses into them."""
    printed = ""
    for language, text in blocks:
        own = replaced(text)
        if language == "python":
            name = text.splitlines()[0].removeprefix("# ")
            shell.run(f"cat > {name} <<'END OF FILE'\n{own}END OF FILE")
        elif language == "sh":
            assert printed == "", f"the page does not show what is printed:\n{printed}"
            printed = shell.run(own)
        else:
            assert (printed, language) == (replaced(text), ""), (
                f"the page shows:\n{replaced(text)}\nprinted was:\n{printed}"
            )
            printed = ""
    assert printed == "", f"the page does not show what is printed:\n{printed}"


def on_ports_of_its_own(*paths: Path) -> int:
    """Puts ports that nobody uses into the files, instead of 20000, 20010 and 20020. Returns the first of them.

    No other process is given them until this one ends, although nothing may be bound to them yet.
    """
    for base in range(32_000, 32_700, 30):
        taken = [port for port in (base, base + 10, base + 20) if reserve_ports(port)]
        if len(taken) == 3:
            for path in paths:
                path.write_text(replacing(base)(path.read_text()))
            return base
        release_ports(taken)
    raise AssertionError("no free ports")


class Folder:
    """Where the commands run, with `ordo` and `python` on the path; its processes are ended with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started: list[subprocess.Popen[str]] = []
        commands = path / "bin"
        commands.mkdir()
        for name, arguments in (("ordo", "-P -m ordo.cli"), ("python", "")):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
            script.chmod(0o755)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=patient(TIMEOUT_S),
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.path, env=self.environment, text=True)
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            process.wait(patient(TIMEOUT_S))


def replacing(base: int) -> Callable[[str], str]:
    """Puts the ports that `on_ports_of_its_own` found into what the reader types."""
    return lambda text: re.sub(r"\b200([012])0\b", lambda match: str(base + 10 * int(match[1])), text)


def await_end(place: Path) -> None:
    """Waits until the nodes that a page has started have ended."""
    for file in place.glob("node?.pid"):
        process = Path("/proc") / file.read_text().strip()
        await_that(lambda process=process: not process.exists(), f"the end of {file.name}")  # type: ignore[misc]


def programs_in(place: Path) -> list[str]:
    """The commands of programs whose folder is this one, or below."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").resolve().is_relative_to(place.resolve()):
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found
