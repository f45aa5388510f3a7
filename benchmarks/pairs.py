"""What the comparisons with others share: processes that are told by lines what to do, and medians of rounds."""

from __future__ import annotations

import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median

from ordo.runtime.closing import Closing

LINE_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
Samples = dict[str, list[dict[str, float]]]
"""By contender, one dictionary of figures a round."""


class EndFailedError(RuntimeError):
    """A process of a comparison ended, or said something else than it should."""


class End(Closing):
    """One process, told what to do by lines on its standard input. `close` ends it."""

    def __init__(self, command: Sequence[str], cwd: str | None = None) -> None:
        self._command = list(command)
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=cwd
        )
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_line(self, start: str, timeout_s: float = LINE_TIMEOUT_S) -> list[str]:
        """Words after `start` in the next line that begins with it. Raises EndFailedError when none comes in time."""
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + timeout_s
        while self._selector.select(max(0.0, deadline_s - time.monotonic())):
            line = self._process.stdout.readline()
            if not line:
                raise self._ended()
            words = line.split()
            if words and words[0] == start:
                return words[1:]
        raise EndFailedError(f"{self._describe()} did not say {start!r} within {timeout_s:g} s")

    def _ended(self) -> EndFailedError:
        return EndFailedError(f"{self._describe()} ended with status {self._process.wait()}")

    def _describe(self) -> str:
        return " ".join(self._command[-8:])

    def tell(self, line: str) -> None:
        """Tell it a line. Raises EndFailedError when it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def ask(self, line: str) -> list[str]:
        """Tell it a line. Returns what it says after the same first word."""
        self.tell(line)
        return self.await_line(line.split()[0])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # a line that it did not live to read
            self._process.stdin.close()
        if self._process.poll() is None:
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._selector.close()
        self._process.stdout.close()


def medians(samples: Samples) -> dict[str, dict[str, float]]:
    """The median of each figure of each contender over the rounds."""
    return {
        name: {figure: median(each[figure] for each in rounds) for figure in rounds[0]}
        for name, rounds in samples.items()
        if rounds
    }


STEADY_WINDOWS = 3
STEADY_SPREAD = 0.03
WARM_UPS_MAX = 25


def is_steady(values: Sequence[float]) -> bool:
    """Return whether the last windows of a warm-up agree, within 3 %: no compiler makes the program faster any more."""
    last = values[-STEADY_WINDOWS:]
    return len(last) == STEADY_WINDOWS and max(last) - min(last) <= STEADY_SPREAD * max(last)


def warm_up(measure_window: Callable[[], float], windows_max: int = WARM_UPS_MAX) -> bool:
    """Measure windows, which do not count, until they agree; return False if they still did not after so many."""
    values: list[float] = []
    while not is_steady(values):
        if len(values) >= windows_max:
            return False
        values.append(measure_window())
    return True
