"""Programs of others as peers: processes that are driven by lines, and what is kept of them between runs."""

from __future__ import annotations

import fcntl
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, Self

import pytest

from tests.patience import patient

LINE_TIMEOUT_S = 60.0


class PeerMissingError(Exception):
    """Why no peer can be had on this machine."""


def are_required() -> bool:
    """Whether every peer has to be there (ORDO_PEERS=required)."""
    return os.environ.get("ORDO_PEERS") == "required"


def go_without(missing: PeerMissingError) -> NoReturn:
    """Skips the test that has no peer here. Where every peer has to be there it fails."""
    if are_required():
        pytest.fail(f"{missing} (ORDO_PEERS=required)")
    pytest.skip(str(missing))


class PeerFailedError(AssertionError):
    """A peer said something else than it should, or nothing; the message holds what it said."""


def cache_folder() -> Path:
    """Where what is fetched and compiled is kept between runs: below the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ordo" / "peers"


@contextmanager
def only_one() -> Iterator[None]:
    """Test processes that run side by side fetch and compile once."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class PeerProcess:
    """One process; what it writes is kept in `said`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def tell(self, line: str) -> None:
        """Sends it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def poll(self) -> str | None:
        """The next line it said, or None. Raises PeerFailedError when that is an error, or when it has ended."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        return self._heard(line)

    def await_line(self, start: str, timeout_s: float = LINE_TIMEOUT_S) -> list[str]:
        """Words after `start` in the next line that begins with it. Raises PeerFailedError when none comes in time."""
        deadline_s = time.monotonic() + patient(timeout_s)
        while True:
            try:
                line = self._heard(self._lines.get(timeout=max(0.0, deadline_s - time.monotonic())))
            except queue.Empty:
                raise self._failure(f"nothing like {start!r} within {timeout_s:g} s") from None
            if line.split(" ")[0] == start:
                return line.split(" ")[1:]

    def demand_none(self, start: str, duration_s: float) -> None:
        """Listen for so long, however patient the run is. Raises PeerFailedError when a line begins with `start`."""
        end_s = time.monotonic() + duration_s
        while (left_s := end_s - time.monotonic()) > 0:
            try:
                line = self._heard(self._lines.get(timeout=left_s))
            except queue.Empty:
                return
            if line.split(" ")[0] == start:
                raise self._failure(f"a line like {start!r}")

    def _heard(self, line: str | None) -> str:
        if line is None:
            raise self._failure(f"it ended with status {self._process.wait()}")
        self.said.append(line)
        if line.startswith(("error ", "Exception in thread")):
            time.sleep(0.2)  # the rest of its stack trace
            while not self._lines.empty():
                self.said.append(self._lines.get() or "")
            raise self._failure("an error")
        return line

    def _failure(self, what: str) -> PeerFailedError:
        return PeerFailedError("\n".join([f"peer: {what}; it said:", *self.said[-40:]]))

    def finish(self) -> None:
        """Ends its input and waits until it has closed everything. Raises PeerFailedError unless it ends well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.await_line("closed")
        if self._process.wait(patient(LINE_TIMEOUT_S)):
            raise self._failure(f"it ended with status {self._process.returncode}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
