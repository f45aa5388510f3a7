"""A client in a container beside the nodes, which demands that every total is the next one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.docker.engine import ROOT, Engine

T = TypeVar("T")
CLIENT = "test-client"
GAP_MAX_S = 20.0


def await_value(
    probe: Callable[[], T | None], what: str, explain: Callable[[], str] = str, timeout_s: float = 90.0
) -> T:
    deadline_s = time.monotonic() + timeout_s
    while (value := probe()) is None:
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s\n{explain()}"
        time.sleep(0.25)
    return value


class Client:
    """tests/docker/client.py in a container beside the nodes."""

    def __init__(self, engine: Engine, image: str, network: str, endpoints: Sequence[str]) -> None:
        self.engine = engine
        self._last_lines: list[dict[str, Any]] | None = None
        """What it said in all, once its container is gone."""
        mount = f"{ROOT / 'tests' / 'docker' / 'client.py'}:/client.py:ro"
        words = ("run", "-d", "--name", CLIENT, "--no-healthcheck", "--network", network, "-v", mount)
        engine.docker(*words, "--entrypoint", "python3", image, "/client.py", *endpoints)

    def lines(self) -> list[dict[str, Any]]:
        if self._last_lines is not None:
            return self._last_lines
        text = self.engine.docker("logs", CLIENT)
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
        self.engine.docker("stop", "-t", "70", CLIENT)
        self._last_lines = self.lines()
        self.engine.docker("rm", CLIENT)
        last = self._last_lines[-1]
        assert last.get("end") is True, last
        return int(last["total"])
