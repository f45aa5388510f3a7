"""The clients of examples/clients/: built by the commands of docs/GATEWAY.md, and run."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordo.deploy.launcher import ROOT
from tests.cluster.integration.agreement import await_that
from tests.patience import patient
from tests.peers.peer_process import cache_folder, only_one
from tests.snippets import Page

PROGRAMS = {"go": ("go",), "java": ("mvn", "javac"), "typescript": ("npm", "node"), "rust": ("cargo",)}
"""Language -> what builds its client."""
NOT_SOURCES = ("bin", "ordo", "target", "build", "generated", "node_modules")
BUILD_TIMEOUT_S = 1500.0
TIMEOUT_S = patient(60.0)


class Client(NamedTuple):
    """A client that was built: in which folder, and the words that begin its command."""

    folder: Path
    words: list[str]


class Running:
    """A client at work; what it says goes to files."""

    def __init__(self, client: Client, environment: Mapping[str, str], output: Path, *words: str) -> None:
        self.output = output
        with output.open("wb") as said, output.with_suffix(".err").open("wb") as complaints:
            self.process = subprocess.Popen(
                [*client.words, *words],
                cwd=client.folder,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=complaints,
            )

    def tell(self, lines: list[str]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def rows(self) -> list[list[str]]:
        """The fields of each line that is whole."""
        lines = self.output.read_text().splitlines(keepends=True)
        return [line.rstrip("\n").split("\t") for line in lines if line.endswith("\n")]

    def complaints(self) -> list[str]:
        """What it has said on stderr: a line for each call that it makes again, at the next gateway."""
        return self.output.with_suffix(".err").read_text().splitlines()

    def await_rows(self, count: int) -> None:
        await_that(lambda: len(self.rows()) >= count, f"{count} lines in {self.output.name}", TIMEOUT_S, self.explain)

    def explain(self) -> str:
        return f"{len(self.rows())} lines; status {self.process.poll()}: {self.complaints()}"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()  # closes what it was told by, too


@contextmanager
def running(*arguments: Any) -> Iterator[Running]:
    client = Running(*arguments)
    try:
        yield client
    finally:
        client.kill()


def built(page: Page, language: str) -> Client:
    """The client, built by the page's commands in a copy of its sources the first time; their last line runs it."""
    missing = [program for program in PROGRAMS[language] if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    *build, run = page.take("sh", f"examples/clients/{language}\n").splitlines()
    sources = ROOT / "examples" / "clients" / language
    files = sorted(one for one in sources.rglob("*") if one.is_file() and is_source(one.relative_to(sources)))
    files.append(ROOT / "service_api" / "ordo.proto")
    digest = hashlib.sha256("".join(build).encode() + b"".join(one.read_bytes() for one in files)).hexdigest()[:16]
    root = cache_folder() / f"client-{language}-{digest}"
    with only_one():
        if not root.is_dir():
            for old in cache_folder().glob(f"*client-{language}-*"):
                shutil.rmtree(old)
            partial = root.with_name(f"partial-{root.name}")
            make(partial, files, build)
            partial.rename(root)
    return Client(root / "examples" / "clients" / language, shlex.split(run.partition(" submit ")[0]))


def is_source(path: Path) -> bool:
    """Whether it is not what a build in the checkout has left."""
    return path.parts[0] not in NOT_SOURCES


def make(root: Path, files: list[Path], commands: list[str]) -> None:
    for file in files:
        copy = root / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    python = Path(sys.executable)  # has grpcio-tools
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)],
        cwd=root,
        env={**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
