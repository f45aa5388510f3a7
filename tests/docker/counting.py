"""A client beside the nodes, which demands that every total is the next one."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.docker.engine import ROOT, Engine

T = TypeVar("T")
CLIENT = "test-client"
PROGRAM = ROOT / "tests" / "docker" / "client.py"
GAP_MAX_S = 20.0


def await_value(
    probe: Callable[[], T | None], what: str, explain: Callable[[], str] = str, timeout_s: float = 90.0
) -> T:
    deadline_s = time.monotonic() + timeout_s
    while (value := probe()) is None:
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s\n{explain()}"
        time.sleep(0.25)
    return value


class Counting(ABC):
    """tests/docker/client.py, wherever it runs."""

    _last_lines: list[dict[str, Any]] | None = None
    """What it said in all, once it is gone."""

    @abstractmethod
    def said(self) -> str:
        """All that it has printed."""

    @abstractmethod
    def end(self) -> str:
        """Has it end; returns all that it printed."""

    def lines(self) -> list[dict[str, Any]]:
        return self._lines_of(self.said()) if self._last_lines is None else self._last_lines

    def _lines_of(self, text: str) -> list[dict[str, Any]]:
        wrong = [text.find(word) for word in ("Traceback", '"expected"') if word in text]
        assert not wrong, text[min(wrong) :][:4000]
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def total(self) -> int:
        lines = self.lines()
        return int(lines[-1]["total"]) if lines else 0

    def await_progress(self, count: int = 200) -> None:
        goal = self.total() + count
        await_value(lambda: self.total() >= goal or None, f"{count} more requests")

    def longest_s(self) -> float:
        return max(float(line.get("longest_s", 0)) for line in self.lines())

    def stop(self) -> int:
        """How many requests were made and answered, each with the next number."""
        if self._last_lines is None:
            self._last_lines = self._lines_of(self.end())
        last = self._last_lines[-1]
        assert last.get("end") is True, last
        return int(last["total"])


class Client(Counting):
    """In a container beside the nodes."""

    def __init__(self, engine: Engine, image: str, network: str, endpoints: Sequence[str]) -> None:
        self.engine = engine
        mount = f"{PROGRAM}:/client.py:ro"
        words = ("run", "-d", "--name", CLIENT, "--no-healthcheck", "--network", network, "-v", mount)
        engine.docker(*words, "--entrypoint", "python3", image, "/client.py", *endpoints)

    def said(self) -> str:
        return self.engine.docker("logs", CLIENT)

    def end(self) -> str:
        self.engine.docker("stop", "-t", "70", CLIENT)
        text = self.said()
        self.engine.docker("rm", CLIENT)
        return text
